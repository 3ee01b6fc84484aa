#include "proxy/http/proxy/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/access_log/access_line.h"
#include "proxy/http/message/accept.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/http/message/request_id.h"
#include "proxy/http/proxy/client_address.h"
#include "proxy/http/proxy/forward_head.h"
#include "proxy/tracing/trace_context.h"
#include "sluice/chunk_pool.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice {
namespace {

using testing::MatchesRegex;
using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

constexpr std::string_view kParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

class IdentityTest : public testing::Test {
 protected:
  IdentityTest() : use_(&pool_) {}

  void come(const Pairs& fields, std::string_view peer = "10.0.0.1") {
    head_.clear();
    identity_ = {};
    for (const auto& [name, value] : fields) ASSERT_TRUE(head_.fields.add(pool_, name, value));
    const ClientIp ip = parse_forwarded_address(peer).value_or(ClientIp());
    ASSERT_TRUE(identify(pool_, config_, ip, ids_, refused_, head_, identity_));
  }
  std::string client() const {
    std::array<char, ClientIp::kTextBytes> room;
    return std::string(identity_.client.text(room));
  }
  std::string field(std::string_view name) const {
    std::string all;
    for (const Fields::Field field : head_.fields) {
      if (field.name == name) all += (all.empty() ? "" : " | ") + std::string(field.value);
    }
    return all;
  }
  std::string request_id() const { return std::string(head_.fields.text(identity_.request_id)); }
  std::string trace_id() const { return std::string(head_.fields.text(identity_.trace_id)); }
  uint64_t refused(Claim claim) const { return refused_[static_cast<size_t>(claim)].value(); }
  void trust(std::string_view range) { config_.trusted_proxies = {config::Cidr::parse(range).value()}; }
  void make_ids(config::TrustFrom accept) {
    config_.request_id.emplace().header = config::FieldName::parse("x-request-id").value();
    config_.request_id->accept = accept;
  }

  ChunkPool pool_{{.budget_bytes = size_t{4} << 20}};
  ChunkPool::Use use_;
  config::Http config_;
  RandomIds ids_;
  ClaimCounters refused_;
  Head head_;
  RequestIdentity identity_;
};

TEST_F(IdentityTest, PeerByDefault) {
  EXPECT_FALSE(identifies(config_));
  come({{"x-forwarded-for", "1.1.1.1"},
        {"x-forwarded-proto", "https"},
        {"traceparent", kParent},
        {"x-request-id", "a"}});
  EXPECT_EQ(client(), "10.0.0.1");
  EXPECT_EQ(identity_.scheme, ForwardedScheme::kNone);
  EXPECT_EQ(request_id() + trace_id(), "");
  EXPECT_EQ(field("traceparent"), kParent);
  EXPECT_EQ(field("x-request-id"), "a");
}

TEST_F(IdentityTest, ClientAndSchemeOfATrustedPeer) {
  trust("10.0.0.0/8");
  EXPECT_TRUE(identifies(config_));
  come({{"x-forwarded-for", "6.6.6.6, 1.1.1.1, 10.0.0.2"}, {"x-forwarded-proto", "HTTPS"}});
  EXPECT_EQ(client(), "1.1.1.1");
  EXPECT_EQ(identity_.scheme, ForwardedScheme::kHttps);
  come({{"x-forwarded-for", "1.1.1.1"}, {"x-forwarded-proto", "http"}});
  EXPECT_EQ(identity_.scheme, ForwardedScheme::kHttp);
  come({});
  EXPECT_EQ(client(), "10.0.0.1");
  EXPECT_EQ(refused(Claim::kForwardedFor) + refused(Claim::kForwardedProto), 0u) << "nothing was claimed";
}

TEST_F(IdentityTest, FieldsOfOthersAreIgnored) {
  trust("10.0.0.0/8");
  come({{"x-forwarded-for", "1.1.1.1"}, {"x-forwarded-proto", "https"}}, "11.0.0.1");
  EXPECT_EQ(client(), "11.0.0.1");
  EXPECT_EQ(identity_.scheme, ForwardedScheme::kNone);
  EXPECT_EQ(refused(Claim::kForwardedFor), 0u);
}

TEST_F(IdentityTest, MalformedFieldsAreCounted) {
  trust("10.0.0.0/8");
  come({{"x-forwarded-for", "1.1.1.1, unknown"}, {"x-forwarded-proto", "gopher"}});
  EXPECT_EQ(client(), "10.0.0.1");
  EXPECT_EQ(identity_.scheme, ForwardedScheme::kNone);
  EXPECT_EQ(refused(Claim::kForwardedFor), 1u);
  EXPECT_EQ(refused(Claim::kForwardedProto), 1u);
  come({{"x-forwarded-proto", "https"}, {"x-forwarded-proto", "http"}});
  EXPECT_EQ(identity_.scheme, ForwardedScheme::kNone);
  EXPECT_EQ(refused(Claim::kForwardedProto), 2u);
}

TEST_F(IdentityTest, IdsAreGenerated) {
  make_ids(config::TrustFrom::kNever);
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) {
    come({{"x-request-id", "theirs"}, {"x-request-id", "too"}, {"x", "y"}});
    EXPECT_THAT(request_id(), MatchesRegex("[0-9a-f]{32}"));
    EXPECT_EQ(field("x-request-id"), request_id());
    ids.insert(request_id());
  }
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(refused(Claim::kRequestId), 0u);
}

TEST_F(IdentityTest, TrustedIds) {
  make_ids(config::TrustFrom::kTrusted);
  trust("10.0.0.0/8");
  const std::string uuid = "4bf92f35-77b3-4da6-a3ce-929d0e0e4736";
  come({{"x-request-id", uuid}});
  EXPECT_EQ(request_id(), uuid);
  EXPECT_EQ(field("x-request-id"), uuid);
  come({{"x-request-id", uuid}}, "11.0.0.1");
  EXPECT_NE(request_id(), uuid) << "of somebody else";
  make_ids(config::TrustFrom::kAlways);
  come({{"x-request-id", uuid}}, "11.0.0.1");
  EXPECT_EQ(request_id(), uuid);
  for (const std::string_view malformed : {"", "a b", "a\"b", "a,b", "a<b", "\xc3\xa9"}) {
    come({{"x-request-id", malformed}});
    EXPECT_THAT(request_id(), MatchesRegex("[0-9a-f]{32}")) << malformed;
    EXPECT_EQ(field("x-request-id"), request_id());
  }
  EXPECT_EQ(refused(Claim::kRequestId), 6u);
  come({{"x-request-id", std::string(kMaxRequestIdBytes, 'a')}});
  EXPECT_EQ(request_id().size(), kMaxRequestIdBytes);
  come({{"x-request-id", std::string(kMaxRequestIdBytes + 1, 'a')}});
  EXPECT_EQ(request_id().size(), kRequestIdDigits);
  come({{"x-request-id", "a"}, {"x-request-id", "b"}});
  EXPECT_EQ(request_id().size(), kRequestIdDigits) << "of two nobody knows which";
}

TEST_F(IdentityTest, TraceIsForwarded) {
  for (const config::TraceContext mode : {config::TraceContext::kPass, config::TraceContext::kMake}) {
    config_.trace_context = mode;
    come({{"traceparent", kParent}, {"tracestate", "a=b"}, {"tracestate", "c=d"}});
    EXPECT_EQ(trace_id(), kParent.substr(3, 32));
    const std::optional<TraceParent> forwarded = TraceParent::parse(field("traceparent"));
    ASSERT_TRUE(forwarded) << field("traceparent");
    EXPECT_EQ(std::string_view(forwarded->trace_id.data(), 32), kParent.substr(3, 32));
    EXPECT_NE(std::string_view(forwarded->parent_id.data(), 16), kParent.substr(36, 16)) << "we are the parent now";
    EXPECT_FALSE(forwarded->sampled) << "as the client has decided";
    EXPECT_EQ(field("tracestate"), "a=b | c=d");
  }
}

TEST_F(IdentityTest, TraceIsGenerated) {
  config_.trace_context = config::TraceContext::kPass;
  come({{"tracestate", "a=b"}});
  EXPECT_EQ(field("traceparent") + field("tracestate") + trace_id(), "");
  config_.trace_context = config::TraceContext::kMake;
  come({{"tracestate", "a=b"}});
  const std::optional<TraceParent> forwarded = TraceParent::parse(field("traceparent"));
  ASSERT_TRUE(forwarded) << field("traceparent");
  EXPECT_EQ(trace_id(), std::string_view(forwarded->trace_id.data(), 32));
  EXPECT_TRUE(forwarded->sampled);
  EXPECT_EQ(field("tracestate"), "") << "it was of no trace";
  EXPECT_EQ(refused(Claim::kTraceParent), 0u);
}

TEST_F(IdentityTest, MalformedTrace) {
  const Pairs fields = {{"traceparent", "00-zero-zero-01"}, {"tracestate", "a=b"}};
  config_.trace_context = config::TraceContext::kPass;
  come(fields);
  EXPECT_EQ(field("traceparent") + field("tracestate"), "");
  config_.trace_context = config::TraceContext::kMake;
  come(fields);
  EXPECT_TRUE(TraceParent::parse(field("traceparent")));
  EXPECT_EQ(field("tracestate"), "");
  come({{"traceparent", kParent}, {"traceparent", kParent}});
  EXPECT_NE(trace_id(), kParent.substr(3, 32)) << "of two nobody knows which";
  EXPECT_EQ(refused(Claim::kTraceParent), 3u);
}

// It fits, or the request is refused: never a head with a part of it.
TEST_F(IdentityTest, NoRoom) {
  make_ids(config::TrustFrom::kNever);
  config_.trace_context = config::TraceContext::kMake;
  int refusals = 0;
  for (size_t size = 65'000; size < 65'500; size += 4) {
    Head head;
    if (!head.fields.add(pool_, "x", std::string(size, 'x'))) break;
    RequestIdentity identity;
    if (!identify(pool_, config_, ClientIp(), ids_, refused_, head, identity)) {
      ++refusals;
    } else {
      EXPECT_EQ(head.fields.value("x-request-id").size(), kRequestIdDigits);
      EXPECT_EQ(head.fields.value("traceparent").size(), TraceParent::kBytes);
    }
  }
  EXPECT_GT(refusals, 10);
}

// With all possible configuration, and with what is logged and sent back.
TEST_F(IdentityTest, AllocatesNothing) {
  make_ids(config::TrustFrom::kTrusted);
  trust("10.0.0.0/8");
  config_.trace_context = config::TraceContext::kMake;
  config_.forwarded = config::ForwardedFor::kAppend;
  config_.errors.emplace_back().status = {config::StatusPattern::parse("503").value()};
  config_.errors[0].body = config::ErrorText::parse("<p>%{request_id}").value();
  const ErrorPages pages(config_);
  const config::LogFormat json = config::LogFormat::parse("json").value();
  const config::LogFormat text = config::LogFormat::parse("%{client_ip} \"%{header:x}\" %{request_id}").value();
  std::array<char, kMaxLogLineBytes> line;
  const Pairs fields = {
      {"x-forwarded-for", "1.1.1.1, 10.0.0.2"}, {"forwarded", "for=a"}, {"accept", "application/json"}, {"x", "y"}};
  const auto one_request = [&] {
    come(fields);
    const ClientIp peer = parse_forwarded_address("10.0.0.1").value();
    const Origin origin{peer, identity_.client, "http", "a.example", "edge"};
    ASSERT_TRUE(add_origin(pool_, config_, origin, "1.1 sluice", refused_, head_));
    const OwnError error{
        .status = 503, .reason = "stuck", .message = "m", .request_id = head_.fields.text(identity_.request_id)};
    ASSERT_FALSE(pages.body(error, ErrorForm::kPlain).text.empty());
    ASSERT_FALSE(pages.body(error, preferred_form(head_.fields)).text.empty());
    const RequestAttributes facts{.fields = &head_.fields, .client = &identity_.client, .request_id = error.request_id};
    const AccessRecord record{.client = "192.0.2.1", .request_id = error.request_id, .facts = &facts};
    ASSERT_GT(format_access_line(json, record, line), size_t{100});
    ASSERT_GT(format_access_line(text, record, line), size_t{40});
  };
  one_request();
  const uint64_t before = test::allocations;
  for (int i = 0; i < 100; ++i) one_request();
  EXPECT_EQ(test::allocations - before, 0u);
}

TEST(RandomIds, FollowFromTheirState) {
  RandomIds a({1, 2, 3, 4}), b({1, 2, 3, 4});
  // The first numbers of the authors' reference implementation from this state.
  EXPECT_EQ(a.next(), 11520u);
  EXPECT_EQ(a.next(), 0u);
  EXPECT_EQ(a.next(), 1509978240u);
  EXPECT_EQ(a.next(), 1215971899390074240u);
  std::array<char, 32> digits;
  b.fill(digits);
  // In the order of the words' digits from the lowest one; a word of zeros is skipped.
  EXPECT_EQ(std::string_view(digits.data(), 32), "00d2000000000000080700a500000000");
}

}  // namespace
}  // namespace sluice
