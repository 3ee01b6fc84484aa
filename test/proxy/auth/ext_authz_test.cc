// The messages of Envoy's external authorization.
#include "proxy/auth/ext_authz.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "alts_like/handshake.h"
#include "proxy/http/message/client_ip.h"
#include "sluice/chunk_pool.h"
#include "test/support/proto.h"

namespace sluice {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)
using test::proto_bytes;
using test::proto_number;
using test::proto_option;
using test::proto_pair;
using Verdict = CheckResponse::Verdict;

class CheckRequestTest : public testing::Test {
 protected:
  CheckRequestTest() {
    set(Head::Part::kMethod, "PUT");
    set(Head::Part::kScheme, "https");
    set(Head::Part::kAuthority, "a.test");
    set(Head::Part::kPath, "/p?q=1");
  }
  void set(Head::Part part, std::string_view value) { ASSERT_TRUE(head_.set(pool_, part, value)); }
  void add(std::string_view name, std::string_view value) { ASSERT_TRUE(head_.fields.add(pool_, name, value)); }
  std::string write(bool ended = true) {
    facts_.method = head_.method();
    facts_.authority = head_.authority();
    facts_.scheme = head_.scheme();
    facts_.fields = &head_.fields;
    facts_.client = &client_;
    facts_.client_port = 1234;
    std::string room(kMaxCheckRequestBytes, '\0');
    return std::string(write_check_request(
        {.head = head_, .facts = facts_, .local = local_, .ended = ended, .unix_micros = 5'000'006}, room));
  }
  static std::string address(std::string_view ip, uint16_t port) {
    return proto_bytes(1, proto_bytes(1, proto_bytes(2, ip) + proto_number(3, port)));
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  const ChunkPool::Use use_{&pool_};
  Head head_;
  RequestAttributes facts_;
  ClientIp client_{std::array<uint8_t, 4>{192, 0, 2, 1}};
  PeerAddress local_ = PeerAddress::ip4(std::array{std::byte{10}, std::byte{0}, std::byte{0}, std::byte{1}}, 443);
};

TEST_F(CheckRequestTest, Attributes) {
  add("cookie", "a=1");
  add("x-a", "1");
  add("cookie", "b=2");
  add("x-a", "2\xff");
  add("content-length", "7");
  facts_.request_id = "id-1";
  facts_.http2 = true;
  Agreement agreed;
  agreed.server_name = "sni.test";
  agreed.peer_names = {"spiffe://a/b", "other"};
  facts_.agreed = &agreed;
  const std::string http = proto_bytes(1, "id-1") + proto_bytes(2, "PUT") + proto_pair(3, ":method", "PUT") +
                           proto_pair(3, ":path", "/p?q=1") + proto_pair(3, ":authority", "a.test") +
                           proto_pair(3, ":scheme", "https") + proto_pair(3, "cookie", "a=1; b=2") +
                           proto_pair(3, "x-a", "1,2!") + proto_pair(3, "content-length", "7") +
                           proto_bytes(4, "/p?q=1") + proto_bytes(5, "a.test") + proto_bytes(6, "https") +
                           proto_number(9, 7) + proto_bytes(10, "HTTP/2");
  EXPECT_EQ(write(false), proto_bytes(1, proto_bytes(1, address("192.0.2.1", 1234) + proto_bytes(4, "spiffe://a/b")) +
                                             proto_bytes(2, address("10.0.0.1", 443)) +
                                             proto_bytes(4, proto_bytes(1, proto_number(1, 5) + proto_number(2, 6000)) +
                                                                proto_bytes(2, http)) +
                                             proto_bytes(12, proto_bytes(1, "sni.test"))));
}

TEST_F(CheckRequestTest, SizeAndMethod) {
  EXPECT_NE(write(true).find(proto_number(9, 0) + proto_bytes(10, "HTTP/1.1")), std::string::npos);
  EXPECT_NE(write(false).find(proto_number(9, UINT64_MAX)), std::string::npos);  // -1: unknown.
  set(Head::Part::kMethod, "CONNECT");
  set(Head::Part::kProtocol, "websocket");
  EXPECT_NE(write().find(proto_bytes(2, "GET")), std::string::npos);
}

TEST_F(CheckRequestTest, UnixSockets) {
  client_ = ClientIp();
  local_ = PeerAddress();
  const std::string pipe = proto_bytes(1, proto_bytes(2, ""));
  EXPECT_NE(write().find(proto_bytes(1, pipe) + proto_bytes(2, pipe)), std::string::npos);
}

// The largest head that there can be.
TEST_F(CheckRequestTest, MuchRoom) {
  head_.clear();
  set(Head::Part::kMethod, "GET");
  set(Head::Part::kScheme, "https");
  set(Head::Part::kAuthority, std::string(10'000, 'a'));
  set(Head::Part::kPath, "/" + std::string(20'000, 'p'));
  for (int i = 0; i < 1000; ++i) {
    if (!head_.fields.add(pool_, "x-" + std::to_string(i), "12345678901234567890")) break;
  }
  EXPECT_GT(write().size(), 50'000u);
}

TEST(CheckResponseTest, Allowed) {
  EXPECT_EQ(read_check_response("")->verdict, Verdict::kAllowed);
  EXPECT_EQ(read_check_response(proto_bytes(1, ""))->verdict, Verdict::kAllowed);
  const std::string ok = proto_option(2, "x-user", "ann");
  const std::string message = proto_bytes(1, proto_bytes(2, "fine")) + proto_bytes(3, ok);
  const auto response = read_check_response(message);
  EXPECT_EQ(response->verdict, Verdict::kAllowed);
  EXPECT_EQ(response->details, ok);
  EXPECT_FALSE(response->changes_response);
  EXPECT_TRUE(read_check_response(proto_bytes(3, proto_option(6, "x-a", "b")))->changes_response);
}

TEST(CheckResponseTest, Denied) {
  const std::string denied =
      proto_bytes(1, proto_number(1, 302)) + proto_option(2, "location", "/login") + proto_bytes(3, "go");
  const std::string message = proto_bytes(1, proto_number(1, 7)) + proto_bytes(2, denied);
  const auto response = read_check_response(message);
  EXPECT_EQ(response->verdict, Verdict::kDenied);
  EXPECT_EQ(response->status, 302);
  EXPECT_EQ(response->body, "go");
  const auto bare = read_check_response(proto_bytes(1, proto_number(1, UINT64_MAX)));
  EXPECT_EQ(bare->verdict, Verdict::kDenied);
  EXPECT_EQ(bare->status, 403);
  // The status decides, whatever else is there.
  EXPECT_EQ(read_check_response(proto_bytes(1, proto_number(1, 7)) + proto_bytes(3, ""))->verdict, Verdict::kDenied);
  EXPECT_EQ(read_check_response(proto_bytes(1, proto_number(1, 2)) + proto_bytes(5, ""))->verdict, Verdict::kError);
}

TEST(CheckResponseTest, Malformed) {
  const std::string refused = proto_bytes(1, proto_number(1, 7));
  for (const std::string& message : {
           "\xff"s,
           proto_bytes(1, "\x08"),
           proto_bytes(3, "\x12\x05x"),
           proto_bytes(3, proto_bytes(2, "\x0a\x09")),
           proto_bytes(3, proto_option(2, "host", "b")),
           proto_bytes(3, proto_option(2, "a", "b\r\nc: d")),
           proto_bytes(3, proto_option(2, "a b", "c")),
           proto_bytes(3, proto_option(6, ":status", "200")),
           proto_bytes(3, proto_option(2, "a", "b", proto_number(3, 9))),
           refused + proto_bytes(2, "\x0a"),
           refused + proto_bytes(2, proto_bytes(1, proto_number(1, 100))),
           refused + proto_bytes(2, proto_bytes(1, proto_number(1, 600))),
       }) {
    EXPECT_FALSE(read_check_response(message)) << testing::PrintToString(message);
  }
}

class CheckedFieldsTest : public testing::Test {
 protected:
  std::string text() {
    std::string text;
    for (const Fields::Field field : fields_) text.append(field.name).append("=").append(field.value).append(" ");
    return text;
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  const ChunkPool::Use use_{&pool_};
  Fields fields_;
};

TEST_F(CheckedFieldsTest, OfRequests) {
  for (const char* const name : {"x-user", "x-more", "x-if", "cookie"}) ASSERT_TRUE(fields_.add(pool_, name, "old"));
  const std::string append = proto_bytes(2, proto_number(1, 1));
  const std::string message = proto_bytes(
      3, proto_option(2, "X-User", "ann") + proto_option(2, "x-more", "b", append) + proto_option(2, "x-new", "c") +
             proto_option(2, "x-if", "d", proto_number(3, 1)) + proto_bytes(5, "Cookie") + proto_bytes(5, ":path"));
  const auto response = read_check_response(message);
  ASSERT_TRUE(response);
  EXPECT_TRUE(change_request(pool_, *response, fields_));
  EXPECT_EQ(text(), "x-more=old x-if=old x-user=ann x-more=b x-new=c ");
}

TEST_F(CheckedFieldsTest, OfResponses) {
  ASSERT_TRUE(fields_.add(pool_, "server", "old"));
  const std::string ok = proto_option(6, "set-cookie", "a") + proto_option(6, "set-cookie", "b") +
                         proto_option(6, "server", "new", proto_number(3, 2));
  EXPECT_TRUE(change_client_response(pool_, ok, fields_));
  EXPECT_EQ(text(), "set-cookie=a set-cookie=b server=new ");
}

TEST_F(CheckedFieldsTest, OfRefusals) {
  const std::string message =
      proto_bytes(1, proto_number(1, 7)) +
      proto_bytes(2, proto_option(2, "set-cookie", "a") + proto_option(2, "set-cookie", "b") +
                         proto_option(2, "content-length", "9") + proto_option(2, "Location", "/"));
  const auto response = read_check_response(message);
  ASSERT_TRUE(response);
  EXPECT_TRUE(add_denied_fields(pool_, *response, fields_));
  EXPECT_EQ(text(), "set-cookie=a set-cookie=b location=/ ");
}

}  // namespace
}  // namespace sluice
