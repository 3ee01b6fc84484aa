#include "proxy/tls/key_signer.h"

#include <gtest/gtest.h>
#include <openssl/pool.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <optional>
#include <vector>

#include "alts_like/tls_handshake.h"
#include "test/alts_like/ssl_pair.h"
#include "test/net/loop.h"

namespace sluice {
namespace {

using Side = TlsHandshake::Side;
using Status = TlsHandshake::Status;

// A server on the worker's loop, which continues when its turn comes, and its client.
struct Handshake {
  Handshake(Worker& on, SSL_CTX* server_context, SSL_CTX* client_context)
      : worker(on),
        server(std::in_place, server_context, Side::kServer),
        client(client_context, Side::kClient),
        step([](void* self) { static_cast<Handshake*>(self)->advance(); }, this) {
    KeySigner::wake(server->ssl(), step);
    worker.yielding_tasks().push(step);
  }
  // Runs both as far as they get.
  void advance() {
    for (bool moved = true; moved;) {
      Buffer to_server, to_client;
      if (client_status == Status::kNeedMore) {
        client_status = client.advance(worker.pool(), std::move(for_client), to_server);
      }
      moved = !to_server.empty();
      if (server_status == Status::kNeedMore) {
        server_status = server->advance(worker.pool(), std::move(to_server), to_client);
      }
      moved = moved || !to_client.empty();
      for_client = std::move(to_client);
    }
  }
  bool done() const { return client_status == Status::kDone && server_status == Status::kDone; }

  Worker& worker;
  std::optional<TlsHandshake> server;
  TlsHandshake client;
  Status server_status = Status::kNeedMore, client_status = Status::kNeedMore;
  Buffer for_client;
  YieldingTask step;
};

class KeySignerTest : public testing::TestWithParam<uint16_t> {
 protected:
  KeySignerTest()
      : use_(&loop_.worker().pool()), server_(SSL_CTX_new(TLS_method())), client_(SSL_CTX_new(TLS_method())) {
    static const test::Identity identity(EVP_PKEY_RSA);
    uint8_t* der = nullptr;
    const int size = i2d_X509(identity.certificate.get(), &der);
    const bssl::UniquePtr<CRYPTO_BUFFER> chain(CRYPTO_BUFFER_new(der, static_cast<size_t>(size), nullptr));
    OPENSSL_free(der);
    const bssl::UniquePtr<SSL_CREDENTIAL> credential(SSL_CREDENTIAL_new_x509());
    CRYPTO_BUFFER* const pointer = chain.get();
    SLUICE_CHECK(SSL_CREDENTIAL_set1_cert_chain(credential.get(), &pointer, 1) == 1);
    signer_.emplace(2);
    signer_->sign_for(credential.get(), bssl::UpRef(identity.key));
    SLUICE_CHECK(SSL_CTX_add1_credential(server_.get(), credential.get()) == 1);
    SSL_CTX_set_max_proto_version(client_.get(), GetParam());
  }
  ~KeySignerTest() override { EXPECT_EQ(loop_.worker().yielding_tasks().empty(), true); }

  std::unique_ptr<Handshake> begin() {
    return std::make_unique<Handshake>(loop_.worker(), server_.get(), client_.get());
  }

  test::Loop loop_{test::Loop::with_features()};
  ChunkPool::Use use_;
  bssl::UniquePtr<SSL_CTX> server_, client_;
  std::optional<KeySigner> signer_;
};

TEST_P(KeySignerTest, SignsForManyAtOnce) {
  KeySigner::Desk desk(loop_.worker());
  std::vector<std::unique_ptr<Handshake>> handshakes;
  for (int i = 0; i < 20; ++i) handshakes.push_back(begin());
  loop_.until([&] {
    return std::all_of(handshakes.begin(), handshakes.end(), [](const auto& handshake) { return handshake->done(); });
  });
  for (const auto& handshake : handshakes) {
    EXPECT_TRUE(handshake->done()) << handshake->server->error() << handshake->client.error();
  }
}

TEST_P(KeySignerTest, WaitsWhileItIsSigned) {
  KeySigner::Desk desk(loop_.worker());
  const auto handshake = begin();
  loop_.worker().turn(0);
  EXPECT_EQ(handshake->server_status, Status::kNeedMore);
  handshake->advance();  // As when bytes arrive meanwhile: an early call changes nothing.
  EXPECT_TRUE(loop_.until([&] { return handshake->done(); }));
}

TEST_P(KeySignerTest, ConnectionsMayEndMeanwhile) {
  KeySigner::Desk desk(loop_.worker());
  for (int i = 0; i < 20; ++i) {
    auto handshake = begin();
    loop_.worker().turn(0);
  }
  const auto last = begin();
  EXPECT_TRUE(loop_.until([&] { return last->done(); })) << "Those before it were signed for nobody";
}

TEST_P(KeySignerTest, WorkerMayEndMeanwhile) {
  {
    KeySigner::Desk desk(loop_.worker());
    for (int i = 0; i < 20; ++i) {
      auto handshake = begin();
      loop_.worker().turn(0);
    }
  }
  signer_.reset();
}

TEST_P(KeySignerTest, WithoutHelpersItSignsAtOnce) {
  const auto handshake = begin();
  loop_.worker().turn(0);
  EXPECT_TRUE(handshake->done());
}

INSTANTIATE_TEST_SUITE_P(Versions, KeySignerTest, testing::Values(TLS1_2_VERSION, TLS1_3_VERSION));

}  // namespace
}  // namespace sluice
