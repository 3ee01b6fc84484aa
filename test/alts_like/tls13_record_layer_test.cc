#include "alts_like/tls13_record_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "alts_like/tls_session_ticket.h"
#include "sluice/copied.h"
#include "test/alts_like/handmade_records.h"
#include "test/alts_like/ssl_pair.h"
#include "test/alts_like/tls13_fixture.h"

namespace sluice {
namespace {

using test::HandmadeRecords;
using test::random_text;
using test::SslPair;
using test::Tls13CipherTest;
using test::Tls13Test;
using Status = RecordLayer::Status;

INSTANTIATE_TEST_SUITE_P(All, Tls13CipherTest, ::testing::ValuesIn(test::kTls13Ciphers), test::tls13_cipher_name);

TEST_F(Tls13Test, SecretsHaveTheSizeOfTheHash) {
  const std::vector<uint8_t> bytes(48);
  EXPECT_TRUE(Tls13Secret::from(Tls13Cipher::kAes256Gcm, bytes, 0));
  EXPECT_FALSE(Tls13Secret::from(Tls13Cipher::kAes128Gcm, bytes, 0));
  EXPECT_FALSE(Tls13Secret::from(Tls13Cipher::kAes256Gcm, std::span(bytes).first(32), 0));
}

// ---- Against BoringSSL ----

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

// Exclusive plaintext is sealed in place; shared plaintext is not changed.
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

  // And records that have another reader are opened elsewhere.
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
    // Mostly small ones: errors are likely at the boundaries.
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
    records += 2 * (1 + size / kMaxTlsPlainBytes);
  }
}

// Every size of record, with every amount of padding, which no library could be made to send.
//
//   SLUICE_SIZE_STEP=1 build/release/test/alts_like_test --gtest_filter='*EverySizeAndPadding*'   the long form
TEST_P(Tls13CipherTest, EverySizeAndPadding) {
  const char* const wanted = std::getenv("SLUICE_SIZE_STEP");
  const size_t step = wanted ? std::strtoull(wanted, nullptr, 10) : 97;
  SslPair pair(GetParam());
  Tls13RecordLayer layer(pair.server.state());
  HandmadeRecords peer(pair.client.state().write);
  std::mt19937 random(7);
  for (size_t size = 0; size <= 16384; size += size < 300 || size > 16300 ? 1 : step) {
    const std::string text = random_text(size, static_cast<uint32_t>(size));
    for (const size_t padding : {size_t{0}, size_t{random() % (16385 - size)}, size_t{16384 - size}}) {
      opened_.clear();
      ASSERT_EQ(open(layer, peer.record(23, text, padding), &random), Status::kOpen) << size << layer.error();
      ASSERT_EQ(opened_, text);
    }
  }
}

// ---- Hostile and broken peers ----

class HostileTest : public Tls13Test {
 protected:
  HostileTest() : pair_(Tls13Cipher::kAes128Gcm), layer_(pair_.server.state()), peer_(pair_.client.state().write) {
    pair_.client.give_input(pair_.for_client);
  }
  // The layer fails with the alert, and a real client receives it.
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
  HandmadeRecords peer_;
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
TEST_F(HostileTest, EmptyContent) { expect_failure(peer_.sealed(""), TlsAlert::kUnexpectedMessage); }
TEST_F(HostileTest, TooLongOutside) {
  expect_failure(std::string("\x17\x03\x03\x41\x01", 5), TlsAlert::kRecordOverflow);
}
TEST_F(HostileTest, TooLongInside) {
  expect_failure(peer_.record(23, std::string(16385, 'x')), TlsAlert::kRecordOverflow);
}
TEST_F(HostileTest, TooMuchPadding) { expect_failure(peer_.record(23, "x", 16384), TlsAlert::kRecordOverflow); }
TEST_F(HostileTest, ChangeCipherSpec) {
  expect_failure(std::string("\x14\x03\x03\x00\x01\x01", 6), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, PlainAlert) {
  expect_failure(std::string("\x15\x03\x03\x00\x02\x01\x00", 7), TlsAlert::kUnexpectedMessage);
}
TEST_F(HostileTest, UnknownType) { expect_failure(peer_.record(24, "x"), TlsAlert::kUnexpectedMessage); }
// Defect: decode_error was sent, where RFC 8446 section 5.4 requires unexpected_message.
TEST_F(HostileTest, EmptyAlert) { expect_failure(peer_.record(21, ""), TlsAlert::kUnexpectedMessage); }
TEST_F(HostileTest, EmptyAlertWithPadding) { expect_failure(peer_.record(21, "", 9), TlsAlert::kUnexpectedMessage); }
TEST_F(HostileTest, ShortAlert) { expect_failure(peer_.record(21, "\x01"), TlsAlert::kDecodeError); }
TEST_F(HostileTest, TwoAlertsInOneRecord) {
  expect_failure(peer_.record(21, std::string("\x01\x00\x01\x00", 4)), TlsAlert::kDecodeError);
}
TEST_F(HostileTest, TooManyWarnings) {
  for (int i = 0; i < 4; ++i) ASSERT_EQ(open(layer_, peer_.record(21, "\x01\x5a")), Status::kOpen);
  expect_failure(peer_.record(21, "\x01\x5a"), TlsAlert::kUnexpectedMessage);
}
// Defect: warnings were counted over the whole connection: a long one ended at the fifth, whatever was in between.
TEST_F(HostileTest, DataBetweenWarnings) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(open(layer_, peer_.record(21, "\x01\x5a")), Status::kOpen) << layer_.error();
    ASSERT_EQ(open(layer_, peer_.record(23, "x")), Status::kOpen);
  }
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
TEST_F(HostileTest, AlertInsideAHandshakeMessage) {
  ASSERT_EQ(open(layer_, peer_.record(22, std::string("\x18\x00", 2))), Status::kOpen);
  expect_failure(peer_.record(21, std::string("\x01\x00", 2)), TlsAlert::kUnexpectedMessage);
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

// RFC 8446 section 5.3 requires an end, and names no alert. Neither data nor an alert has a sequence number left.
TEST_F(HostileTest, SequenceNumbersEnd) {
  for (const uint8_t type : {uint8_t{23}, uint8_t{21}}) {
    Tls13State state = pair_.server.state();
    state.read.sequence = UINT64_MAX;
    Tls13RecordLayer layer(state), client(pair_.client.state());
    open(client, pair_.for_client);
    EXPECT_EQ(open(layer, peer_.record(type, "x")), Status::kFailed);
    EXPECT_EQ(layer.error(), "no sequence numbers are left");
    EXPECT_EQ(open(client, flushed(layer)), Status::kFailed);
    EXPECT_TRUE(client.failed_by_peer());
    EXPECT_EQ(client.error(), "internal_error");
  }
}

// ---- Session tickets ----

std::string ticket_message(std::string_view body) {
  return std::string{4, static_cast<char>(body.size() >> 16), static_cast<char>(body.size() >> 8),
                     static_cast<char>(body.size())} +
         std::string(body);
}
std::string vector16(std::string_view bytes) {
  return std::string{static_cast<char>(bytes.size() >> 8), static_cast<char>(bytes.size())} + std::string(bytes);
}
std::string ticket_of(size_t bytes, std::string_view extensions = {}) {
  return ticket_message(std::string(8, 'l') + std::string("\x02nn", 3) + vector16(std::string(bytes, 't')) +
                        vector16(extensions));
}

/// A client of ours, and a server that may seal anything.
class TicketTest : public Tls13Test {
 protected:
  TicketTest() : pair_(Tls13Cipher::kAes128Gcm), layer_(pair_.client.state()), peer_(pair_.server.state().write) {
    // The server's own tickets are before it.
    open(layer_, pair_.for_client);
    layer_.take_tickets();
  }
  // In records that are full.
  Status give(std::string_view message) {
    Status status = Status::kOpen;
    for (; !message.empty(); message.remove_prefix(std::min<size_t>(message.size(), 16384))) {
      status = open(layer_, peer_.record(22, message.substr(0, 16384)));
    }
    return status;
  }
  void expect_failure(std::string_view message, TlsAlert alert) {
    EXPECT_EQ(give(message), Status::kFailed);
    Tls13RecordLayer server(server_state_);
    EXPECT_EQ(open(server, flushed(layer_)), Status::kFailed);
    EXPECT_EQ(server.error(), tls_alert_name(static_cast<uint8_t>(alert))) << layer_.error();
  }

  SslPair pair_;
  Tls13RecordLayer layer_;
  HandmadeRecords peer_;
  const Tls13State server_state_ = pair_.server.state();
};

// Defect: malformed tickets were dropped, where RFC 8446 section 6 requires an end with decode_error.
TEST_F(TicketTest, WithoutATicket) { expect_failure(ticket_of(0), TlsAlert::kDecodeError); }
TEST_F(TicketTest, Short) { expect_failure(ticket_message("lllla"), TlsAlert::kDecodeError); }
TEST_F(TicketTest, Empty) { expect_failure(ticket_message(""), TlsAlert::kDecodeError); }
TEST_F(TicketTest, BytesAfterIt) {
  expect_failure(ticket_message(ticket_of(5).substr(4) + "x"), TlsAlert::kDecodeError);
}
TEST_F(TicketTest, CutExtension) {
  expect_failure(ticket_of(5, std::string("\x12\x34\x00\x02x", 5)), TlsAlert::kDecodeError);
}
TEST_F(TicketTest, EarlyDataOfAnotherSize) {
  expect_failure(ticket_of(5, std::string("\0\x2a\0\x01x", 5)), TlsAlert::kDecodeError);
}
TEST_F(TicketTest, ExtensionTwice) {
  expect_failure(ticket_of(5, std::string("\x12\x34\0\0\x12\x34\0\0", 8)), TlsAlert::kIllegalParameter);
}
TEST_F(TicketTest, TooLong) {
  const size_t length = kMaxTicketMessageBytes + 1;
  expect_failure(
      std::string{4, static_cast<char>(length >> 16), static_cast<char>(length >> 8), static_cast<char>(length)},
      TlsAlert::kDecodeError);
}

TEST_F(TicketTest, UnknownExtensions) {
  const std::string ticket = ticket_of(5, std::string("\x12\x34\0\x01x\x12\x35\0\0", 9));
  EXPECT_EQ(give(ticket), Status::kOpen) << layer_.error();
  EXPECT_EQ(layer_.take_tickets().to_string(), ticket);
}

// Defect: a legal ticket of more than 16 KiB ended the connection. It is useless, and dropped as it arrives.
TEST_F(TicketTest, LargeTicketsAreDropped) {
  for (const size_t bytes : {16500u, 40'000u, 65'535u}) {
    EXPECT_EQ(give(ticket_of(bytes)), Status::kOpen) << layer_.error();
    layer_.park(pool_);
    EXPECT_LE(pool_.out_bytes(), 1024u) << "More than the cipher of the test's own peer";
  }
  const std::string large = ticket_of(30'000), small = ticket_of(100);
  EXPECT_EQ(give(large.substr(0, 20'000)), Status::kOpen);
  EXPECT_LT(pool_.out_bytes(), 4096u);
  EXPECT_EQ(give(large.substr(20'000) + small), Status::kOpen);
  EXPECT_EQ(layer_.take_tickets().to_string(), small);
  EXPECT_EQ(open(layer_, peer_.record(23, "data")), Status::kOpen);
  EXPECT_EQ(opened_, "data");
}
TEST_F(TicketTest, DataInsideALargeTicket) {
  EXPECT_EQ(give(ticket_of(30'000).substr(0, 20'000)), Status::kOpen);
  EXPECT_EQ(open(layer_, peer_.record(23, "x")), Status::kFailed);
  EXPECT_EQ(layer_.error(), "another record inside a handshake message");
}

// Any number is accepted; those that are not taken are bounded.
TEST_F(TicketTest, Many) {
  const std::string ticket = ticket_of(10'000);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(give(ticket), Status::kOpen);
  const size_t held = layer_.take_tickets().size();
  EXPECT_EQ(held, 6 * ticket.size());
}

// A ticket that arrives slowly does not pin a chunk for each byte.
TEST_F(TicketTest, ByteByByteTicket) {
  const std::string ticket = ticket_of(2000);
  for (const char c : ticket.substr(0, 2000)) ASSERT_EQ(open(layer_, peer_.record(22, {&c, 1})), Status::kOpen);
  EXPECT_LT(pool_.out_bytes(), 16'384u);
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

TEST_P(Tls13CipherTest, KeyUpdatesInBothDirections) {
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
    EXPECT_FALSE(layer.has_output()) << "A response waits for what is sealed next";
    std::string response = round % 4 ? flushed(layer) : std::string();
    if (round % 5 == 0) {
      Buffer wire;
      layer.update_keys(pool_, round % 2, wire);
      response += wire.to_string();
    }
    pair.client.give_input(response + sealed(layer, text));
    ASSERT_EQ(pair.client.read(), text);
  }
}

// Our keys are updated automatically, long before the cipher's limit.
TEST_F(Tls13Test, KeysAreUpdatedAfterManyRecords) {
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

// A waiting connection pins only the received bytes of a record.
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
