#include "alts_like/tls13_record_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "buffer/copied.h"
#include "test/alts_like/ssl_pair.h"

namespace sluice {
namespace {

using Status = RecordLayer::Status;
using test::SslPair;

constexpr Tls13Cipher kCiphers[] = {Tls13Cipher::kAes128Gcm, Tls13Cipher::kAes256Gcm, Tls13Cipher::kChaCha20Poly1305};

std::string from_hex(std::string_view text) {
  std::string bytes;
  std::string digits;
  for (const char c : text) {
    if (c == ' ') continue;
    digits.push_back(c);
    if (digits.size() == 2) bytes.push_back(static_cast<char>(std::stoi(digits, nullptr, 16))), digits.clear();
  }
  return bytes;
}

std::string random_text(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class Tls13Test : public ::testing::Test {
 protected:
  ~Tls13Test() override { EXPECT_EQ(pool_.leaked(), 0u); }

  // In chunks of their own, cut at random if a seed is given.
  Buffer buffer_of(std::string_view text, std::mt19937* random = nullptr) {
    Buffer buffer;
    while (!text.empty()) {
      const size_t most = std::min<size_t>(text.size(), 16384);
      const size_t piece = random ? 1 + (*random)() % most : most;
      Lease lease = Lease::allocate(pool_, piece);
      lease.grow_back(piece);
      std::memcpy(lease.data(), text.data(), piece);
      buffer.append(std::move(lease));
      text.remove_prefix(piece);
    }
    return buffer;
  }
  std::string sealed(Tls13RecordLayer& layer, std::string_view text, std::mt19937* random = nullptr) {
    Buffer wire;
    layer.seal(pool_, buffer_of(text, random), wire);
    return wire.to_string();
  }
  // Opens bytes in one go; what they carry is appended to `opened_`.
  Status open(Tls13RecordLayer& layer, std::string_view wire, std::mt19937* random = nullptr) {
    Buffer plain;
    const Status status = layer.open(pool_, buffer_of(wire, random), plain);
    opened_ += plain.to_string();
    return status;
  }
  std::string flushed(Tls13RecordLayer& layer) {
    Buffer wire;
    layer.flush(pool_, wire);
    return wire.to_string();
  }

  ChunkPool pool_{{.budget_bytes = size_t{64} << 20}};
  ChunkPool::Use use_{&pool_};
  std::string opened_;
};

// ---- Vectors ----

// RFC 8448 section 3: the client's and the server's first application data.
TEST_F(Tls13Test, Rfc8448) {
  const std::string client_secret = from_hex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5");
  const std::string server_secret = from_hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
  const auto secret = [](const std::string& bytes, uint64_t sequence) {
    return Tls13Secret::from(Tls13Cipher::kAes128Gcm, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                             sequence)
        .value();
  };
  const std::string record = from_hex(
      "17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab 3f 2b 98 19 a8 a5"
      "b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4");
  std::string payload;
  for (char c = 0; c < 50; ++c) payload.push_back(c);

  Tls13State server;
  server.read = secret(client_secret, 0);
  server.write = secret(server_secret, 1);  // The session ticket was its first record.
  Tls13RecordLayer layer(server);
  EXPECT_EQ(open(layer, record), Status::kOpen);
  EXPECT_EQ(opened_, payload);

  Tls13State client;
  client.read = server.write;
  client.write = server.read;
  client.flags.is_client = true;
  Tls13RecordLayer other(client);
  EXPECT_EQ(sealed(other, payload), record);
}

TEST_F(Tls13Test, SecretsHaveTheSizeOfTheHash) {
  const std::vector<uint8_t> bytes(48);
  EXPECT_TRUE(Tls13Secret::from(Tls13Cipher::kAes256Gcm, bytes, 0));
  EXPECT_FALSE(Tls13Secret::from(Tls13Cipher::kAes128Gcm, bytes, 0));
  EXPECT_FALSE(Tls13Secret::from(Tls13Cipher::kAes256Gcm, std::span(bytes).first(32), 0));
}

// ---- Against BoringSSL ----

class Tls13CipherTest : public Tls13Test, public ::testing::WithParamInterface<Tls13Cipher> {};
INSTANTIATE_TEST_SUITE_P(All, Tls13CipherTest, ::testing::ValuesIn(kCiphers), [](const auto& cipher) {
  return cipher.param == Tls13Cipher::kAes128Gcm   ? "Aes128Gcm"
         : cipher.param == Tls13Cipher::kAes256Gcm ? "Aes256Gcm"
                                                   : "ChaCha20Poly1305";
});

TEST_P(Tls13CipherTest, AsServer) {
  SslPair pair(GetParam());
  ASSERT_EQ(pair.server.state().read.cipher, GetParam());
  Tls13RecordLayer layer(pair.server.state());
  pair.client.give_input(pair.for_client);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::string text = random_text(random() % 100'000, seed);
    pair.client.write(text);
    opened_.clear();
    ASSERT_EQ(open(layer, pair.client.take_output(), &random), Status::kOpen);
    ASSERT_EQ(opened_, text);
    pair.client.give_input(sealed(layer, text, &random));
    ASSERT_EQ(pair.client.read(), text);
    if (seed % 5 == 0) layer.park(pool_);
  }
}

TEST_P(Tls13CipherTest, AsClient) {
  SslPair pair(GetParam());
  Tls13RecordLayer layer(pair.client.state());
  EXPECT_EQ(open(layer, pair.for_client), Status::kOpen);
  const std::string tickets = layer.take_tickets().to_string();
  EXPECT_GT(tickets.size(), 100u);
  EXPECT_EQ(tickets[0], 4);
  EXPECT_EQ(SSL_process_tls13_new_session_ticket(pair.client.ssl(), nullptr, 0), nullptr);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::string text = random_text(random() % 100'000, seed);
    pair.server.write(text);
    opened_.clear();
    ASSERT_EQ(open(layer, pair.server.take_output(), &random), Status::kOpen);
    ASSERT_EQ(opened_, text);
    pair.server.give_input(sealed(layer, text, &random));
    ASSERT_EQ(pair.server.read(), text);
  }
}

// Byte by byte, and each prefix of a record leaves nothing opened.
TEST_P(Tls13CipherTest, ByteByByte) {
  SslPair pair(GetParam());
  Tls13RecordLayer layer(pair.server.state());
  pair.client.write("hello");
  pair.client.write("world");
  const std::string wire = pair.client.take_output();
  for (const char c : wire) ASSERT_EQ(open(layer, {&c, 1}), Status::kOpen);
  EXPECT_EQ(opened_, "helloworld");
}

// Plaintext that is ours alone is sealed where it is; what others hold too is left as it is.
TEST_P(Tls13CipherTest, SharedBytesAreNotWrittenTo) {
  SslPair pair(GetParam());
  Tls13RecordLayer layer(pair.server.state());
  pair.client.give_input(pair.for_client);
  const std::string text = random_text(40'000, 1);
  Buffer plain = buffer_of(text);
  const Buffer other = plain.clone();
  Buffer wire;
  layer.seal(pool_, std::move(plain), wire);
  EXPECT_EQ(other.to_string(), text);
  pair.client.give_input(wire.to_string());
  EXPECT_EQ(pair.client.read(), text);

  // And records that somebody else still reads are opened elsewhere.
  pair.client.write(text);
  const std::string sent = pair.client.take_output();
  Buffer arrived = buffer_of(sent);
  const Buffer kept = arrived.clone();
  Buffer opened;
  EXPECT_EQ(layer.open(pool_, std::move(arrived), opened), Status::kOpen);
  EXPECT_EQ(opened.to_string(), text);
  EXPECT_EQ(kept.to_string(), sent);
}

TEST_F(Tls13Test, NothingIsCopiedInPlace) {
  SslPair pair(Tls13Cipher::kAes128Gcm);
  Tls13RecordLayer server(pair.server.state()), client(pair.client.state());
  open(client, pair.for_client);
  client.take_tickets();
  std::mt19937 random(1);
  Buffer plain = buffer_of(random_text(1'000'000, 1), &random);
  const uint64_t before = copied_bytes;
  Buffer wire, opened;
  server.seal(pool_, std::move(plain), wire);
  client.open(pool_, std::move(wire), opened);
  EXPECT_EQ(opened.size(), 1'000'000u);
  EXPECT_EQ(copied_bytes, before);
}

// Records of a real SSL object are opened here and ours there, cut anywhere, on both sides of key updates and parking.
//
//   SLUICE_RECORDS=1000000 build/release/test/alts_like_test --gtest_filter='*RecordsCutAnywhere*'   the long form
TEST_P(Tls13CipherTest, RecordsCutAnywhere) {
  const char* const wanted = std::getenv("SLUICE_RECORDS");
  const uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 2000;
  SslPair pair(GetParam());
  Tls13RecordLayer layer(pair.server.state());
  pair.client.give_input(pair.for_client);
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  const std::string text = random_text(40'000, 3);
  for (uint64_t records = 0; records < count;) {
    // Mostly small ones: what can go wrong is at the borders.
    const size_t size = 1 + random() % (random() % 16 == 0 ? 40'000 : 300);
    if (random() % 64 == 0) SSL_key_update(pair.client.ssl(), SSL_KEY_UPDATE_REQUESTED);
    pair.client.write(std::string_view(text).substr(0, size));
    std::string wire = pair.client.take_output();
    opened_.clear();
    while (!wire.empty()) {
      const size_t piece = 1 + random() % wire.size();
      ASSERT_EQ(open(layer, std::string_view(wire).substr(0, piece), &random), Status::kOpen) << layer.error();
      wire.erase(0, piece);
      if (random() % 16 == 0) layer.park(pool_);
    }
    ASSERT_EQ(opened_, std::string_view(text).substr(0, size));
    const std::string back = sealed(layer, std::string_view(text).substr(0, size), &random);
    pair.client.give_input(back);
    ASSERT_EQ(pair.client.read(), std::string_view(text).substr(0, size));
    records += 2 * (1 + size / Tls13RecordLayer::kMaxPlainBytes);
  }
}

// Every size of record, with every amount of padding, as a peer of ours could never be told to send it.
TEST_F(Tls13Test, EverySizeAndPadding) {
  SslPair pair(Tls13Cipher::kAes128Gcm);
  Tls13RecordLayer layer(pair.server.state());
  Tls13Keys peer(pair.client.state().write);
  std::mt19937 random(7);
  for (size_t size = 0; size <= 16384; size += size < 300 || size > 16300 ? 1 : 97) {
    const std::string text = random_text(size, static_cast<uint32_t>(size));
    const size_t padding = random() % (16385 - size);
    std::string inner = text + '\x17' + std::string(padding, '\0');
    const size_t length = inner.size() + 16;
    std::string record{'\x17', 3, 3, static_cast<char>(length >> 8), static_cast<char>(length)};
    record += inner + std::string(16, '\0');
    uint8_t* bytes = reinterpret_cast<uint8_t*>(record.data());
    const CRYPTO_IOVEC piece{bytes + 5, bytes + 5, inner.size()};
    peer.seal({&piece, 1}, {bytes, 5}, bytes + 5 + inner.size());
    opened_.clear();
    ASSERT_EQ(open(layer, record, &random), Status::kOpen) << size << layer.error();
    ASSERT_EQ(opened_, text);
    if (size == 0) opened_.clear();
  }
}

// ---- Hostile and broken peers ----

/// The client's end as one that may seal anything.
class Hostile {
 public:
  explicit Hostile(const Tls13State& client) : keys_(client.write) {}
  std::string record(uint8_t type, std::string_view content, size_t padding = 0) {
    std::string inner(content);
    inner.push_back(static_cast<char>(type));
    inner.append(padding, '\0');
    return sealed(inner);
  }
  std::string sealed(std::string inner) {
    const size_t length = inner.size() + 16;
    std::string record{'\x17', 3, 3, static_cast<char>(length >> 8), static_cast<char>(length)};
    record += inner + std::string(16, '\0');
    uint8_t* bytes = reinterpret_cast<uint8_t*>(record.data());
    const CRYPTO_IOVEC piece{bytes + 5, bytes + 5, inner.size()};
    keys_.seal({&piece, 1}, {bytes, 5}, bytes + 5 + inner.size());
    return record;
  }
  void update() { keys_.update(); }

 private:
  Tls13Keys keys_;
};

class HostileTest : public Tls13Test {
 protected:
  HostileTest() : pair_(Tls13Cipher::kAes128Gcm), layer_(pair_.server.state()), peer_(pair_.client.state()) {
    pair_.client.give_input(pair_.for_client);
  }
  // The layer fails with the alert, and a real client hears it.
  void expect_failure(std::string_view wire, TlsAlert alert) {
    EXPECT_EQ(open(layer_, wire), Status::kFailed);
    EXPECT_FALSE(layer_.error().empty());
    EXPECT_FALSE(layer_.failed_by_peer());
    ASSERT_TRUE(layer_.has_output());
    pair_.client.give_input(flushed(layer_));
    EXPECT_FALSE(layer_.has_output());
    pair_.client.read();
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    EXPECT_EQ(reason, SSL_AD_REASON_OFFSET + static_cast<int>(alert)) << layer_.error();
    ERR_clear_error();
    // Nothing more is opened.
    EXPECT_EQ(open(layer_, "whatever"), Status::kFailed);
    EXPECT_EQ(opened_, expected_);
  }
  std::string expected_;
  SslPair pair_;
  Tls13RecordLayer layer_;
  Hostile peer_;
};

TEST_F(HostileTest, NotAuthentic) {
  expected_ = "first";
  const std::string first = peer_.record(23, "first");
  std::string second = peer_.record(23, "second");
  second.back() ^= 1;
  expect_failure(first + second, TlsAlert::kBadRecordMac);
}
TEST_F(HostileTest, ShorterThanATag) {
  expect_failure(std::string("\x17\x03\x03\x00\x0f", 5) + std::string(15, 'x'), TlsAlert::kBadRecordMac);
}
TEST_F(HostileTest, Empty) { expect_failure(std::string("\x17\x03\x03\x00\x00", 5), TlsAlert::kBadRecordMac); }
TEST_F(HostileTest, HeaderIsAuthenticated) {
  std::string record = peer_.record(23, "x");
  record[2] = 4;
  expect_failure(record, TlsAlert::kBadRecordMac);
}
TEST_F(HostileTest, OnlyPadding) { expect_failure(peer_.sealed(std::string(100, '\0')), TlsAlert::kUnexpectedMessage); }
TEST_F(HostileTest, NothingInside) { expect_failure(peer_.sealed(""), TlsAlert::kUnexpectedMessage); }
TEST_F(HostileTest, TooLongOutside) {
  expect_failure(std::string("\x17\x03\x03\x41\x01", 5), TlsAlert::kRecordOverflow);
}
TEST_F(HostileTest, TooLongInside) {
  expect_failure(peer_.record(23, std::string(16385, 'x')), TlsAlert::kRecordOverflow);
}
TEST_F(HostileTest, ChangeCipherSpec) {
  expect_failure(std::string("\x14\x03\x03\x00\x01\x01", 6), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, PlainAlert) {
  expect_failure(std::string("\x15\x03\x03\x00\x02\x01\x00", 7), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, UnknownType) { expect_failure(peer_.record(24, "x"), TlsAlert::kUnexpectedMessage); }
TEST_F(HostileTest, ShortAlert) { expect_failure(peer_.record(21, "\x01"), TlsAlert::kDecodeError); }
TEST_F(HostileTest, TwoAlertsInOneRecord) {
  expect_failure(peer_.record(21, std::string("\x01\x00\x01\x00", 4)), TlsAlert::kDecodeError);
}
TEST_F(HostileTest, TooManyWarnings) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(open(layer_, peer_.record(21, "\x01\x5a")), Status::kOpen);
  expect_failure(peer_.record(21, "\x01\x5a"), TlsAlert::kDecodeError);
}
TEST_F(HostileTest, TooManyEmptyRecords) {
  for (int i = 0; i < 32; ++i) ASSERT_EQ(open(layer_, peer_.record(23, "", 5)), Status::kOpen);
  expect_failure(peer_.record(23, ""), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, TooManyKeyUpdates) {
  const std::string update("\x18\x00\x00\x01\x00", 5);
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(open(layer_, peer_.record(22, update)), Status::kOpen);
    peer_.update();
  }
  expect_failure(peer_.record(22, update), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, KeyUpdateOfTwoBytes) {
  expect_failure(peer_.record(22, std::string("\x18\x00\x00\x02\x00\x00", 6)), TlsAlert::kDecodeError);
}
TEST_F(HostileTest, KeyUpdateOfAnUnknownKind) {
  expect_failure(peer_.record(22, std::string("\x18\x00\x00\x01\x02", 5)), TlsAlert::kIllegalParameter);
}
TEST_F(HostileTest, KeyUpdateInsideARecord) {
  expect_failure(peer_.record(22, std::string("\x18\x00\x00\x01\x00\x18", 6)), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, EmptyHandshakeRecord) { expect_failure(peer_.record(22, ""), TlsAlert::kUnexpectedMessage); }
TEST_F(HostileTest, DataInsideAHandshakeMessage) {
  ASSERT_EQ(open(layer_, peer_.record(22, std::string("\x18\x00", 2))), Status::kOpen);
  expect_failure(peer_.record(23, "x"), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, TicketFromAClient) {
  expect_failure(peer_.record(22, std::string("\x04\x00\x00\x01", 4)), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, AnotherHandshake) {
  expect_failure(peer_.record(22, std::string("\x01\x00\x00\x01", 4)), TlsAlert::kUnexpectedMessage);
}

TEST_F(HostileTest, AlertOfThePeer) {
  EXPECT_EQ(open(layer_, peer_.record(21, "\x02\x2a")), Status::kFailed);
  EXPECT_EQ(layer_.error(), "bad_certificate");
  EXPECT_TRUE(layer_.failed_by_peer());
  EXPECT_FALSE(layer_.has_output());
}

TEST_F(HostileTest, SequenceNumbersEnd) {
  Tls13State state = pair_.server.state();
  state.read.sequence = UINT64_MAX;
  Tls13RecordLayer layer(state);
  EXPECT_EQ(open(layer, peer_.record(23, "x")), Status::kFailed);
  EXPECT_EQ(layer.error(), "no sequence numbers are left");
}

// ---- Ends and keys ----

TEST_F(HostileTest, CloseNotifyEndsOneDirection) {
  const std::string last = peer_.record(23, "last");
  const std::string end = peer_.record(21, std::string("\x01\x00", 2));
  EXPECT_EQ(open(layer_, last + end + "rubbish"), Status::kEnded);
  EXPECT_EQ(opened_, "last");
  EXPECT_EQ(open(layer_, "more"), Status::kEnded);
  pair_.client.give_input(sealed(layer_, "we go on"));
  EXPECT_EQ(pair_.client.read(), "we go on");
  Buffer wire;
  layer_.seal_end(pool_, wire);
  pair_.client.give_input(wire.to_string());
  EXPECT_EQ(pair_.client.read(), "");
  EXPECT_EQ(SSL_get_shutdown(pair_.client.ssl()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
}

TEST_P(Tls13CipherTest, KeyUpdatesBothWays) {
  SslPair pair(GetParam());
  Tls13RecordLayer layer(pair.server.state());
  pair.client.give_input(pair.for_client);
  for (int round = 0; round < 50; ++round) {
    const std::string text = std::to_string(round);
    if (round % 3 != 0)
      SSL_key_update(pair.client.ssl(), round % 2 ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
    pair.client.write(text);
    opened_.clear();
    ASSERT_EQ(open(layer, pair.client.take_output()), Status::kOpen) << layer.error();
    ASSERT_EQ(opened_, text);
    EXPECT_FALSE(layer.has_output()) << "An answer waits for what is sealed next";
    std::string answer = round % 4 ? flushed(layer) : std::string();
    if (round % 5 == 0) {
      Buffer wire;
      layer.update_keys(pool_, round % 2, wire);
      answer += wire.to_string();
    }
    pair.client.give_input(answer + sealed(layer, text));
    ASSERT_EQ(pair.client.read(), text);
  }
}

// Our keys are renewed by themselves, long before the cipher's limit.
TEST_F(Tls13Test, KeysAreRenewedAfterManyRecords) {
  SslPair pair(Tls13Cipher::kAes128Gcm);
  Tls13State server = pair.server.state(), client = pair.client.state();
  server.write.sequence = client.read.sequence = Tls13RecordLayer::kRecordsPerKey - 2;
  Tls13RecordLayer layer(server), peer(client);
  EXPECT_EQ(open(peer, sealed(layer, random_text(10'000, 1))), Status::kOpen) << peer.error();
  EXPECT_EQ(opened_, random_text(10'000, 1));
  EXPECT_EQ(layer.state().write.sequence, peer.state().read.sequence);
  EXPECT_LT(layer.state().write.sequence, 100u);
}

TEST_F(Tls13Test, RecordsAreSmallAtFirstAndAfterAPause) {
  SslPair pair(Tls13Cipher::kAes128Gcm);
  Tls13RecordLayer layer(pair.server.state());
  const auto lengths = [&](size_t bytes) {
    const std::string wire = sealed(layer, std::string(bytes, 'x'));
    std::vector<size_t> result;
    for (size_t at = 0; at < wire.size(); at += 5 + result.back()) {
      result.push_back(static_cast<uint8_t>(wire[at + 3]) * 256u + static_cast<uint8_t>(wire[at + 4]));
    }
    return result;
  };
  const std::vector<size_t> first = lengths(1'000'000);
  EXPECT_EQ(first.front(), 1350u + 17);
  EXPECT_EQ(*std::max_element(first.begin(), first.end()), 16384u + 17);
  EXPECT_EQ(lengths(16384), std::vector<size_t>{16384 + 17});
  layer.park(pool_);
  EXPECT_EQ(lengths(16384).front(), 1350u + 17);
}

// The state is data: the connection goes on in another object, also in the middle of a record.
TEST_P(Tls13CipherTest, Moves) {
  SslPair pair(GetParam());
  pair.client.give_input(pair.for_client);
  auto layer = std::make_unique<Tls13RecordLayer>(pair.server.state());
  for (int i = 0; i < 10; ++i) {
    const std::string text = random_text(3000, static_cast<uint32_t>(i));
    pair.client.write(text);
    const std::string wire = pair.client.take_output();
    opened_.clear();
    open(*layer, wire.substr(0, 1000 + static_cast<size_t>(i)));
    ASSERT_TRUE(layer->movable());
    const Tls13State state = layer->state();
    layer = std::make_unique<Tls13RecordLayer>(state, layer->take_partial());
    ASSERT_EQ(open(*layer, wire.substr(1000 + static_cast<size_t>(i))), Status::kOpen);
    ASSERT_EQ(opened_, text);
    pair.client.give_input(sealed(*layer, text));
    ASSERT_EQ(pair.client.read(), text);
  }
}

// A connection that waits pins nothing but the bytes that have arrived of a record.
TEST_F(Tls13Test, ParkedConnectionsPinLittle) {
  SslPair pair(Tls13Cipher::kAes128Gcm);
  Tls13RecordLayer layer(pair.server.state());
  pair.client.write("whole");
  pair.client.write("half");
  const std::string wire = pair.client.take_output();
  open(layer, wire.substr(0, wire.size() - 5));
  layer.park(pool_);
  EXPECT_EQ(pool_.out_bytes(), 64u);
  EXPECT_EQ(open(layer, wire.substr(wire.size() - 5)), Status::kOpen);
  EXPECT_EQ(opened_, "wholehalf");
  layer.park(pool_);
  EXPECT_EQ(pool_.out_bytes(), 0u);
  EXPECT_LE(sizeof layer, 320u);
}

}  // namespace
}  // namespace sluice
