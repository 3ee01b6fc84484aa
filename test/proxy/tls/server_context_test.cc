#include "proxy/tls/server_context.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <string>
#include <utility>
#include <vector>

#include "proxy/tls/ticket_keys.h"
#include "test/proxy/tls/context_pair.h"
#include "test/proxy/tls/test_certificate.h"

namespace sluice {
namespace {

class ServerContextTest : public testing::TestWithParam<uint16_t> {
 protected:
  ServerContextTest() {
    tls_.certificates = {certificate_.files(folder_, "server")};
    tls_.client_ca = folder_.write("ca.pem", authority_.pem());
    tls_.client_certificate = config::ClientCertificate::kRequest;
    tls_.ticket_keys = {folder_.write("keys", std::string(TicketKeys::kFileBytes, 'k'))};
  }
  bssl::UniquePtr<SSL_CTX> context(const std::string& listener = "main") {
    auto made = make_server_context(listener, tls_, TlsShared(), warnings_);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  test::TemporaryFolder folder_;
  test::TestCertificate authority_{{.is_authority = true}}, certificate_{{}};
  config::ListenerTls tls_;
  std::vector<FileWarning> warnings_;
  test::SessionClient client_{GetParam()};
};

TEST_P(ServerContextTest, SessionsAreResumedUnderTheSamePolicy) {
  EXPECT_FALSE(client_.connect(context().get()));
  ASSERT_FALSE(client_.sessions.empty());
  EXPECT_TRUE(client_.connect(context().get(), client_.sessions[0].get()));
  EXPECT_FALSE(client_.connect(context("other").get(), client_.sessions[0].get()));
}

// Defect: a session from a listener that allows long chains was resumed, with the same key files, where they are not
// allowed.
TEST_P(ServerContextTest, SessionsAreNotResumedWhereChainsMustBeShorter) {
  EXPECT_FALSE(client_.connect(context().get()));
  ASSERT_FALSE(client_.sessions.empty());
  --tls_.client_depth;
  EXPECT_FALSE(client_.connect(context().get(), client_.sessions[0].get()));
}

TEST_P(ServerContextTest, TicketLifetimeIsAsDocumented) {
  client_.connect(context().get());
  ASSERT_FALSE(client_.sessions.empty());
  const uint32_t hours = GetParam() == TLS1_2_VERSION ? 2 : 48;
  EXPECT_EQ(SSL_SESSION_get_timeout(client_.sessions[0].get()), hours * 3600);
}

TEST_P(ServerContextTest, RulesForClientsAreCompared) {
  const std::string rules = client_rules(context().get());
  EXPECT_EQ(client_rules(context().get()), rules);
  tls_.certificates = {test::TestCertificate({}).files(folder_, "renewed")};
  EXPECT_EQ(client_rules(context().get()), rules) << "the server's own certificate is none";
  tls_.client_certificate = config::ClientCertificate::kRequire;
  const std::string required = client_rules(context().get());
  EXPECT_NE(required, rules);
  folder_.write("ca.pem", test::TestCertificate({.is_authority = true}).pem());
  EXPECT_NE(client_rules(context().get()), required) << "another authority";
}

INSTANTIATE_TEST_SUITE_P(Versions, ServerContextTest, testing::Values(TLS1_2_VERSION, TLS1_3_VERSION));

}  // namespace
}  // namespace sluice
