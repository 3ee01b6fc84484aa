#include "proxy/rate_limit/rate_key.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <string_view>

#include "proxy/http/message/fields.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

constexpr RateSecret kSecret{{1, 2}};

class RateKeyTest : public testing::Test {
 protected:
  RateKeyTest() {
    facts_.fields = &fields_;
    come_from({192, 0, 2, 1});
  }
  void come_from(const std::vector<uint8_t>& address) {
    client_ = ClientIp(std::span<const uint8_t>(address));
    facts_.client = &client_;
  }
  void set(std::string_view name, std::string_view value) {
    fields_.clear();
    ASSERT_TRUE(fields_.add(pool_, name, value));
  }
  uint64_t hash(const config::RateKey& key) const { return rate_key_of_request(kSecret, key, place_, facts_); }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  ChunkPool::Use use_{&pool_};
  Fields fields_;
  ClientIp client_;
  RequestAttributes facts_;
  RateKeyPlace place_;
};

TEST_F(RateKeyTest, Source) {
  const config::RateKey key{.source = true};
  const uint64_t first = hash(key);
  EXPECT_EQ(hash(key), first);
  come_from({192, 0, 2, 2});
  EXPECT_NE(hash(key), first);
  come_from({0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1});
  const uint64_t ip6 = hash(key);
  come_from({0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9});
  EXPECT_EQ(hash(key), ip6);
  come_from({0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1});
  EXPECT_NE(hash(key), ip6);
  // Equal bytes of both families.
  come_from({0x20, 1, 0xd, 0xb8});
  const uint64_t ip4 = hash(key);
  come_from({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_NE(hash(key), ip4);
}

TEST_F(RateKeyTest, Header) {
  config::RateKey key;
  key.header = config::FieldName::parse("x-key").value();
  set("x-key", "a");
  const uint64_t a = hash(key);
  come_from({192, 0, 2, 9});
  EXPECT_EQ(hash(key), a);
  set("x-key", "b");
  EXPECT_NE(hash(key), a);
}

// Those that lack the field count by their source, and not with those that have it.
TEST_F(RateKeyTest, LacksTheHeader) {
  config::RateKey key;
  key.header = config::FieldName::parse("x-key").value();
  const uint64_t first = hash(key);
  EXPECT_NE(first, hash({.source = true}));
  come_from({192, 0, 2, 2});
  EXPECT_NE(hash(key), first);
  come_from({192, 0, 2, 1});
  set("x-key", "");
  EXPECT_EQ(hash(key), first);
  // Without an address, as behind a Unix socket, they share one key.
  come_from({});
  EXPECT_NE(hash(key), first);
}

TEST_F(RateKeyTest, KindsOfValuesDiffer) {
  const std::string text = "same";
  Agreement agreed;
  agreed.server_name = text;
  agreed.peer_names = {text};
  facts_.agreed = &agreed;
  facts_.host = text;
  set("cookie", "a=same");
  ASSERT_TRUE(fields_.add(pool_, "x-key", text));
  ASSERT_TRUE(fields_.add(pool_, "x-claim", text));
  place_.claim_header = "x-claim";
  config::RateKey header;
  header.header = config::FieldName::parse("x-key").value();
  const std::set<uint64_t> hashes = {hash({.host = true}),
                                     hash({.sni = true}),
                                     hash({.peer = true}),
                                     hash(header),
                                     hash({.cookie = "a"}),
                                     hash({.jwt_claim = "sub"}),
                                     hash({.host = true, .sni = true})};
  EXPECT_EQ(hashes.size(), 7u);
}

TEST_F(RateKeyTest, Routes) {
  const uint64_t named = rate_key_of_route(kSecret, "edge", "api", 0);
  EXPECT_EQ(rate_key_of_route(kSecret, "edge", "api", 1), named);
  EXPECT_NE(rate_key_of_route(kSecret, "other", "api", 0), named);
  EXPECT_NE(rate_key_of_route(kSecret, "edge", "", 0), rate_key_of_route(kSecret, "edge", "", 1));
  place_.route = named;
  EXPECT_NE(hash({.route = true}), hash({.source = true, .route = true}));
}

TEST_F(RateKeyTest, ConnectionsAreNotRequests) {
  Source source;
  ASSERT_TRUE(Source::from(client_.bytes(), source));
  EXPECT_NE(rate_key_of_connection(kSecret, source), hash({.source = true}));
}

TEST_F(RateKeyTest, SecretsDiffer) {
  constexpr RateSecret kOther{{1, 3}};
  EXPECT_NE(rate_key_of_request(kOther, {.source = true}, place_, facts_), hash({.source = true}));
  EXPECT_EQ(&RateSecret::of_process(), &RateSecret::of_process());
}

TEST(RateKeyOfHandshake, Parts) {
  const Source one{.bytes = {192, 0, 2, 1}}, other{.bytes = {192, 0, 2, 2}};
  const auto hash = [](const config::RateKey& key, const Source* source, std::string_view name) {
    return rate_key_of_handshake(kSecret, key, source, name);
  };
  const config::RateKey by_source{.source = true}, by_name{.sni = true}, by_both{.source = true, .sni = true};
  EXPECT_EQ(hash(by_source, &one, "a"), hash(by_source, &one, "b"));
  EXPECT_NE(hash(by_source, &one, "a"), hash(by_source, &other, "a"));
  EXPECT_NE(hash(by_source, &one, "a"), hash(by_source, nullptr, "a"));
  EXPECT_NE(hash(by_source, &one, "a"), rate_key_of_connection(kSecret, one));
  EXPECT_EQ(hash(by_name, &one, "a"), hash(by_name, &other, "a"));
  EXPECT_NE(hash(by_name, &one, "a"), hash(by_name, &one, "b"));
  EXPECT_NE(hash(by_name, &one, ""), hash(by_name, &other, ""));  // Without a name, the source counts.
  EXPECT_NE(hash(by_both, &one, "a"), hash(by_both, &one, "b"));
  EXPECT_NE(hash(by_both, &one, "a"), hash(by_both, &other, "a"));
}

}  // namespace
}  // namespace sluice
