#include "proxy/http/proxy/forward_head.h"

#include <gtest/gtest.h>
#include <time.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/message/http_date.h"
#include "proxy/http/message/long_text.h"
#include "proxy/http/proxy/client_address.h"

namespace sluice {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

class ForwardHeadTest : public ::testing::Test {
 protected:
  ForwardHeadTest() : pool_({.budget_bytes = size_t{16} << 20}), use_(&pool_) {}
  ~ForwardHeadTest() override { EXPECT_EQ(pool_.leaked(), 0u); }

  Head with(const Pairs& fields) {
    Head head;
    for (const auto& [name, value] : fields) EXPECT_TRUE(head.fields.add(pool_, name, value));
    return head;
  }
  static Pairs fields_of(const Head& head) {
    Pairs pairs;
    for (const Fields::Field field : head.fields) pairs.emplace_back(field.name, field.value);
    return pairs;
  }
  Pairs forwarded(const Pairs& fields, std::string_view client, bool secure = false, bool http2 = false) {
    Head head = with(fields);
    EXPECT_TRUE(add(client, secure, via_of(config_, http2), head));
    return fields_of(head);
  }

  bool add(std::string_view client, bool secure, std::string_view via, Head& head) {
    const ClientIp ip = parse_forwarded_address(client).value_or(ClientIp());
    const Origin origin{ip, claimed_client_.value_or(ip), secure ? "https" : "http", "a.example:8080", "edge"};
    return add_origin(pool_, config_, origin, via, refused_, head);
  }

  ChunkPool pool_;
  ChunkPool::Use use_;
  config::Http config_;
  std::optional<ClientIp> claimed_client_;
  ClaimCounters refused_;
};

// Defect: the empty text, which may be a null pointer, was passed to memcpy, which is undefined behavior.
TEST_F(ForwardHeadTest, AddsToAnEmptyList) {
  config_.forwarded_for = config::ForwardedFor::kAppend;
  config_.forwarded = config::ForwardedFor::kAppend;
  const Pairs fields = forwarded({{"x-forwarded-for", ""}, {"x-forwarded-for", "a"}, {"forwarded", ""}}, "203.0.113.7");
  ASSERT_FALSE(fields.empty());
  EXPECT_EQ(fields[1], (std::pair<std::string, std::string>("x-forwarded-for", ", a, 203.0.113.7")));
  LongText& text = LongText::scratch();
  text.add(std::string_view());
  EXPECT_TRUE(text.empty());
}

TEST_F(ForwardHeadTest, AddsTheClient) {
  EXPECT_EQ(
      forwarded({{"a", "b"}}, "203.0.113.7"),
      (Pairs{{"a", "b"}, {"x-forwarded-for", "203.0.113.7"}, {"x-forwarded-proto", "http"}, {"via", "1.1 sluice"}}));
  EXPECT_EQ(forwarded({}, "2001:db8::1", true, true),
            (Pairs{{"x-forwarded-for", "2001:db8::1"}, {"x-forwarded-proto", "https"}, {"via", "2 sluice"}}));
}

TEST_F(ForwardHeadTest, AppendsToExistingFields) {
  EXPECT_EQ(forwarded({{"x-forwarded-for", "1.1.1.1, 2.2.2.2"}, {"x", "y"}, {"x-forwarded-proto", "https"}}, "3.3.3.3"),
            (Pairs{{"x", "y"},
                   {"x-forwarded-for", "1.1.1.1, 2.2.2.2, 3.3.3.3"},
                   {"x-forwarded-proto", "http"},
                   {"via", "1.1 sluice"}}));
  // Several fields become one: servers differ in which they read.
  EXPECT_EQ(forwarded({{"x-forwarded-for", "1.1.1.1"}, {"x-forwarded-for", "2.2.2.2"}}, "3.3.3.3")[0],
            (std::pair<std::string, std::string>("x-forwarded-for", "1.1.1.1, 2.2.2.2, 3.3.3.3")));
}

TEST_F(ForwardHeadTest, Replaces) {
  config_.forwarded_for = config::ForwardedFor::kReplace;
  EXPECT_EQ(forwarded({{"x-forwarded-for", "1.1.1.1"}, {"x-forwarded-for", "2.2.2.2"}}, "3.3.3.3"),
            (Pairs{{"x-forwarded-for", "3.3.3.3"}, {"x-forwarded-proto", "http"}, {"via", "1.1 sluice"}}));
  // No field of a client is trusted, even if there is no client address (Unix sockets).
  EXPECT_EQ(forwarded({{"x-forwarded-for", "1.1.1.1"}}, ""),
            (Pairs{{"x-forwarded-proto", "http"}, {"via", "1.1 sluice"}}));
}

TEST_F(ForwardHeadTest, LeavesFieldsUnchanged) {
  config_.forwarded_for = config::ForwardedFor::kOff;
  config_.via.clear();
  const Pairs fields = {{"x-forwarded-for", "1.1.1.1"}, {"x-forwarded-proto", "gopher"}};
  EXPECT_EQ(forwarded(fields, "3.3.3.3", true), fields);
}

TEST_F(ForwardHeadTest, ClientWithoutAnAddress) {
  EXPECT_EQ(forwarded({{"x-forwarded-for", "1.1.1.1"}}, "")[0],
            (std::pair<std::string, std::string>("x-forwarded-for", "1.1.1.1")));
  EXPECT_EQ(forwarded({}, "")[0], (std::pair<std::string, std::string>("x-forwarded-proto", "http")));
}

// A list as long as a head may be: it fits, or nothing is sent.
TEST_F(ForwardHeadTest, NoRoom) {
  for (const size_t size : {30'000u, 60'000u, 64'000u, 65'000u, 65'400u, 65'480u}) {
    Head head;
    if (!head.fields.add(pool_, "x-forwarded-for", std::string(size, '1'))) continue;
    if (add("203.0.113.7", false, "1.1 sluice", head)) {
      EXPECT_EQ(head.fields.value("x-forwarded-for"), std::string(size, '1') + ", 203.0.113.7") << size;
      EXPECT_EQ(head.fields.value("via"), "1.1 sluice") << size;
    } else {
      EXPECT_GT(size, 32'000u);
    }
  }
}

// Appended values have the address of the peer; replaced ones, the client address that trusted proxies report.
TEST_F(ForwardHeadTest, ClientBehindTrustedProxies) {
  claimed_client_ = parse_forwarded_address("2001:db8::7");
  config_.forwarded = config::ForwardedFor::kAppend;
  EXPECT_EQ(forwarded({{"x-forwarded-for", "2001:db8::7"}}, "10.0.0.1"),
            (Pairs{{"forwarded", "for=10.0.0.1;proto=http;host=\"a.example:8080\";by=_edge"},
                   {"x-forwarded-for", "2001:db8::7, 10.0.0.1"},
                   {"x-forwarded-proto", "http"},
                   {"via", "1.1 sluice"}}));
  config_.forwarded_for = config_.forwarded = config::ForwardedFor::kReplace;
  EXPECT_EQ(forwarded({{"x-forwarded-for", "2001:db8::7"}, {"forwarded", "for=1.1.1.1"}}, "10.0.0.1"),
            (Pairs{{"forwarded", "for=\"[2001:db8::7]\";proto=http;host=\"a.example:8080\";by=_edge"},
                   {"x-forwarded-for", "2001:db8::7"},
                   {"x-forwarded-proto", "http"},
                   {"via", "1.1 sluice"}}));
}

// Defect: the authority is a view into the head. When X-Forwarded-For had moved the head to a larger chunk, Forwarded
// was written from freed memory. ASan detects it.
TEST_F(ForwardHeadTest, HeadsThatMoveWhenTheyGrow) {
  config_.forwarded = config::ForwardedFor::kAppend;
  for (size_t bytes = 0; bytes < 600; ++bytes) {
    Head head = with({{"a", std::string(bytes, 'x')}});
    ASSERT_TRUE(head.set(pool_, Head::Part::kAuthority, "b.example"));
    const ClientIp ip = parse_forwarded_address("203.0.113.7").value();
    ASSERT_TRUE(add_origin(pool_, config_, {ip, ip, "http", head.authority(), "edge"}, "1.1 sluice", refused_, head));
    ASSERT_EQ(head.fields.value("forwarded"), "for=203.0.113.7;proto=http;host=b.example;by=_edge");
  }
}

TEST_F(ForwardHeadTest, ViaAfterOthers) {
  Head head = with({{"via", "1.0 fred"}});
  config_.via = "edge-7";
  EXPECT_TRUE(add_via(pool_, via_of(config_, true), head));
  EXPECT_EQ(fields_of(head), (Pairs{{"via", "1.0 fred"}, {"via", "2 edge-7"}}));
  config_.via.clear();
  EXPECT_EQ(via_of(config_, false), "");
  EXPECT_TRUE(add_via(pool_, via_of(config_, false), head));
  EXPECT_EQ(head.fields.size(), 2u);
}

// As long as a configuration may make it.
TEST_F(ForwardHeadTest, LongVia) {
  config_.via = std::string(64, 'v');
  Head head;
  EXPECT_TRUE(add_via(pool_, via_of(config_, false), head));
  EXPECT_EQ(head.fields.value("via"), "1.1 " + config_.via);
}

TEST(GrpcTimeoutTest, Values) {
  const std::pair<std::string_view, std::optional<uint64_t>> cases[] = {
      {"1H", 3'600'000},
      {"2M", 120'000},
      {"3S", 3000},
      {"4m", 4},
      {"0m", 0},
      {"5u", 1},
      {"1000u", 1},
      {"1001u", 2},
      {"6n", 1},
      {"1000000n", 1},
      {"1000001n", 2},
      {"99999999H", 99'999'999 * uint64_t{3'600'000}},
      {"099m", 99},
      {"100000000m", std::nullopt},  // Nine digits.
      {"", std::nullopt},
      {"m", std::nullopt},
      {"1", std::nullopt},
      {"1s", std::nullopt},
      {"1h", std::nullopt},
      {"-1m", std::nullopt},
      {"+1m", std::nullopt},
      {" 1m", std::nullopt},
      {"1 m", std::nullopt},
      {"1.5S", std::nullopt},
      {"1mm", std::nullopt},
      {"0x1m", std::nullopt},
  };
  for (const auto& [text, milliseconds] : cases) EXPECT_EQ(parse_grpc_timeout(text), milliseconds) << text;
}

TEST_F(ForwardHeadTest, GrpcRequests) {
  const std::pair<std::string, bool> cases[] = {{"application/grpc", true},
                                                {"application/grpc+proto", true},
                                                {"application/grpc;x=y", true},
                                                {"application/grpc-web", false},
                                                {"application/grpcx", false},
                                                {"application/json", false},
                                                {"", false}};
  for (const auto& [type, is] : cases) {
    Head head = with({{"content-type", type}});
    EXPECT_FALSE(is_grpc(head)) << "without a method";
    ASSERT_TRUE(head.set(pool_, Head::Part::kMethod, "POST"));
    EXPECT_EQ(is_grpc(head), is) << type;
    // Defect: a GET with this type and an expired deadline got 200 without a body, also from a cache.
    ASSERT_TRUE(head.set(pool_, Head::Part::kMethod, "GET"));
    EXPECT_FALSE(is_grpc(head)) << type;
  }
  EXPECT_FALSE(is_grpc(Head()));
}

TEST(HttpDateTest, IsNow) {
  const std::string text(http_date());
  tm parts{};
  ASSERT_EQ(text.size(), 29u) << text;
  const char* const rest = strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  ASSERT_TRUE(rest != nullptr && *rest == '\0') << text;
  EXPECT_LE(std::abs(static_cast<long>(timegm(&parts)) - static_cast<long>(time(nullptr))), 2);
}

}  // namespace
}  // namespace sluice
