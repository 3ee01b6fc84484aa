#include "proxy/tls/session_cache.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "test/proxy/tls/context_pair.h"
#include "test/proxy/tls/test_certificate.h"

namespace sluice {
namespace {

class SessionCacheTest : public testing::Test {
 protected:
  SessionCacheTest() : server_(SSL_CTX_new(TLS_method())) {
    static const test::TestCertificate identity({});
    SSL_CTX_use_certificate(server_.get(), identity.x509.get());
    SSL_CTX_use_PrivateKey(server_.get(), identity.key.get());
  }
  bssl::UniquePtr<SSL_SESSION> session(uint16_t version = TLS1_3_VERSION) {
    test::SessionClient client(version);
    client.connect(server_.get());
    return std::move(client.sessions.at(0));
  }
  /// Adds a session, and returns it.
  const SSL_SESSION* put(uint32_t endpoint, uint16_t generation, uint16_t version = TLS1_3_VERSION) {
    bssl::UniquePtr<SSL_SESSION> made = session(version);
    const SSL_SESSION* const which = made.get();
    kept_.push_back(bssl::UpRef(made));  // So that no other session gets its address.
    cache_.put(endpoint, generation, std::move(made));
    return which;
  }

  bssl::UniquePtr<SSL_CTX> server_;
  SessionCache cache_{2};
  std::vector<bssl::UniquePtr<SSL_SESSION>> kept_;
};

TEST_F(SessionCacheTest, Tls13TicketsAreUsedOnceNewestFirst) {
  const SSL_SESSION *const first = put(0, 1), *const second = put(0, 1);
  EXPECT_EQ(cache_.take(0, 1).get(), second);
  EXPECT_EQ(cache_.take(0, 1).get(), first);
  EXPECT_EQ(cache_.take(0, 1), nullptr);
}

TEST_F(SessionCacheTest, Tls12SessionsAreReused) {
  const SSL_SESSION* const only = put(0, 1, TLS1_2_VERSION);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache_.take(0, 1).get(), only);
}

TEST_F(SessionCacheTest, SessionsBelongToOneEndpoint) {
  const SSL_SESSION* const first = put(0, 1);
  EXPECT_EQ(cache_.take(1, 1), nullptr);
  EXPECT_EQ(cache_.take(0, 1).get(), first);
}

TEST_F(SessionCacheTest, OldestIsEvicted) {
  std::vector<const SSL_SESSION*> put_there;
  for (size_t i = 0; i <= SessionCache::kPerEndpoint; ++i) put_there.push_back(put(0, 1));
  for (size_t i = SessionCache::kPerEndpoint; i > 0; --i) EXPECT_EQ(cache_.take(0, 1).get(), put_there[i]) << i;
  EXPECT_EQ(cache_.take(0, 1), nullptr);
}

TEST_F(SessionCacheTest, SessionsOfAnotherContextAreForgotten) {
  put(0, 1);
  put(1, 1);
  EXPECT_EQ(cache_.take(0, 2), nullptr);
  EXPECT_EQ(cache_.take(1, 2), nullptr);
  EXPECT_EQ(cache_.take(1, 1), nullptr) << "Nor does it come back";
}

TEST_F(SessionCacheTest, SessionsThatCannotBeResumedAreNotKept) {
  cache_.put(0, 1, nullptr);
  SSL_CTX_set_options(server_.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(server_.get(), SSL_SESS_CACHE_OFF);
  test::SessionClient client(TLS1_2_VERSION);
  client.connect(server_.get());
  for (auto& session : client.sessions) cache_.put(0, 1, std::move(session));
  EXPECT_EQ(cache_.take(0, 1), nullptr);
}

}  // namespace
}  // namespace sluice
