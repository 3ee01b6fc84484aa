#include "alts_like/tls12_record_layer.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <openssl/ssl.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alts_like/record_state.h"
#include "alts_like/tls_handshake.h"
#include "sluice/copied.h"
#include "test/alts_like/handmade_records.h"
#include "test/alts_like/ssl_pair.h"
#include "test/alts_like/tls13_fixture.h"

namespace sluice {
namespace {

using Side = TlsHandshake::Side;
using Status = RecordLayer::Status;
using test::HandmadeTls12Records;
using test::random_text;
using test::SslEnd;
using test::Tls13Test;

constexpr const char* kCiphers[] = {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
                                    "ECDHE-ECDSA-CHACHA20-POLY1305"};
constexpr Tls12Cipher kNames[] = {Tls12Cipher::kAes128Gcm, Tls12Cipher::kAes256Gcm, Tls12Cipher::kChaCha20Poly1305};

// ---- Against BoringSSL ----

/// Our end continues after its handshake; the other stays an SSL object.
class Tls12Test : public Tls13Test, public ::testing::WithParamInterface<size_t> {
 protected:
  Tls12Test() {
    static const test::Identity identity;
    context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX_use_certificate(context_.get(), identity.certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), identity.key.get());
    SSL_CTX_set_max_proto_version(context_.get(), TLS1_2_VERSION);
  }
  std::unique_ptr<RecordLayer> connect(Side side) {
    TlsHandshake ours(context_.get(), side);
    peer_ = std::make_unique<SslEnd>(side == Side::kServer, kCiphers[GetParam()]);
    for (int turn = 0; turn < 8; ++turn) {
      const bool done = peer_->handshake();
      Buffer out;
      const Handshake::Status status = ours.advance(pool_, buffer_of(peer_->take_output()), out);
      peer_->give_input(out.to_string());
      if (status == Handshake::Status::kDone && (done || peer_->handshake())) return ours.finish();
    }
    ADD_FAILURE() << ours.error();
    return nullptr;
  }

  bssl::UniquePtr<SSL_CTX> context_;
  std::unique_ptr<SslEnd> peer_;
};
INSTANTIATE_TEST_SUITE_P(Ciphers, Tls12Test, ::testing::Range(size_t{0}, std::size(kCiphers)),
                         [](const auto& cipher) { return std::string(kCiphers[cipher.param]).substr(12, 6); });

// In windows that are cut anywhere, with pauses, as server and as client.
//
// The long form:
//   SLUICE_RECORDS=1000000 build/release/test/alts_like_test --gtest_filter='*Tls12*CarriesBothDirections*'
TEST_P(Tls12Test, CarriesBothDirections) {
  const char* const records = std::getenv("SLUICE_RECORDS");
  const uint32_t rounds = records ? static_cast<uint32_t>(std::atoi(records)) / 12 : 40;
  for (const Side side : {Side::kServer, Side::kClient}) {
    const std::unique_ptr<RecordLayer> layer = connect(side);
    ASSERT_TRUE(layer);
    for (uint32_t seed = 0; seed < rounds; ++seed) {
      std::mt19937 random(seed);
      const std::string text = random_text(random() % 100'000, seed);
      peer_->write(text);
      opened_.clear();
      const std::string wire = peer_->take_output();
      const size_t cut = random() % (wire.size() + 1);
      ASSERT_EQ(open(*layer, wire.substr(0, cut), &random), Status::kOpen) << layer->error();
      if (seed % 5 == 0) layer->park(pool_);
      ASSERT_EQ(open(*layer, wire.substr(cut), &random), Status::kOpen) << layer->error();
      ASSERT_TRUE(opened_ == text);
      peer_->give_input(sealed(*layer, text, &random));
      ASSERT_TRUE(peer_->read() == text);
    }
  }
}

TEST_P(Tls12Test, EverySize) {
  const std::unique_ptr<RecordLayer> layer = connect(Side::kServer);
  ASSERT_TRUE(layer);
  std::string wire, sent;
  for (size_t size = 0; size <= kMaxTlsPlainBytes; size += size < 40 ? 1 : 31) {
    const std::string text = random_text(size, static_cast<uint32_t>(size));
    if (size > 0) peer_->write(text);
    peer_->give_input(sealed(*layer, text));
    sent += text;
  }
  EXPECT_EQ(open(*layer, peer_->take_output()), Status::kOpen);
  EXPECT_TRUE(opened_ == sent);
  EXPECT_TRUE(peer_->read() == sent);
}

TEST_P(Tls12Test, NothingIsCopiedInPlace) {
  const std::unique_ptr<RecordLayer> layer = connect(Side::kServer);
  ASSERT_TRUE(layer);
  std::mt19937 random(1);
  const std::string text = random_text(1'000'000, 1);
  Buffer plain = buffer_of(text, &random), wire, opened;
  peer_->write(text);
  Buffer arrived = buffer_of(peer_->take_output());
  const uint64_t before = copied_bytes;
  layer->seal(pool_, std::move(plain), wire);
  if (kNames[GetParam()] != Tls12Cipher::kChaCha20Poly1305) {  // That one needs its records in one piece.
    EXPECT_EQ(copied_bytes, before);
  }
  layer->open(pool_, std::move(arrived), opened);
  EXPECT_EQ(opened.size(), text.size());
  if (kNames[GetParam()] != Tls12Cipher::kChaCha20Poly1305) {
    EXPECT_EQ(copied_bytes, before);
  }
  peer_->give_input(wire.to_string());
  EXPECT_TRUE(peer_->read() == text);
}

TEST_P(Tls12Test, SharedBytesAreNotWrittenTo) {
  const std::unique_ptr<RecordLayer> layer = connect(Side::kServer);
  ASSERT_TRUE(layer);
  const std::string text = random_text(40'000, 1);
  Buffer plain = buffer_of(text), wire, opened;
  const Buffer other = plain.clone();
  layer->seal(pool_, std::move(plain), wire);
  EXPECT_EQ(other.to_string(), text);
  peer_->give_input(wire.to_string());
  EXPECT_EQ(peer_->read(), text);

  peer_->write(text);
  const std::string sent = peer_->take_output();
  Buffer arrived = buffer_of(sent);
  const Buffer kept = arrived.clone();
  EXPECT_EQ(layer->open(pool_, std::move(arrived), opened), Status::kOpen);
  EXPECT_EQ(opened.to_string(), text);
  EXPECT_EQ(kept.to_string(), sent);
}

TEST_P(Tls12Test, EndsInBothDirections) {
  const std::unique_ptr<RecordLayer> layer = connect(Side::kServer);
  ASSERT_TRUE(layer);
  Buffer wire;
  layer->seal(pool_, buffer_of("last of ours"), wire);
  layer->seal_end(pool_, wire);
  peer_->give_input(wire.to_string());
  EXPECT_EQ(peer_->read(), "last of ours");
  EXPECT_TRUE(SSL_get_shutdown(peer_->ssl()) & SSL_RECEIVED_SHUTDOWN);
  peer_->write("last of theirs");
  SSL_shutdown(peer_->ssl());
  EXPECT_EQ(open(*layer, peer_->take_output() + "rubbish"), Status::kEnded);
  EXPECT_EQ(opened_, "last of theirs");
}

// ---- Hostile peers that have the keys ----

class HostileTls12Test : public Tls13Test, public ::testing::WithParamInterface<size_t> {
 protected:
  HostileTls12Test() : layer_(state()), peer_(state().read) {}
  static Tls12State state(uint64_t sequence = 0) {
    Tls12State state;
    state.read.cipher = state.write.cipher = kNames[GetParam()];
    state.read.key.fill(1);
    state.write.key.fill(2);
    state.read.sequence = state.write.sequence = sequence;
    return state;
  }
  // Fails with this alert for the peer, and permanently.
  void expect_failure(std::string_view wire, TlsAlert alert) {
    EXPECT_EQ(open(layer_, wire), Status::kFailed);
    EXPECT_NE(layer_.error(), "");
    ASSERT_TRUE(layer_.has_output());
    const std::string sent = flushed(layer_);
    EXPECT_FALSE(layer_.has_output());
    EXPECT_EQ(sent.substr(0, 3), "\x15\x03\x03");
    Tls12State other = state();
    std::swap(other.read, other.write);
    Tls12RecordLayer reader(other);
    std::string plain = std::exchange(opened_, {});
    EXPECT_EQ(open(reader, sent), Status::kFailed);
    EXPECT_EQ(reader.error(), tls_alert_name(static_cast<uint8_t>(alert)));
    EXPECT_FALSE(reader.has_output()) << "The response to an alert is not an alert";
    EXPECT_EQ(open(layer_, peer_.record(23, "more")), Status::kFailed);
    EXPECT_EQ(opened_, "");
    opened_ = plain;
  }

  Tls12RecordLayer layer_;
  HandmadeTls12Records peer_;
};
INSTANTIATE_TEST_SUITE_P(Ciphers, HostileTls12Test, ::testing::Values(0, 2),
                         [](const auto& cipher) { return cipher.param == 0 ? "Gcm" : "ChaCha"; });

TEST_P(HostileTls12Test, NotAuthentic) {
  const std::string first = peer_.record(23, "first");
  std::string second = peer_.record(23, "second");
  second.back() ^= 1;
  expect_failure(first + second, TlsAlert::kBadRecordMac);
  EXPECT_EQ(opened_, "first");
}
TEST_P(HostileTls12Test, TypeIsAuthenticated) {
  std::string record = peer_.record(22, "x");
  record[0] = 23;
  expect_failure(record, TlsAlert::kBadRecordMac);
}
TEST_P(HostileTls12Test, OutOfOrder) {
  const std::string first = peer_.record(23, "first");
  expect_failure(peer_.record(23, "second") + first, TlsAlert::kBadRecordMac);
}
TEST_P(HostileTls12Test, ShorterThanNonceAndTag) {
  expect_failure(std::string("\x17\x03\x03\x00\x0f", 5) + std::string(15, 'x'), TlsAlert::kBadRecordMac);
}
TEST_P(HostileTls12Test, AnotherVersion) {
  std::string record = peer_.record(23, "x");
  record[2] = 1;
  expect_failure(record, TlsAlert::kProtocolVersion);
}
TEST_P(HostileTls12Test, TooLongOutside) {
  expect_failure(std::string("\x17\x03\x03\x48\x01", 5), TlsAlert::kRecordOverflow);
}
TEST_P(HostileTls12Test, TooLongInside) {
  expect_failure(peer_.record(23, std::string(16385, 'x')), TlsAlert::kRecordOverflow);
}
TEST_P(HostileTls12Test, AnotherHandshake) {
  expect_failure(peer_.record(22, std::string("\0\0\0\0", 4)), TlsAlert::kNoRenegotiation);
}
TEST_P(HostileTls12Test, ChangeCipherSpec) { expect_failure(peer_.record(20, "\x01"), TlsAlert::kUnexpectedMessage); }
TEST_P(HostileTls12Test, UnknownType) { expect_failure(peer_.record(99, "x"), TlsAlert::kUnexpectedMessage); }
TEST_P(HostileTls12Test, ShortAlert) { expect_failure(peer_.record(21, "\x01"), TlsAlert::kDecodeError); }
TEST_P(HostileTls12Test, AlertOfAnUnknownLevel) {
  expect_failure(peer_.record(21, "\x03\x0a"), TlsAlert::kIllegalParameter);
}
TEST_P(HostileTls12Test, TooManyWarnings) {
  std::string wire;
  for (int i = 0; i < 5; ++i) wire += peer_.record(21, "\x01\x5a");
  expect_failure(wire, TlsAlert::kUnexpectedMessage);
}
TEST_P(HostileTls12Test, TooManyEmptyRecords) {
  std::string wire;
  for (int i = 0; i < 33; ++i) wire += peer_.record(23, "");
  expect_failure(wire, TlsAlert::kUnexpectedMessage);
}
TEST_P(HostileTls12Test, DataBetweenWarningsAndEmptyRecords) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(open(layer_, peer_.record(21, "\x01\x5a")), Status::kOpen);
    for (int i = 0; i < 32; ++i) ASSERT_EQ(open(layer_, peer_.record(23, "")), Status::kOpen);
    ASSERT_EQ(open(layer_, peer_.record(23, "x")), Status::kOpen);
  }
  EXPECT_EQ(opened_, "xxx");
}
TEST_P(HostileTls12Test, AlertOfThePeer) {
  EXPECT_EQ(open(layer_, peer_.record(21, "\x02\x28")), Status::kFailed);
  EXPECT_EQ(layer_.error(), "handshake_failure");
  EXPECT_FALSE(layer_.has_output());
}
TEST_P(HostileTls12Test, SequenceNumbersEnd) {
  Tls12RecordLayer layer(state(UINT64_MAX - 1));
  HandmadeTls12Records peer(state(UINT64_MAX - 1).read);
  ASSERT_EQ(open(layer, peer.record(23, "last")), Status::kOpen);
  EXPECT_EQ(open(layer, std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x')), Status::kFailed);
  EXPECT_EQ(layer.error(), "no sequence numbers are left");
  Tls12RecordLayer writer(state(UINT64_MAX - 1));
  EXPECT_NE(sealed(writer, "last"), "");
  EXPECT_EQ(sealed(writer, "one more"), "");
  EXPECT_EQ(open(writer, ""), Status::kFailed);
  EXPECT_EQ(flushed(writer), "") << "There is none for an alert";
}

// ---- Waiting connections ----

class WaitingTls12Test : public Tls12Test {
 protected:
  // The memory of each of many connections on the heap and in the pool after half of a record of 16 KiB has arrived.
  std::pair<size_t, size_t> held(bool half_a_record) {
    constexpr size_t kConnections = 64;
    const auto waiting = [&] {
      std::unique_ptr<RecordLayer> layer = connect(Side::kServer);
      if (half_a_record) {
        peer_->write(std::string(kMaxTlsPlainBytes, 'x'));
        const std::string wire = peer_->take_output();
        EXPECT_EQ(open(*layer, std::string_view(wire).substr(0, wire.size() / 2)), Status::kOpen);
      }
      layer->park(pool_);
      peer_.reset();
      return layer;
    };
    waiting();  // Allocates what is allocated once.
    std::vector<std::unique_ptr<RecordLayer>> layers;
    layers.reserve(kConnections);
    const size_t heap = allocated(), pool = pool_.out_bytes();
    for (size_t i = 0; i < kConnections; ++i) layers.push_back(waiting());
    return {(allocated() - heap) / kConnections, (pool_.out_bytes() - pool) / kConnections};
  }
  static size_t allocated() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  }
};
INSTANTIATE_TEST_SUITE_P(Ciphers, WaitingTls12Test, ::testing::Values(0), [](const auto&) { return "Aes128"; });

// Defect: a waiting connection kept its SSL object, 4 KB, and 20 KB if half a record had arrived. (Under a sanitizer,
// which has its own malloc, the heap is not counted.)
TEST_P(WaitingTls12Test, HoldsOnlyItsSecrets) {
  const auto [heap, pool] = held(false);
  EXPECT_LE(heap, 512u);
  EXPECT_EQ(pool, 0u);
}
TEST_P(WaitingTls12Test, HoldsReceivedBytes) {
  const auto [heap, pool] = held(true);
  EXPECT_LE(heap, 512u);
  EXPECT_LE(pool, kMaxTlsPlainBytes);
}

}  // namespace
}  // namespace sluice
