#include "proxy/http/proxy/client_address.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

std::string text_of(const std::optional<ClientIp>& address) {
  std::array<char, ClientIp::kTextBytes> room;
  return address ? std::string(address->text(room)) : "none";
}

TEST(ForwardedAddress, Forms) {
  const auto parsed = [](std::string_view text) { return text_of(parse_forwarded_address(text)); };
  EXPECT_EQ(parsed("203.0.113.7"), "203.0.113.7");
  EXPECT_EQ(parsed("203.0.113.7:443"), "203.0.113.7");
  EXPECT_EQ(parsed("2001:db8::7"), "2001:db8::7");
  EXPECT_EQ(parsed("[2001:db8::7]"), "2001:db8::7");
  EXPECT_EQ(parsed("[2001:db8::7]:65535"), "2001:db8::7");
  EXPECT_EQ(parsed("::ffff:203.0.113.7"), "203.0.113.7");
  EXPECT_EQ(parsed("::"), "::");
  for (const std::string_view malformed : {"",
                                           ":",
                                           "unknown",
                                           "_hidden",
                                           "203.0.113",
                                           "203.0.113.7.1",
                                           "203.0.113.256",
                                           "203.0.113.7:",
                                           "203.0.113.7:x",
                                           "203.0.113.7:123456",
                                           "[203.0.113.7]",
                                           "[2001:db8::7",
                                           "2001:db8::7]",
                                           "[]",
                                           "[]:1",
                                           "[",
                                           "]",
                                           "[:1",
                                           "2001:db8::g",
                                           "fe80::1%eth0",
                                           "203.0.113.7 ",
                                           "a.example",
                                           "\"203.0.113.7\"",
                                           "0x7f.0.0.1",
                                           "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb"}) {
    EXPECT_EQ(parsed(malformed), "none") << malformed;
  }
  EXPECT_EQ(parsed(std::string_view("1.2.3.4\0", 8)), "none");
}

class TrustedProxiesTest : public testing::Test {
 protected:
  TrustedProxiesTest() : use_(&pool_) {}

  void ranges(const std::vector<std::string_view>& texts) {
    for (const std::string_view text : texts) config_.trusted_proxies.push_back(config::Cidr::parse(text).value());
  }
  bool trusts(std::string_view peer) const {
    return TrustedProxies(config_).trusts(parse_forwarded_address(peer).value_or(ClientIp()));
  }
  std::string client(const std::vector<std::string_view>& forwarded_for) {
    Fields fields;
    for (const std::string_view value : forwarded_for) {
      EXPECT_TRUE(fields.add(pool_, "x-forwarded-for", value) && fields.add(pool_, "x-other", "1.2.3.4"));
    }
    return text_of(TrustedProxies(config_).client(fields));
  }

  ChunkPool pool_{{.budget_bytes = size_t{4} << 20}};
  ChunkPool::Use use_;
  config::Http config_;
};

TEST_F(TrustedProxiesTest, NoneByDefault) {
  EXPECT_FALSE(TrustedProxies(config_).any());
  EXPECT_FALSE(trusts("127.0.0.1"));
  EXPECT_FALSE(trusts(""));
}

// Counts like Envoy: with one hop the last entry, which that proxy has added itself, is the client.
TEST_F(TrustedProxiesTest, Hops) {
  config_.trusted_hops = 1;
  EXPECT_TRUE(trusts("127.0.0.1"));
  EXPECT_TRUE(trusts("")) << "a Unix socket";
  EXPECT_EQ(client({"6.6.6.6, 1.1.1.1, 2.2.2.2"}), "2.2.2.2");
  EXPECT_EQ(client({"6.6.6.6, 1.1.1.1", "2.2.2.2"}), "2.2.2.2");
  EXPECT_EQ(client({"garbage, 2.2.2.2"}), "2.2.2.2");
  EXPECT_EQ(client({"2.2.2.2 ,\t, "}), "2.2.2.2") << "empty elements are none";
  EXPECT_EQ(client({"2.2.2.2, garbage"}), "none");
  EXPECT_EQ(client({}), "none");
  EXPECT_EQ(client({"", ","}), "none");
  config_.trusted_hops = 3;
  EXPECT_EQ(client({"6.6.6.6, 1.1.1.1", "2.2.2.2,3.3.3.3"}), "1.1.1.1");
  EXPECT_EQ(client({"1.1.1.1, 2.2.2.2"}), "none") << "too few of them";
  EXPECT_EQ(client({"1.1.1.1, garbage, 3.3.3.3"}), "none");
}

TEST_F(TrustedProxiesTest, Ranges) {
  ranges({"10.0.0.0/8", "2001:db8::/32"});
  EXPECT_TRUE(trusts("10.1.2.3"));
  EXPECT_TRUE(trusts("::ffff:10.1.2.3"));
  EXPECT_TRUE(trusts("2001:db8::1"));
  EXPECT_FALSE(trusts("11.1.2.3"));
  EXPECT_FALSE(trusts("")) << "a Unix socket has no address";
  EXPECT_EQ(client({"6.6.6.6, 1.1.1.1, 10.0.0.1, [2001:db8::2]:99"}), "1.1.1.1");
  EXPECT_EQ(client({"10.0.0.3, 10.0.0.2"}), "10.0.0.3") << "all are proxies";
  EXPECT_EQ(client({"6.6.6.6, unknown, 10.0.0.2"}), "none");
  EXPECT_EQ(client({}), "none");
}

TEST_F(TrustedProxiesTest, HopsAfterAnUntrustedPeer) {
  ranges({"10.0.0.0/8"});
  config_.trusted_hops = 2;
  EXPECT_TRUE(trusts("10.0.0.1"));
  EXPECT_FALSE(trusts("11.0.0.1"));
  EXPECT_EQ(client({"6.6.6.6, 1.1.1.1, 2.2.2.2"}), "1.1.1.1") << "whatever their addresses are";
}

TEST_F(TrustedProxiesTest, EntriesAreBounded) {
  ranges({"10.0.0.0/8"});
  std::string list = "1.1.1.1";
  for (uint32_t i = 1; i < kMaxForwardedHops; ++i) list += ", 10.0.0.1";
  EXPECT_EQ(client({list}), "1.1.1.1");
  EXPECT_EQ(client({list + ", 10.0.0.1"}), "none");
}

}  // namespace
}  // namespace sluice
