// Record layers that are serialized and restored, and where their keys are after they were destroyed.
#include "alts_like/record_state.h"

#include <gtest/gtest.h>
#include <openssl/aead.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "alts_like/aead_context.h"
#include "alts_like/alts_record_layer.h"
#include "alts_like/plain_record_layer.h"
#include "alts_like/read_record_layer.h"
#include "alts_like/tls12_record_layer.h"
#include "pool/sanitizer.h"
#include "test/alts_like/handmade_records.h"
#include "test/alts_like/ssl_pair.h"
#include "test/alts_like/tls13_fixture.h"

namespace sluice {
namespace {

using Status = RecordLayer::Status;
using test::random_text;
using test::SslPair;
using test::Tls13Test;

/// Two ends of any protocol, by the interface alone.
struct Ends {
  std::unique_ptr<RecordLayer> client, server;
};
Ends plain_ends() { return {std::make_unique<PlainRecordLayer>(), std::make_unique<PlainRecordLayer>()}; }
Ends tls13_ends() {
  SslPair pair(Tls13Cipher::kAes256Gcm);
  Tls13State client = pair.client.state();
  client.read = pair.server.state().write;  // Its tickets are not in flight.
  return {std::make_unique<Tls13RecordLayer>(client), std::make_unique<Tls13RecordLayer>(pair.server.state())};
}
template <Tls12Cipher kCipher>
Ends tls12_ends() {
  Tls12State client;
  client.read.cipher = client.write.cipher = kCipher;
  client.read.key.fill(1);
  client.write.key.fill(2);
  client.read.iv.fill(3);
  client.write.iv.fill(4);
  Tls12State server = client;
  std::swap(server.read, server.write);
  return {std::make_unique<Tls12RecordLayer>(client), std::make_unique<Tls12RecordLayer>(server)};
}
Ends alts_ends() {
  const auto state = [](bool is_client) {
    constexpr std::array<uint8_t, 44> kSecret{7};
    AltsState made =
        AltsState::from(AltsProtocol::kAes128GcmRekey, kSecret, is_client, AltsState::kMaxFrameBytes).value();
    made.flags.authenticated_end = true;
    return made;
  };
  return {std::make_unique<AltsRecordLayer>(state(true)), std::make_unique<AltsRecordLayer>(state(false))};
}

class LayerTest : public Tls13Test, public ::testing::WithParamInterface<std::pair<const char*, Ends (*)()>> {
 protected:
  std::unique_ptr<RecordLayer> moved(std::unique_ptr<RecordLayer> layer) {
    SecretBytes bytes;
    EXPECT_TRUE(layer->write_state(bytes));
    layer.reset();
    std::unique_ptr<RecordLayer> read = read_record_layer(pool_, bytes);
    EXPECT_TRUE(read);
    return read;
  }
  Ends ends_ = GetParam().second();
};
INSTANTIATE_TEST_SUITE_P(Protocols, LayerTest,
                         ::testing::Values(std::pair{"Plain", &plain_ends}, std::pair{"Tls13", &tls13_ends},
                                           std::pair{"Tls12Gcm", &tls12_ends<Tls12Cipher::kAes256Gcm>},
                                           std::pair{"Tls12ChaCha", &tls12_ends<Tls12Cipher::kChaCha20Poly1305>},
                                           std::pair{"Alts", &alts_ends}),
                         [](const auto& protocol) { return protocol.param.first; });

TEST_P(LayerTest, CarriesBothDirections) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 20; ++i) {
    const std::string text = random_text(1 + random() % 50'000, i);
    opened_.clear();
    EXPECT_EQ(open(*ends_.server, sealed(*ends_.client, text, &random), &random), Status::kOpen);
    EXPECT_EQ(opened_, text);
    opened_.clear();
    EXPECT_EQ(open(*ends_.client, sealed(*ends_.server, text, &random), &random), Status::kOpen);
    EXPECT_EQ(opened_, text);
    ends_.server->park(pool_);
    EXPECT_FALSE(ends_.server->has_output());
    EXPECT_EQ(ends_.server->error(), "");
  }
  EXPECT_EQ(pool_.out_bytes() > 0, ends_.client->has_authenticated_end())
      << "Contexts of the client's that was not parked";
}

TEST_P(LayerTest, EndsLikeItsProtocol) {
  Buffer wire;
  ends_.client->seal_end(pool_, wire);
  EXPECT_EQ(!wire.empty(), ends_.client->has_authenticated_end());
  EXPECT_EQ(open(*ends_.server, wire.to_string()),
            ends_.server->has_authenticated_end() ? Status::kEnded : Status::kOpen);
}

// A partial record is pending, after many, at each position.
TEST_P(LayerTest, MovesInTheMiddleOfARecord) {
  for (uint32_t i = 0; i < 30; ++i) {
    const std::string text = random_text(3000, i);
    const std::string wire = sealed(*ends_.client, text);
    const size_t cut = i * 100;
    opened_.clear();
    ASSERT_EQ(open(*ends_.server, wire.substr(0, cut)), Status::kOpen);
    ends_.server = moved(std::move(ends_.server));
    ends_.client = moved(std::move(ends_.client));
    ASSERT_EQ(open(*ends_.server, wire.substr(cut)), Status::kOpen);
    ASSERT_EQ(opened_, text);
    opened_.clear();
    ASSERT_EQ(open(*ends_.client, sealed(*ends_.server, text)), Status::kOpen);
    ASSERT_EQ(opened_, text);
  }
}

// Defect: a TLS connection whose peer had sent its close_notify could not be moved.
TEST_P(LayerTest, MovesHalfClosed) {
  Buffer end;
  ends_.client->seal_end(pool_, end);
  open(*ends_.server, end.to_string());
  ends_.server = moved(std::move(ends_.server));
  if (ends_.server->has_authenticated_end()) {
    EXPECT_EQ(open(*ends_.server, "rubbish"), Status::kEnded);
    EXPECT_EQ(opened_, "");
  }
  opened_.clear();
  EXPECT_EQ(open(*ends_.client, sealed(*ends_.server, "we go on")), Status::kOpen);
  EXPECT_EQ(opened_, "we go on");
}

// Truncated, extended or modified bytes are refused, or restore a usable layer, which accepts bytes and seals some.
TEST_P(LayerTest, ModifiedBytesAreHarmless) {
  const std::string wire = sealed(*ends_.client, random_text(2000, 1));
  open(*ends_.server, wire.substr(0, 100));
  SecretBytes bytes;
  ASSERT_TRUE(ends_.server->write_state(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(read_record_layer(pool_, std::span(bytes).first(size))) << size;
  }
  SecretBytes longer = bytes;
  longer.push_back(0);
  EXPECT_FALSE(read_record_layer(pool_, longer));
  const auto use = [&](const SecretBytes& changed) {
    const std::unique_ptr<RecordLayer> layer = read_record_layer(pool_, changed);
    if (!layer) return;
    if (open(*layer, wire.substr(100)) != Status::kFailed) {
      sealed(*layer, "some");
      Buffer end;
      layer->seal_end(pool_, end);
    }
    flushed(*layer);
  };
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      SecretBytes changed = bytes;
      changed[at] ^= static_cast<uint8_t>(1 << bit);
      use(changed);
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    SecretBytes changed = bytes;
    for (size_t n = 1 + random() % 4; n > 0; --n) changed[random() % changed.size()] = random() % 3 ? 0xff : 0;
    use(changed);
  }
}

TEST_P(LayerTest, OtherVersionsAreRefused) {
  SecretBytes bytes;
  ASSERT_TRUE(ends_.server->write_state(bytes));
  ++bytes[0];
  EXPECT_FALSE(read_record_layer(pool_, bytes));
}

// ---- TLS 1.3 ----

class Tls13StateTest : public Tls13Test {
 protected:
  void move(std::unique_ptr<RecordLayer>& layer) {
    SecretBytes bytes;
    ASSERT_TRUE(layer->write_state(bytes));
    layer = read_record_layer(pool_, bytes);
    ASSERT_TRUE(layer);
  }
  SslPair pair_{Tls13Cipher::kAes128Gcm};
};

// The peer has requested new keys and has no response yet.
TEST_F(Tls13StateTest, MovesWithAPendingKeyUpdate) {
  pair_.client.give_input(pair_.for_client);
  std::unique_ptr<RecordLayer> layer = std::make_unique<Tls13RecordLayer>(pair_.server.state());
  for (int i = 0; i < 5; ++i) {
    SSL_key_update(pair_.client.ssl(), SSL_KEY_UPDATE_REQUESTED);
    pair_.client.write("x");
    EXPECT_EQ(open(*layer, pair_.client.take_output()), Status::kOpen);
    move(layer);
    EXPECT_TRUE(static_cast<Tls13RecordLayer&>(*layer).state().flags.update_pending);
    pair_.client.give_input(sealed(*layer, "answer"));
    EXPECT_EQ(pair_.client.read(), "answer");
  }
  EXPECT_EQ(opened_, "xxxxx");
}

// Part of a ticket, tickets that were not taken, and a large one that is being dropped.
TEST_F(Tls13StateTest, MovesWithinMessages) {
  std::unique_ptr<RecordLayer> layer = std::make_unique<Tls13RecordLayer>(pair_.client.state());
  test::HandmadeRecords server(pair_.client.state().read);
  const auto ticket = [](size_t size) {
    const size_t length = 8 + 1 + 2 + size + 2;
    std::string message{4, 0, static_cast<char>(length >> 8), static_cast<char>(length)};
    message += std::string(9, '\0') + static_cast<char>(size >> 8) + static_cast<char>(size);
    return message + std::string(size, 't') + std::string(2, '\0');
  };
  const std::string first = ticket(50), second = ticket(70), large = ticket(20'000), last = ticket(90);
  for (const std::string& part :
       {first + second.substr(0, 30), second.substr(30) + large.substr(0, 10'000), large.substr(10'000), last}) {
    EXPECT_EQ(open(*layer, server.record(22, part)), Status::kOpen) << layer->error();
    move(layer);
  }
  EXPECT_EQ(layer->take_tickets().to_string(), first + second + last);
}

// A server's own tickets, sealed with the handshake, are sent with the next data.
TEST_F(Tls13StateTest, MovesWithTicketsToSend) {
  Buffer first = buffer_of(pair_.for_client);
  std::unique_ptr<RecordLayer> layer =
      std::make_unique<Tls13RecordLayer>(pair_.server.state(), Buffer(), std::move(first));
  move(layer);
  pair_.client.give_input(sealed(*layer, "hello"));
  EXPECT_EQ(pair_.client.read(), "hello");
}

TEST_F(Tls13StateTest, FailedLayersAreNotWritten) {
  Tls13RecordLayer layer(pair_.server.state());
  open(layer, "rubbish that is no record");
  SecretBytes bytes{1, 2, 3};
  EXPECT_FALSE(layer.write_state(bytes));
  EXPECT_EQ(bytes.size(), 3u);
}

// ---- Leftover keys ----

bool holds(std::span<const uint8_t> memory, std::span<const uint8_t> key) {
  return std::search(memory.begin(), memory.end(), key.begin(), key.end()) != memory.end();
}

/// Memory for one object, which remains when the object is destroyed.
template <typename T>
struct LeftoverMemory {
  alignas(T) std::array<uint8_t, sizeof(T)> memory{};
  template <typename... Arguments>
  T* make(Arguments&&... arguments) {
    return new (memory.data()) T(std::forward<Arguments>(arguments)...);
  }
};

// Defect: copies of secrets were left in freed memory: those that the handshake makes, and states.
TEST_F(Tls13StateTest, SecretsAreWiped) {
  const Tls13State state = pair_.server.state();
  const auto key = std::span(state.read.bytes).first(state.read.size);
  LeftoverMemory<Tls13State> states;
  Tls13State* const copy = states.make(state);
  ASSERT_TRUE(holds(states.memory, key));
  copy->~Tls13State();
  EXPECT_FALSE(holds(states.memory, key));
  EXPECT_FALSE(holds(states.memory, std::span(state.write.bytes).first(state.write.size)));

  LeftoverMemory<Tls13RecordLayer> layers;
  Tls13RecordLayer* const layer = layers.make(state);
  sealed(*layer, "x");
  ASSERT_TRUE(holds(layers.memory, key));
  layer->~Tls13RecordLayer();
  EXPECT_FALSE(holds(layers.memory, key));
}

// A waiting connection has no cipher context: its chunk is free, and wiped.
TEST_F(Tls13StateTest, CipherContextIsWiped) {
  const std::array<uint8_t, 16> key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  AeadContext context;
  const std::array<uint8_t, 12> iv{21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
  context.make(EVP_aead_aes_128_gcm(), key, iv);
  // It is before the IV, in a chunk of the pool, which stays there.
  const uint8_t* const end = context.iv().data() + context.iv().size();
  const std::span memory(end - context.iv().size() - sizeof(bssl::ScopedEVP_AEAD_CTX),
                         context.iv().size() + sizeof(bssl::ScopedEVP_AEAD_CTX));
  ASSERT_TRUE(holds(memory, key));
  ASSERT_TRUE(holds(memory, iv));
  context.drop();
  unpoison(memory.data(), memory.size());
  EXPECT_FALSE(holds(memory, key));
  EXPECT_FALSE(holds(memory, iv));
}

}  // namespace
}  // namespace sluice
