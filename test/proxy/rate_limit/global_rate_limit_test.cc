// The messages of Envoy's rate limit service.
#include "proxy/rate_limit/global_rate_limit.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/handshake.h"
#include "proxy/http/message/client_ip.h"
#include "sluice/chunk_pool.h"
#include "test/support/proto.h"

namespace sluice {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)
using config::RateDescriptor;
using config::RateEntry;
using test::proto_bytes;
using test::proto_number;
using test::proto_pair;

config::FieldName name(std::string_view text) { return config::FieldName::parse(text).value(); }
RateEntry entry(auto member, auto value, std::string key = "") {
  RateEntry made;
  made.*member = value;
  made.key = std::move(key);
  return made;
}

class RateDescriptorsTest : public testing::Test {
 protected:
  RateDescriptorsTest() {
    limits_.domain = "edge";
    EXPECT_TRUE(fields_.add(pool_, "x-key", "k") && fields_.add(pool_, "cookie", "a=1; s=2") &&
                fields_.add(pool_, "x-sub", "ann\xff"));
    facts_.host = "a.test";
    facts_.fields = &fields_;
    facts_.client = &client_;
  }
  std::string write(const std::vector<RateDescriptor>* route = nullptr) {
    RateDescriptors made(limits_, route, {.route = "edge/r", .claims = {{.claim = "sub", .header = name("x-sub")}}});
    return std::string(made.write_request(facts_));
  }
  static std::string request(std::string_view descriptors) {
    return proto_bytes(1, "edge").append(descriptors).append(proto_number(3, 1));
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  const ChunkPool::Use use_{&pool_};
  Fields fields_;
  config::GlobalRateLimits limits_;
  RequestAttributes facts_;
  ClientIp client_{std::array<uint8_t, 4>{192, 0, 2, 1}};
};

TEST_F(RateDescriptorsTest, Entries) {
  Agreement agreed;
  agreed.server_name = "sni.test";
  agreed.peer_names = {"spiffe://a/b"};
  facts_.agreed = &agreed;
  limits_.descriptors = {
      {{entry(&RateEntry::source, true), entry(&RateEntry::route, true)}},
      {{entry(&RateEntry::host, true), entry(&RateEntry::sni, true), entry(&RateEntry::peer, true)}}};
  const std::vector<RateDescriptor> route = {
      {{entry(&RateEntry::header, name("X-Key"), "api_key"), entry(&RateEntry::cookie, "s"s)}},
      {{entry(&RateEntry::jwt_claim, "sub"s), entry(&RateEntry::value, "logins"s),
        entry(&RateEntry::header, name("x-key"))}}};
  EXPECT_EQ(write(&route),
            request(proto_bytes(2, proto_pair(1, "remote_address", "192.0.2.1") + proto_pair(1, "route", "edge/r")) +
                    proto_bytes(2, proto_pair(1, "host", "a.test") + proto_pair(1, "sni", "sni.test") +
                                       proto_pair(1, "peer", "spiffe://a/b")) +
                    proto_bytes(2, proto_pair(1, "api_key", "k") + proto_pair(1, "s", "2")) +
                    proto_bytes(2, proto_pair(1, "sub", "ann!") + proto_pair(1, "generic_key", "logins") +
                                       proto_pair(1, "x-key", "k"))));
}

TEST_F(RateDescriptorsTest, WhatIsLacking) {
  limits_.descriptors = {{{entry(&RateEntry::source, true), entry(&RateEntry::header, name("x-none"))}}};
  EXPECT_EQ(write(), "");
  limits_.descriptors.push_back({{entry(&RateEntry::host, true)}});
  EXPECT_EQ(write(), request(proto_bytes(2, proto_pair(1, "host", "a.test"))));
  client_ = ClientIp();  // A Unix socket.
  limits_.descriptors = {{{entry(&RateEntry::source, true)}}};
  EXPECT_EQ(write(), "");
  EXPECT_TRUE(RateDescriptors(config::GlobalRateLimits(), nullptr, {}).empty());
}

TEST_F(RateDescriptorsTest, Ipv6Networks) {
  client_ = ClientIp(std::array<uint8_t, 16>{0x20, 1, 0xd, 0xb8, 0, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  limits_.descriptors = {{{entry(&RateEntry::source, true)}}};
  EXPECT_EQ(write(), request(proto_bytes(2, proto_pair(1, "remote_address", "2001:db8:1:2::/64"))));
}

TEST_F(RateDescriptorsTest, LongValues) {
  const std::string value(5000, 'v');
  ASSERT_TRUE(fields_.add(pool_, "x-long", value));
  for (int i = 0; i < 40; ++i) limits_.descriptors.push_back({{entry(&RateEntry::header, name("x-long"))}});
  std::string all;
  for (int i = 0; i < 40; ++i) all += proto_bytes(2, proto_pair(1, "x-long", value.substr(0, 1024)));
  EXPECT_EQ(write(), request(all));
}

TEST(RateLimitResponseTest, Verdicts) {
  EXPECT_FALSE(read_rate_limit_response(proto_number(1, 1))->over_limit);
  EXPECT_TRUE(read_rate_limit_response(proto_number(1, 2))->over_limit);
  for (const std::string& message :
       {""s, proto_number(1, 0), proto_number(1, 3), "\xff"s, proto_number(1, 1) + proto_bytes(2, "\x08"),
        proto_number(1, 1) + proto_bytes(3, "\x0a\x05"), proto_number(1, 1) + proto_pair(3, "a", "b\nc"),
        proto_number(1, 1) + proto_pair(4, "host", "b"), proto_number(1, 2) + proto_bytes(2, proto_bytes(2, "\x0a"))}) {
    EXPECT_FALSE(read_rate_limit_response(message)) << testing::PrintToString(message);
  }
}

std::string limit_status(uint64_t code, std::string_view limit, uint64_t reset_s) {
  return proto_bytes(2, proto_number(1, code) + proto_bytes(2, limit) + proto_bytes(4, proto_number(1, reset_s)));
}

std::string limit_fields(std::string_view message) {
  ChunkPool pool({.budget_bytes = size_t{1} << 20});
  const ChunkPool::Use use(&pool);
  std::string text;
  {
    Fields fields;
    EXPECT_TRUE(add_response_fields(pool, message, fields));
    EXPECT_TRUE(add_limit_fields(pool, *read_rate_limit_response(message), "edge", fields));
    for (const Fields::Field field : fields) text.append(field.name).append("=").append(field.value).append(" ");
  }
  return text;
}

TEST(RateLimitResponseTest, Limits) {
  const std::string over = proto_number(1, 2);
  const std::string hourly = proto_number(1, 5) + proto_number(2, 3) + proto_bytes(3, "logins");
  EXPECT_EQ(limit_fields(over + limit_status(1, proto_number(1, 9) + proto_number(2, 1), 1) +
                         limit_status(2, hourly, 60) + limit_status(2, hourly, 70)),
            "retry-after=60 ratelimit-policy=\"logins\";q=5;w=3600 ratelimit=\"logins\";r=0;t=60 ");
  // A multiple of the unit; a name that is none.
  EXPECT_EQ(limit_fields(over + limit_status(2,
                                             proto_number(1, 5) + proto_number(2, 1) + proto_bytes(3, "a\"b") +
                                                 proto_bytes(4, proto_number(1, 10)),
                                             3)),
            "retry-after=3 ratelimit-policy=\"edge\";q=5;w=10 ratelimit=\"edge\";r=0;t=3 ");
  EXPECT_EQ(limit_fields(over), "");
  // What the service says itself counts.
  EXPECT_EQ(limit_fields(over + proto_pair(3, "Retry-After", "7") + limit_status(2, "", 60)), "retry-after=7 ");
}

TEST(RateLimitResponseTest, Fields) {
  const std::string message =
      proto_number(1, 1) + proto_pair(3, "X-Client", "1") + proto_pair(4, "X-Up", "2") + proto_pair(4, "X-Up", "3");
  const auto response = read_rate_limit_response(message);
  ASSERT_TRUE(response);
  EXPECT_TRUE(response->changes_request && response->changes_response);
  ChunkPool pool({.budget_bytes = size_t{1} << 20});
  const ChunkPool::Use use(&pool);
  Fields up;
  EXPECT_TRUE(add_request_fields(pool, message, up));
  EXPECT_EQ(up.size(), 2u);
  EXPECT_EQ(up[1].name, "x-up");
  EXPECT_EQ(up[1].value, "3");
}

}  // namespace
}  // namespace sluice
