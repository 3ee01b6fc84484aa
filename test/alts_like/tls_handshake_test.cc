#include "alts_like/tls_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <random>
#include <string>

#include "alts_like/tls13_record_layer.h"
#include "test/alts_like/ssl_pair.h"

namespace sluice {
namespace {

using Side = TlsHandshake::Side;
using Status = TlsHandshake::Status;

int choose_h2(SSL*, const uint8_t** out, uint8_t* size, const uint8_t*, unsigned, void*) {
  *out = reinterpret_cast<const uint8_t*>("h2");
  *size = 2;
  return SSL_TLSEXT_ERR_OK;
}

class HandshakeTest : public ::testing::TestWithParam<uint16_t> {
 protected:
  HandshakeTest() {
    static const test::Identity identity;
    server_context_.reset(SSL_CTX_new(TLS_method()));
    client_context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX_use_certificate(server_context_.get(), identity.certificate.get());
    SSL_CTX_use_PrivateKey(server_context_.get(), identity.key.get());
    SSL_CTX_set_max_proto_version(client_context_.get(), GetParam());
    SSL_CTX_set_alpn_select_cb(server_context_.get(), choose_h2, nullptr);
    const std::string protocols = "\x02h2";
    SSL_CTX_set_alpn_protos(client_context_.get(), reinterpret_cast<const uint8_t*>(protocols.data()), 3);
  }
  ~HandshakeTest() override { EXPECT_EQ(pool_.leaked(), 0u); }

  Buffer buffer_of(std::string_view text) {
    Buffer buffer;
    EXPECT_TRUE(buffer.append_copy(pool_, text));
    return buffer;
  }

  ChunkPool pool_{{}};
  ChunkPool::Use use_{&pool_};
  bssl::UniquePtr<SSL_CTX> server_context_, client_context_;
};

INSTANTIATE_TEST_SUITE_P(Versions, HandshakeTest, ::testing::Values(TLS1_2_VERSION, TLS1_3_VERSION),
                         [](const auto& version) { return version.param == TLS1_2_VERSION ? "Tls12" : "Tls13"; });

// Each flight is cut into pieces; the last one comes with data after it.
TEST_P(HandshakeTest, BothSides) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    TlsHandshake server(server_context_.get(), Side::kServer), client(client_context_.get(), Side::kClient);
    SSL_set_tlsext_host_name(client.ssl(), "a.example.com");
    Buffer to_server, to_client;
    Status at_client = client.advance(pool_, Buffer(), to_server), at_server = Status::kNeedMore;
    ASSERT_EQ(at_client, Status::kNeedMore);
    std::unique_ptr<RecordLayer> ours;
    for (int i = 0; i < 5000 && (at_server != Status::kDone || at_client != Status::kDone); ++i) {
      if (at_server == Status::kNeedMore) {
        at_server = server.advance(pool_, to_server.split_front(random() % (to_server.size() + 1)), to_client);
      }
      if (at_client == Status::kNeedMore) {
        at_client = client.advance(pool_, to_client.split_front(random() % (to_client.size() + 1)), to_server);
      }
      ASSERT_NE(at_server, Status::kFailed) << server.error();
      ASSERT_NE(at_client, Status::kFailed) << client.error();
    }
    ASSERT_EQ(at_server, Status::kDone);
    ASSERT_EQ(at_client, Status::kDone);
    EXPECT_EQ(server.agreement().server_name, "a.example.com");
    EXPECT_EQ(server.agreement().alpn, "h2");
    EXPECT_EQ(client.agreement().alpn, "h2");
    EXPECT_EQ(server.version(), GetParam());
    const std::unique_ptr<RecordLayer> s = server.finish(), c = client.finish();

    Buffer plain;
    std::string text(50'000, 'x');
    c->seal(pool_, buffer_of(text), to_server);
    c->seal_end(pool_, to_server);
    EXPECT_EQ(s->open(pool_, std::move(to_server), plain), RecordLayer::Status::kEnded) << s->error();
    EXPECT_EQ(plain.to_string(), text);
    plain.clear();
    s->seal(pool_, buffer_of(text), to_client);
    s->seal_end(pool_, to_client);
    EXPECT_EQ(c->open(pool_, std::move(to_client), plain), RecordLayer::Status::kEnded) << c->error();
    EXPECT_EQ(plain.to_string(), text);
    s->park(pool_);
    c->park(pool_);
  }
}

// Session tickets need no send of their own: they are sent with the first data, or when the owner requests pending
// output.
TEST_P(HandshakeTest, TicketsAreSentWithTheFirstData) {
  if (GetParam() != TLS1_3_VERSION) return;  // There they are part of the handshake.
  for (const bool data_first : {true, false}) {
    TlsHandshake server(server_context_.get(), Side::kServer), client(client_context_.get(), Side::kClient);
    Buffer to_server, to_client;
    client.advance(pool_, Buffer(), to_server);
    server.advance(pool_, std::move(to_server), to_client);
    ASSERT_EQ(client.advance(pool_, std::move(to_client), to_server), Status::kDone);
    ASSERT_EQ(server.advance(pool_, std::move(to_server), to_client), Status::kDone);
    EXPECT_EQ(to_client.size(), 0u);
    const std::unique_ptr<RecordLayer> s = server.finish(), c = client.finish();
    EXPECT_FALSE(s->has_output());
    s->park(pool_);
    if (data_first) {
      s->seal(pool_, buffer_of("hello"), to_client);
    } else {
      s->flush(pool_, to_client);
    }
    Buffer plain;
    EXPECT_EQ(c->open(pool_, std::move(to_client), plain), RecordLayer::Status::kOpen) << c->error();
    EXPECT_EQ(plain.to_string(), data_first ? "hello" : "");
    EXPECT_EQ(client.sessions_of(c->take_tickets()).size(), 2u);
    s->flush(pool_, to_client);
    EXPECT_EQ(to_client.size(), 0u);
  }
}

// Defect: a handshake that waited for a private key's signature reported that it wanted bytes, and accepted any number.
TEST_P(HandshakeTest, WantsNothingWhileAKeySigns) {
  static constexpr SSL_PRIVATE_KEY_METHOD kNever = {
      [](SSL*, uint8_t*, size_t*, size_t, uint16_t, const uint8_t*, size_t) { return ssl_private_key_retry; },
      [](SSL*, uint8_t*, size_t*, size_t, const uint8_t*, size_t) { return ssl_private_key_failure; },
      [](SSL*, uint8_t*, size_t*, size_t) { return ssl_private_key_retry; },
  };
  SSL_CTX_set_private_key_method(server_context_.get(), &kNever);
  TlsHandshake server(server_context_.get(), Side::kServer), client(client_context_.get(), Side::kClient);
  Buffer to_server, to_client;
  client.advance(pool_, Buffer(), to_server);
  EXPECT_TRUE(server.wants_bytes());
  EXPECT_EQ(server.awaited(), "the peer");
  EXPECT_EQ(server.advance(pool_, std::move(to_server), to_client), Status::kNeedMore);
  EXPECT_FALSE(server.wants_bytes());
  EXPECT_EQ(server.awaited(), "a signature by its own key");

  EXPECT_EQ(server.advance(pool_, buffer_of(std::string(TlsHandshake::kMaxWaitingBytes, 'x')), to_client),
            Status::kNeedMore);
  EXPECT_EQ(server.advance(pool_, buffer_of("x"), to_client), Status::kFailed);
  EXPECT_EQ(server.error(), "the peer sent too many bytes while our private key was signing");
}

// Whatever the contexts say: no ticket allows early data, and none is accepted.
TEST_P(HandshakeTest, NoEarlyData) {
  SSL_CTX_set_early_data_enabled(server_context_.get(), 1);
  SSL_CTX_set_early_data_enabled(client_context_.get(), 1);
  bssl::UniquePtr<SSL_SESSION> session;
  for (const bool resumed : {false, true}) {
    TlsHandshake server(server_context_.get(), Side::kServer), client(client_context_.get(), Side::kClient);
    if (session) SSL_set_session(client.ssl(), session.get());
    Buffer to_server, to_client, plain;
    Status at_client = client.advance(pool_, Buffer(), to_server), at_server = Status::kNeedMore;
    while (at_client == Status::kNeedMore || at_server == Status::kNeedMore) {
      EXPECT_EQ(SSL_in_early_data(client.ssl()), 0);
      at_server = server.advance(pool_, std::move(to_server), to_client);
      EXPECT_EQ(SSL_in_early_data(server.ssl()), 0);
      if (at_client == Status::kNeedMore) at_client = client.advance(pool_, std::move(to_client), to_server);
    }
    ASSERT_EQ(at_server, Status::kDone) << server.error();
    EXPECT_EQ(server.resumed(), resumed);
    EXPECT_EQ(SSL_early_data_accepted(server.ssl()), 0);
    session = client.session();
    const std::unique_ptr<RecordLayer> s = server.finish(), c = client.finish();
    s->flush(pool_, to_client);
    c->open(pool_, std::move(to_client), plain);
    if (!session) session = std::move(client.sessions_of(c->take_tickets()).at(0));
    EXPECT_EQ(SSL_SESSION_early_data_capable(session.get()), 0);
  }
}

// A gate is asked once, when the whole hello is there, and a client that it refuses gets nothing but an alert.
TEST_P(HandshakeTest, Gate) {
  struct Gate final : HelloGate {
    Gate(bool admit, std::vector<std::string>& names) : admits_all(admit), asked(names) {}
    bool admits(std::string_view server_name) override {
      asked.emplace_back(server_name);
      return admits_all;
    }
    bool admits_all;
    std::vector<std::string>& asked;
  };
  TlsHandshake::use_gates(server_context_.get());
  for (const bool admit : {true, false}) {
    std::vector<std::string> asked;
    TlsHandshake server(server_context_.get(), Side::kServer), client(client_context_.get(), Side::kClient);
    server.set_gate(std::make_unique<Gate>(admit, asked));
    SSL_set_tlsext_host_name(client.ssl(), "a.example.com");
    Buffer to_server, to_client;
    ASSERT_EQ(client.advance(pool_, Buffer(), to_server), Status::kNeedMore);
    ASSERT_EQ(server.advance(pool_, to_server.split_front(to_server.size() - 1), to_client), Status::kNeedMore);
    EXPECT_TRUE(asked.empty());
    const Status status = server.advance(pool_, std::move(to_server), to_client);
    EXPECT_EQ(asked, std::vector<std::string>{"a.example.com"});
    EXPECT_EQ(status, admit ? Status::kNeedMore : Status::kFailed);
    if (!admit) {
      EXPECT_EQ(server.error(), TlsHandshake::kRejected);
    }
    EXPECT_EQ(to_client.size() < 16, !admit);
  }
}

TEST_P(HandshakeTest, Garbage) {
  TlsHandshake server(server_context_.get(), Side::kServer);
  Buffer out;
  EXPECT_EQ(server.advance(pool_, buffer_of("GET / HTTP/1.1\r\n\r\n"), out), Status::kFailed);
  EXPECT_EQ(server.error(), "HTTP_REQUEST");
}

TEST_P(HandshakeTest, AlertIsSent) {
  SSL_CTX_set_min_proto_version(server_context_.get(), TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(client_context_.get(), TLS1_2_VERSION);
  TlsHandshake server(server_context_.get(), Side::kServer), client(client_context_.get(), Side::kClient);
  Buffer to_server, to_client;
  client.advance(pool_, Buffer(), to_server);
  EXPECT_EQ(server.advance(pool_, std::move(to_server), to_client), Status::kFailed);
  EXPECT_EQ(server.error(), "UNSUPPORTED_PROTOCOL");
  EXPECT_EQ(client.advance(pool_, std::move(to_client), to_server), Status::kFailed);
  EXPECT_EQ(client.error(), "TLSV1_ALERT_PROTOCOL_VERSION");
}

}  // namespace
}  // namespace sluice
