#include "alts_like/alts_like_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/alts_record_layer.h"
#include "test/alts_like/ssl_pair.h"
#include "test/support/buffers.h"

namespace sluice {
namespace {

using Side = TlsHandshake::Side;
using Status = Handshake::Status;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int choose_protocol(SSL*, const uint8_t** out, uint8_t* size, const uint8_t* offered, unsigned bytes, void* name) {
  const auto* ours = static_cast<const std::string*>(name);
  return SSL_select_next_proto(const_cast<uint8_t**>(out), size, reinterpret_cast<const uint8_t*>(ours->data()),
                               static_cast<unsigned>(ours->size()), offered, bytes) == OPENSSL_NPN_NEGOTIATED
             ? SSL_TLSEXT_ERR_OK
             : SSL_TLSEXT_ERR_ALERT_FATAL;
}

std::string on_the_wire(std::string_view name) { return static_cast<char>(name.size()) + std::string(name); }

class AltsLikeHandshakeTest : public ::testing::Test {
 protected:
  ~AltsLikeHandshakeTest() override {
    to_server_.clear();
    to_client_.clear();
    EXPECT_EQ(pool_.leaked(), 0u);
  }

  // A context for either side: see AltsLikeHandshake.
  bssl::UniquePtr<SSL_CTX> context(bool certified = true) {
    static const test::Identity identity;
    bssl::UniquePtr<SSL_CTX> made(SSL_CTX_new(TLS_method()));
    SSL_CTX_set_min_proto_version(made.get(), TLS1_3_VERSION);
    if (certified) {
      SSL_CTX_use_certificate(made.get(), identity.certificate.get());
      SSL_CTX_use_PrivateKey(made.get(), identity.key.get());
    }
    X509_STORE_add_cert(SSL_CTX_get_cert_store(made.get()), identity.certificate.get());
    SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_options(made.get(), SSL_OP_NO_TICKET);
    SSL_CTX_set_alpn_select_cb(made.get(), choose_protocol, &protocol_);
    SSL_CTX_set_alpn_protos(made.get(), reinterpret_cast<const uint8_t*>(protocol_.data()), protocol_.size());
    return made;
  }

  // Runs both sides until neither makes progress, with flights cut anywhere.
  void run(Handshake& server, Handshake& client, uint32_t seed = 1) {
    std::mt19937 random(seed);
    at_client_ = client.advance(pool_, Buffer(), to_server_);
    at_server_ = Status::kNeedMore;
    for (int i = 0; i < 5000 && (at_server_ == Status::kNeedMore || at_client_ == Status::kNeedMore); ++i) {
      if (at_server_ == Status::kNeedMore) {
        at_server_ = server.advance(pool_, to_server_.split_front(random() % (to_server_.size() + 1)), to_client_);
      }
      if (at_client_ == Status::kNeedMore) {
        at_client_ = client.advance(pool_, to_client_.split_front(random() % (to_client_.size() + 1)), to_server_);
      }
    }
  }

  // What `to` reads of what `from` writes.
  std::string carry(RecordLayer& from, RecordLayer& to, std::string_view text, Buffer wire = {}) {
    Buffer plain;
    from.seal(pool_, test::buffer_of(pool_, text), wire);
    EXPECT_EQ(to.open(pool_, std::move(wire), plain), RecordLayer::Status::kOpen) << to.error();
    return plain.to_string();
  }

  ChunkPool pool_{{}};
  ChunkPool::Use use_{&pool_};
  std::string protocol_ = on_the_wire(AltsLikeHandshake::kProtocol);
  std::vector<std::string> anybody_, localhost_{"somebody", "localhost"}, others_{"else"};
  Buffer to_server_, to_client_;
  Status at_server_ = Status::kNeedMore, at_client_ = Status::kNeedMore;
};

TEST_F(AltsLikeHandshakeTest, BothSidesGetTheSameKeys) {
  const auto shared = context();
  for (uint32_t seed = 0; seed < 10; ++seed) {
    AltsLikeHandshake server(shared.get(), Side::kServer, {anybody_, 65536});
    AltsLikeHandshake client(shared.get(), Side::kClient, {localhost_, 65536});
    run(server, client, seed);
    ASSERT_EQ(at_server_, Status::kDone) << server.error();
    ASSERT_EQ(at_client_, Status::kDone) << client.error();
    const Agreement agreed = server.agreement();
    EXPECT_EQ(agreed.version, "ALTS-like");
    EXPECT_EQ(agreed.cipher, "ALTSRP_GCM_AES128_REKEY");
    EXPECT_THAT(agreed.peer_names, ElementsAre("localhost"));
    EXPECT_EQ(agreed.common_name, "localhost");
    EXPECT_TRUE(agreed.certified);
    EXPECT_EQ(agreed.alpn, "");
    const std::unique_ptr<RecordLayer> at_client = client.finish(), at_server = server.finish();
    EXPECT_EQ(carry(*at_client, *at_server, "hello", std::move(to_server_)), "hello");
    EXPECT_EQ(carry(*at_server, *at_client, "good day", std::move(to_client_)), "good day");
    // Unlike in ALTS, there is a close message.
    Buffer wire, plain;
    at_client->seal_end(pool_, wire);
    EXPECT_TRUE(at_server->has_authenticated_end());
    EXPECT_EQ(at_server->open(pool_, std::move(wire), plain), RecordLayer::Status::kEnded);
  }
}

// The client is done before the server, and may send at once: data after its last flight is not lost.
TEST_F(AltsLikeHandshakeTest, FirstFramesArriveWithTheLastFlight) {
  const auto shared = context();
  AltsLikeHandshake server(shared.get(), Side::kServer, {anybody_, 65536});
  AltsLikeHandshake client(shared.get(), Side::kClient, {anybody_, 65536});
  ASSERT_EQ(client.advance(pool_, Buffer(), to_server_), Status::kNeedMore);
  ASSERT_EQ(server.advance(pool_, std::move(to_server_), to_client_), Status::kNeedMore);
  ASSERT_EQ(client.advance(pool_, std::move(to_client_), to_server_), Status::kDone);
  const std::unique_ptr<RecordLayer> at_client = client.finish();
  at_client->seal(pool_, test::buffer_of(pool_, "early"), to_server_);
  ASSERT_EQ(server.advance(pool_, std::move(to_server_), to_client_), Status::kDone) << server.error();
  const std::unique_ptr<RecordLayer> at_server = server.finish();
  Buffer plain;
  EXPECT_EQ(at_server->open(pool_, Buffer(), plain), RecordLayer::Status::kOpen);
  EXPECT_EQ(plain.to_string(), "early");
}

TEST_F(AltsLikeHandshakeTest, UnwantedPeer) {
  const auto shared = context();
  for (const bool by_client : {true, false}) {
    AltsLikeHandshake server(shared.get(), Side::kServer, {by_client ? anybody_ : others_, 65536});
    AltsLikeHandshake client(shared.get(), Side::kClient, {by_client ? others_ : anybody_, 65536});
    to_server_.clear(), to_client_.clear();
    run(server, client);
    EXPECT_EQ(by_client ? at_client_ : at_server_, Status::kFailed);
    EXPECT_EQ((by_client ? client : server).error(), "the peer is \"localhost\", none of target_identities");
  }
}

// Defect: the name was logged as it is in the certificate, which may look like other log lines.
TEST_F(AltsLikeHandshakeTest, NameWithControlCharacters) {
  const auto shared = context();
  const test::Identity hostile(EVP_PKEY_EC, "bad\r\nsluice: all is well\x1b[2J");
  X509_STORE_add_cert(SSL_CTX_get_cert_store(shared.get()), hostile.certificate.get());
  const auto theirs = context();
  SSL_CTX_use_certificate(theirs.get(), hostile.certificate.get());
  SSL_CTX_use_PrivateKey(theirs.get(), hostile.key.get());
  AltsLikeHandshake server(shared.get(), Side::kServer, {others_, 65536});
  AltsLikeHandshake client(theirs.get(), Side::kClient, {anybody_, 65536});
  run(server, client);
  EXPECT_EQ(at_server_, Status::kFailed);
  EXPECT_EQ(server.error(), "the peer is \"bad??sluice: all is well?[2J\", none of target_identities");
}

TEST_F(AltsLikeHandshakeTest, ClientWithoutACertificate) {
  const auto shared = context(), bare = context(false);
  AltsLikeHandshake server(shared.get(), Side::kServer, {anybody_, 65536});
  AltsLikeHandshake client(bare.get(), Side::kClient, {anybody_, 65536});
  run(server, client);
  EXPECT_EQ(at_server_, Status::kFailed);
  EXPECT_THAT(server.error(), HasSubstr("PEER_DID_NOT_RETURN_A_CERTIFICATE"));
}

// The contexts should prevent this case.
TEST_F(AltsLikeHandshakeTest, PeerWithOlderTls) {
  const auto shared = context(), old = context();
  SSL_CTX_set_min_proto_version(shared.get(), TLS1_2_VERSION);
  SSL_CTX_set_min_proto_version(old.get(), TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(old.get(), TLS1_2_VERSION);
  AltsLikeHandshake server(shared.get(), Side::kServer, {anybody_, 65536});
  TlsHandshake client(old.get(), Side::kClient);
  run(server, client);
  EXPECT_EQ(at_server_, Status::kFailed);
  EXPECT_EQ(server.error(), "the peer did not present a certificate in TLS 1.3");
}

// The derivation from the handshake, step by step: two versions of this program get the same keys.
TEST_F(AltsLikeHandshakeTest, KeysAreThoseOfTheExporter) {
  const auto shared = context();
  AltsLikeHandshake server(shared.get(), Side::kServer, {anybody_, 65536});
  AltsLikeHandshake client(shared.get(), Side::kClient, {anybody_, 65536});
  run(server, client);
  ASSERT_EQ(at_server_, Status::kDone) << server.error();
  constexpr std::string_view kLabel = "EXPERIMENTAL sluice alts_like 1", kContext = "ALTSRP_GCM_AES128_REKEY";
  std::array<uint8_t, 44> keys;
  ASSERT_EQ(SSL_export_keying_material(client.ssl(), keys.data(), keys.size(), kLabel.data(), kLabel.size(),
                                       reinterpret_cast<const uint8_t*>(kContext.data()), kContext.size(), 1),
            1);
  for (const bool is_client : {true, false}) {
    AltsState state = AltsState::from(AltsProtocol::kAes128GcmRekey, keys, !is_client, 65536).value();
    AltsRecordLayer peer(state);
    const std::unique_ptr<RecordLayer> layer = (is_client ? client : server).finish();
    EXPECT_EQ(carry(*layer, peer, "hello"), "hello");
    EXPECT_EQ(carry(peer, *layer, "good day"), "good day");
  }
}

// Each connection has its own keys, and each direction its own counters.
TEST_F(AltsLikeHandshakeTest, FramesOfOtherConnections) {
  const auto shared = context();
  std::vector<std::unique_ptr<RecordLayer>> clients, servers;
  for (int i = 0; i < 2; ++i) {
    AltsLikeHandshake server(shared.get(), Side::kServer, {anybody_, 65536});
    AltsLikeHandshake client(shared.get(), Side::kClient, {anybody_, 65536});
    run(server, client);
    ASSERT_EQ(at_server_, Status::kDone) << server.error();
    clients.push_back(client.finish());
    servers.push_back(server.finish());
  }
  Buffer wire, plain;
  clients[0]->seal(pool_, test::buffer_of(pool_, "hello"), wire);
  for (RecordLayer* reader : {clients[0].get(), clients[1].get(), servers[1].get()}) {
    EXPECT_EQ(reader->open(pool_, wire.clone(), plain), RecordLayer::Status::kFailed);
    EXPECT_EQ(reader->error(), "a frame that is not authentic");
  }
  EXPECT_EQ(servers[0]->open(pool_, std::move(wire), plain), RecordLayer::Status::kOpen);
  EXPECT_EQ(plain.to_string(), "hello");
}

// Its key and its certificate are accepted, but its ALPN is that of TLS.
TEST_F(AltsLikeHandshakeTest, PeerThatSpeaksTls) {
  const auto shared = context();
  for (const std::string& offered : {std::string(), on_the_wire("h2")}) {
    AltsLikeHandshake server(shared.get(), Side::kServer, {anybody_, 65536});
    protocol_ = offered;
    const auto plain_tls = context();
    protocol_ = on_the_wire(AltsLikeHandshake::kProtocol);
    TlsHandshake client(plain_tls.get(), Side::kClient);
    to_server_.clear(), to_client_.clear();
    run(server, client);
    EXPECT_EQ(at_server_, Status::kFailed);
    EXPECT_THAT(server.error(),
                HasSubstr(offered.empty() ? "the peer does not speak sluice-alts/1" : "NO_APPLICATION_PROTOCOL"));
  }
}

}  // namespace
}  // namespace sluice
