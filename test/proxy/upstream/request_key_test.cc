#include "proxy/router/request_key.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "proxy/upstream/stable_hash.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

ClientIp ip4(uint8_t last, uint16_t port = 1) {
  const std::array<std::byte, 4> bytes = {std::byte{192}, std::byte{0}, std::byte{2}, std::byte{last}};
  return ClientIp(PeerAddress::ip4(bytes, port));
}

class RequestKeyTest : public ::testing::Test {
 protected:
  RequestKeyTest() {
    facts_.path = "/a/b";
    facts_.query = "id=7&user=u%201&user=u2&empty=";
    facts_.fields = &fields_;
    facts_.client = &client_;
    EXPECT_TRUE(fields_.add(pool_, "cookie", "a=1; sid=s1;b=2"));
    EXPECT_TRUE(fields_.add(pool_, "x-user", "alice"));
    EXPECT_TRUE(fields_.add(pool_, "cookie", "late=yes; sid=s2"));
    EXPECT_TRUE(fields_.add(pool_, "x-user", "bob"));
  }
  std::optional<uint64_t> hash(const config::HashKey& key) { return hash_of_request(key, facts_); }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  Fields fields_;
  ClientIp client_ = ip4(1);
  RequestAttributes facts_;
};

TEST_F(RequestKeyTest, ConfiguredKeys) {
  const config::FieldName user = config::FieldName::parse("X-User").value();
  EXPECT_EQ(hash({.header = user}), stable_hash("alice"));
  EXPECT_EQ(hash({.cookie = "sid"}), stable_hash("s1"));
  EXPECT_EQ(hash({.cookie = "late"}), stable_hash("yes"));
  EXPECT_EQ(hash({.cookie = "b"}), stable_hash("2"));
  EXPECT_EQ(hash({.query = "user"}), stable_hash("u%201"));
  EXPECT_EQ(hash({.path = true}), stable_hash("/a/b"));
  EXPECT_EQ(hash({.source = true}), hash_of_client(client_));
}

TEST_F(RequestKeyTest, ClientAddressByDefault) {
  const std::optional<uint64_t> by_client = hash_of_client(client_);
  ASSERT_TRUE(by_client);
  EXPECT_EQ(hash_of_request(std::nullopt, facts_), by_client);
  EXPECT_EQ(hash({.header = config::FieldName::parse("x-none").value()}), by_client);
  EXPECT_EQ(hash({.cookie = "si"}), by_client);
  EXPECT_EQ(hash({.cookie = "Sid"}), by_client);  // Names of cookies are case-sensitive.
  EXPECT_EQ(hash({.query = "use"}), by_client);
  EXPECT_EQ(hash({.query = "empty"}), by_client);
  client_ = ClientIp();  // A Unix socket.
  EXPECT_FALSE(hash({.source = true}));
  EXPECT_TRUE(hash({.path = true}));
}

// Connections of one client go to one endpoint, from any port, and with either form of its address.
TEST_F(RequestKeyTest, AddressesWithoutPorts) {
  EXPECT_EQ(hash_of_client(ip4(1, 1)), hash_of_client(ip4(1, 2)));
  EXPECT_NE(hash_of_client(ip4(1)), hash_of_client(ip4(2)));
  const std::array<std::byte, 4> bytes = {std::byte{192}, std::byte{0}, std::byte{2}, std::byte{1}};
  EXPECT_EQ(hash_of_client(ClientIp(PeerAddress::ip4(bytes, 9).mapped())), hash_of_client(ip4(1)));
}

}  // namespace
}  // namespace sluice
