#include "alts_like/alts_record_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sluice/copied.h"
#include "test/support/allocations.h"
#include "test/support/buffers.h"

namespace sluice {
namespace {

using Status = RecordLayer::Status;
using test::from_hex;

constexpr AltsProtocol kProtocols[] = {AltsProtocol::kAes128GcmRekey, AltsProtocol::kAes128Gcm};
constexpr size_t kMiB = size_t{1} << 20;
// The content of the longest frame that is accepted.
constexpr size_t kMostBytes = AltsRecordLayer::kMaxLength - AltsRecordLayer::kMinLength;

std::string random_text(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// The two ends of a connection.
AltsState state_of(std::string_view key, bool is_client, AltsProtocol protocol = AltsProtocol::kAes128GcmRekey,
                   size_t max_frame_bytes = kMiB) {
  return AltsState::from(protocol, bytes_of(key), is_client, max_frame_bytes).value();
}
const std::string kKey = random_text(44, 44);
AltsState client_state(AltsProtocol protocol = AltsProtocol::kAes128GcmRekey) { return state_of(kKey, true, protocol); }
AltsState server_state(AltsProtocol protocol = AltsProtocol::kAes128GcmRekey) {
  return state_of(kKey, false, protocol);
}
void set_frame(AltsCounter& counter, uint64_t number) {
  for (size_t i = 0; i < 8; ++i) counter.bytes[i] = static_cast<uint8_t>(number >> (8 * i));
}

std::string header_of(uint32_t length, uint32_t type) {
  std::string header;
  for (const uint32_t value : {length, type}) {
    for (int shift = 0; shift < 32; shift += 8) header.push_back(static_cast<char>(value >> shift));
  }
  return header;
}

/// An end that may seal anything, in one piece and independently.
class Peer {
 public:
  explicit Peer(const AltsState& state) : keys_(state.protocol, state.secret, state.read, state.write) {}
  std::string frame(std::string_view content, uint32_t type = 6) {
    std::string frame = header_of(static_cast<uint32_t>(content.size() + 20), type);
    frame += content;
    frame.append(16, '\0');
    uint8_t* const text = reinterpret_cast<uint8_t*>(frame.data()) + 8;
    const CRYPTO_IOVEC piece{text, text, content.size()};
    keys_.seal({&piece, 1}, text + content.size());
    return frame;
  }
  std::string frames(std::initializer_list<std::string_view> contents) {
    std::string all;
    for (const std::string_view content : contents) all += frame(content);
    return all;
  }

 private:
  AltsKeys keys_;
};

class AltsTest : public ::testing::Test {
 protected:
  ~AltsTest() override { EXPECT_EQ(pool_.leaked(), 0u); }

  // In chunks of their own, cut at random if a seed is given.
  Buffer buffer_of(std::string_view text, std::mt19937* random = nullptr) {
    Buffer buffer;
    while (!text.empty()) {
      const size_t most = std::min<size_t>(text.size(), 16384);
      const size_t piece = random ? 1 + (*random)() % most : most;
      buffer.append(test::buffer_of(pool_, text.substr(0, piece)));
      text.remove_prefix(piece);
    }
    return buffer;
  }
  std::string sealed(AltsRecordLayer& layer, std::string_view text, std::mt19937* random = nullptr) {
    Buffer wire;
    layer.seal(pool_, buffer_of(text, random), wire);
    return wire.to_string();
  }
  std::string sealed_end(AltsRecordLayer& layer) {
    Buffer wire;
    layer.seal_end(pool_, wire);
    return wire.to_string();
  }
  // Opens all bytes at once; their content is appended to `opened_`.
  Status open(AltsRecordLayer& layer, std::string_view wire, std::mt19937* random = nullptr) {
    Buffer plain;
    const Status status = layer.open(pool_, buffer_of(wire, random), plain);
    opened_ += plain.to_string();
    return status;
  }
  void expect_failure(AltsRecordLayer& layer, std::string_view wire, std::string_view error) {
    EXPECT_EQ(open(layer, wire), Status::kFailed);
    EXPECT_EQ(layer.error(), error);
    EXPECT_FALSE(layer.has_output());
    // Nothing more is opened or sealed.
    const std::string opened = opened_;
    EXPECT_EQ(open(layer, "whatever"), Status::kFailed);
    EXPECT_EQ(opened_, opened);
    EXPECT_EQ(sealed(layer, "more"), "");
    EXPECT_EQ(sealed_end(layer), "");
  }

  ChunkPool pool_{{.budget_bytes = size_t{64} << 20}};
  ChunkPool::Use use_{&pool_};
  std::string opened_;
};

class AltsProtocolTest : public AltsTest, public ::testing::WithParamInterface<AltsProtocol> {};
INSTANTIATE_TEST_SUITE_P(All, AltsProtocolTest, ::testing::ValuesIn(kProtocols), [](const auto& protocol) {
  return protocol.param == AltsProtocol::kAes128Gcm ? "Aes128Gcm" : "Aes128GcmRekey";
});

// ---- Vectors ----

// "hello", by an implementation of the protocol in another language that was checked against the published vectors.
TEST_F(AltsTest, WholeFrames) {
  struct Frame {
    std::string_view key;
    bool from_server;
    uint64_t number;
    std::string_view wire;
  };
  std::string counting;
  for (char c = 0; c < 44; ++c) counting.push_back(c);
  // The key data of two implementations' fake handshakers; longer than what is used.
  const std::string_view fake = "negotiated-key-data-for-altsrp-gcm-aes128-rekey";
  const Frame frames[] = {
      {counting, false, 0, "190000000600000037f9b12df8b25c013d0126f5db8f2b2d727f234851"},
      {counting, false, 1, "190000000600000059cb68307f08373a2319b6ee3e3273d96b3e785b2c"},
      {counting, false, 65535, "19000000060000008ad4785b00bf7534a50a2d7c4124634a6b0cdbce74"},
      {counting, false, 65536, "1900000006000000d58b83ea623c730801db6068aa34465e50968b66b7"},
      {counting, true, 0, "1900000006000000dea178bcd26c8978ea9653e84ea1193ecddf22a98b"},
      {counting, true, 65536, "19000000060000000735834b3290a1896e1e5a943dc5371c8d48329a02"},
      {fake, false, 0, "1900000006000000d8b35d6f246088e243307e88a8be9979ca104c0724"},
      {fake, true, 0, "1900000006000000a367533793a327d77ffd94697c311516db6e73b629"},
      {fake, false, 65536, "19000000060000005017772a50a8d6ce9865aa01ca93700d14c7cea8a2"},
  };
  for (const Frame& frame : frames) {
    SCOPED_TRACE(frame.wire);
    AltsState sender = state_of(frame.key, !frame.from_server), receiver = state_of(frame.key, frame.from_server);
    set_frame(sender.write, frame.number);
    set_frame(receiver.read, frame.number);
    AltsRecordLayer from(sender), to(receiver);
    EXPECT_EQ(sealed(from, "hello"), from_hex(frame.wire));
    opened_.clear();
    EXPECT_EQ(open(to, from_hex(frame.wire)), Status::kOpen) << to.error();
    EXPECT_EQ(opened_, "hello");
  }
}

// The same frames in a row: keys change between them.
TEST_F(AltsTest, KeysAreDerivedAgainBetweenFrames) {
  AltsRecordLayer client(client_state()), server(server_state());
  for (uint64_t number = 0; number < 65'538; ++number) {
    AltsState at = client_state();
    set_frame(at.write, number);
    if (number % 10'000 != 0 && number < 65'530) {
      sealed(client, "x");
      continue;
    }
    AltsRecordLayer same(at);
    ASSERT_EQ(sealed(client, "x"), sealed(same, "x")) << number;
  }
  AltsState at = server_state();
  set_frame(at.read, 65'530);
  AltsRecordLayer late(at), peer(client_state());
  AltsState from = client_state();
  set_frame(from.write, 65'530);
  AltsRecordLayer sender(from);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(open(late, sealed(sender, "x")), Status::kOpen) << i << late.error();
}

TEST_F(AltsTest, KeyDataMayBeLongerThanNecessary) {
  for (const AltsProtocol protocol : kProtocols) {
    const size_t used = AltsKeys::secret_bytes(protocol);
    const std::string data = random_text(128, 1);
    EXPECT_FALSE(AltsState::from(protocol, bytes_of(data).first(used - 1), true, 4096));
    EXPECT_FALSE(AltsState::from(protocol, {}, true, 4096));
    AltsRecordLayer whole(*AltsState::from(protocol, bytes_of(data), true, 4096));
    AltsRecordLayer cut(*AltsState::from(protocol, bytes_of(data).first(used), true, 4096));
    EXPECT_EQ(sealed(whole, "x"), sealed(cut, "x"));
  }
}

// ---- Both directions ----

TEST_P(AltsProtocolTest, BothDirections) {
  AltsRecordLayer client(client_state(GetParam())), server(server_state(GetParam()));
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const std::string text = random_text(random() % 300'000, seed);
    for (auto [from, to] : {std::pair{&client, &server}, {&server, &client}}) {
      opened_.clear();
      ASSERT_EQ(open(*to, sealed(*from, text, &random), &random), Status::kOpen) << to->error();
      ASSERT_EQ(opened_, text);
    }
    if (seed % 5 == 0) client.park(pool_);
  }
}

// Byte by byte, parked between any two of them, and moved to another layer.
TEST_P(AltsProtocolTest, ByteByByte) {
  Peer peer(client_state(GetParam()));
  const std::string wire = peer.frames({"hello", random_text(100, 1), "world"});
  const std::string text = "hello" + random_text(100, 1) + "world";
  AltsRecordLayer plainly(server_state(GetParam())), parked(server_state(GetParam()));
  auto moved = std::make_unique<AltsRecordLayer>(server_state(GetParam()));
  for (const char c : wire) ASSERT_EQ(open(plainly, {&c, 1}), Status::kOpen);
  EXPECT_EQ(std::exchange(opened_, ""), text);
  for (const char c : wire) {
    ASSERT_EQ(open(parked, {&c, 1}), Status::kOpen);
    parked.park(pool_);
  }
  EXPECT_EQ(std::exchange(opened_, ""), text);
  for (const char c : wire) {
    ASSERT_EQ(open(*moved, {&c, 1}), Status::kOpen);
    const AltsState state = moved->state();
    moved = std::make_unique<AltsRecordLayer>(state, moved->take_partial());
  }
  EXPECT_EQ(opened_, text);
}

// Data after the handshake is opened with the first call, even if that has no bytes.
TEST_F(AltsTest, EarlyFrames) {
  const std::string wire = Peer(client_state()).frames({"early", "bird"});
  AltsRecordLayer layer(server_state(), buffer_of(wire.substr(0, wire.size() - 1)));
  EXPECT_EQ(open(layer, ""), Status::kOpen);
  EXPECT_EQ(opened_, "early");
}

TEST_P(AltsProtocolTest, FramesCutAnywhere) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()) + 9);
  Peer peer(client_state(GetParam()));
  AltsRecordLayer layer(server_state(GetParam()));
  const std::string text = random_text(40'000, 3);
  for (int frames = 0; frames < 3000; ++frames) {
    // Mostly small ones: errors are likely at the boundaries.
    const size_t size = 1 + random() % (random() % 16 == 0 ? 40'000 : 300);
    std::string wire = peer.frame(std::string_view(text).substr(0, size));
    opened_.clear();
    while (!wire.empty()) {
      const size_t piece = 1 + random() % wire.size();
      ASSERT_EQ(open(layer, std::string_view(wire).substr(0, piece), &random), Status::kOpen) << layer.error();
      wire.erase(0, piece);
      if (random() % 16 == 0) layer.park(pool_);
    }
    ASSERT_EQ(opened_, std::string_view(text).substr(0, size));
  }
}

// ---- Location of the bytes ----

TEST_F(AltsTest, NothingIsCopiedInPlace) {
  AltsRecordLayer client(client_state()), server(server_state());
  std::mt19937 random(1);
  Buffer plain = buffer_of(random_text(1'000'000, 1), &random);
  const uint64_t before = copied_bytes;
  Buffer wire, opened;
  server.seal(pool_, std::move(plain), wire);
  client.open(pool_, std::move(wire), opened);
  EXPECT_EQ(copied_bytes, before);
  EXPECT_EQ(opened.to_string(), random_text(1'000'000, 1));
}

TEST_F(AltsTest, SharedBytesAreNotWrittenTo) {
  AltsRecordLayer client(client_state()), server(server_state());
  const std::string text = random_text(400'000, 1);
  std::mt19937 random(2);
  for (std::mt19937* cuts : {static_cast<std::mt19937*>(nullptr), &random}) {
    Buffer plain = buffer_of(text, cuts);
    const Buffer other = plain.clone();
    Buffer wire, opened;
    uint64_t before = copied_bytes;
    client.seal(pool_, std::move(plain), wire);
    EXPECT_EQ(copied_bytes, before) << "It is sealed into other chunks, not copied there first";
    EXPECT_EQ(other.to_string(), text);
    const Buffer kept = wire.clone();
    const std::string sent = kept.to_string();
    before = copied_bytes;
    EXPECT_EQ(server.open(pool_, std::move(wire), opened), Status::kOpen);
    EXPECT_EQ(copied_bytes - before, text.size() + 0u);
    EXPECT_EQ(opened.to_string(), text);
    EXPECT_EQ(kept.to_string(), sent);
  }
}

/// In windows of `piece` bytes, each in a chunk of its own; the first is cut at `first`.
Buffer windows_of(ChunkPool& pool, std::string_view text, size_t first, size_t piece) {
  std::vector<size_t> splits;
  for (size_t at = first; at < text.size(); at += piece) splits.push_back(at);
  return test::buffer_of(pool, text, splits);
}

TEST_F(AltsTest, FramesOfAMebibyte) {
  Peer peer(client_state());
  AltsRecordLayer layer(server_state());
  const std::string most = random_text(kMostBytes, 5), mebibyte = random_text(kMiB - 24, 6);
  EXPECT_EQ(AltsRecordLayer::kOverheadBytes + most.size(), kMiB + 4);
  struct Case {
    const std::string& text;
    size_t first, piece;
    bool in_place;
  };
  const Case cases[] = {
      {mebibyte, 65536, 65536, true},  // 16 windows.
      {most, 65536, 65536, true},      // 17, but the last one has only bytes of the tag.
      {mebibyte, 100, 65536, false},  {most, 1000, 32768, false}, {most, 4000, 4096, false},
      {most, 1, 777, false},          {most, 8, 65536, true},  // The first is the header.
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.first + c.piece);
    Buffer wire = windows_of(pool_, peer.frame(c.text), c.first, c.piece), opened;
    const uint64_t before = copied_bytes;
    ASSERT_EQ(layer.open(pool_, std::move(wire), opened), Status::kOpen) << layer.error();
    EXPECT_EQ(copied_bytes - before, c.in_place ? 0 : c.text.size());
    ASSERT_TRUE(opened == c.text);
  }
}

// A frame that arrives slowly takes about as much as its bytes, however small the pieces and however large their
// chunks.
TEST_F(AltsTest, SlowFrameKeepsFewChunks) {
  Peer peer(client_state());
  AltsRecordLayer layer(server_state());
  const std::string text = random_text(300'000, 5), wire = peer.frame(text);
  const uint64_t copied_before = copied_bytes;
  size_t most = 0, step = 1;
  Buffer plain;
  for (size_t at = 0; at < wire.size(); at += step) {
    step = at < 20'000 ? 10 : 100;
    Lease lease = Lease::allocate(pool_, 32768);
    Buffer arrived;
    arrived.append(test::filled(std::move(lease), std::string_view(wire).substr(at, step)));
    ASSERT_EQ(layer.open(pool_, std::move(arrived), plain), Status::kOpen);
    if (plain.empty()) most = std::max(most, pool_.out_bytes());
  }
  EXPECT_TRUE(plain == text);
  // 300,000 bytes are 73 windows of 4 KiB, of 32 KiB each.
  EXPECT_LT(most, (73 + 17 + 12) * size_t{32768});
  EXPECT_LT(copied_bytes - copied_before, 200 * text.size());
}

// ---- Output ----

std::vector<size_t> lengths_of(std::string_view wire) {
  std::vector<size_t> lengths;
  for (size_t at = 0; at < wire.size(); at += 4 + lengths.back()) {
    lengths.push_back(static_cast<uint8_t>(wire[at]) | static_cast<size_t>(static_cast<uint8_t>(wire[at + 1])) << 8 |
                      static_cast<size_t>(static_cast<uint8_t>(wire[at + 2])) << 16);
    EXPECT_EQ(wire.substr(at + 3, 5), std::string_view("\0\6\0\0\0", 5));
  }
  return lengths;
}

TEST_F(AltsTest, FramesAreSmallAtFirstAndAfterAPause) {
  AltsRecordLayer layer(client_state());
  const std::vector<size_t> first = lengths_of(sealed(layer, std::string(1'000'000, 'x')));
  EXPECT_EQ(first.front(), 1350u + 20);
  EXPECT_EQ(*std::max_element(first.begin(), first.end()), AltsRecordLayer::kBestFrameBytes - 4);
  layer.park(pool_);
  EXPECT_EQ(lengths_of(sealed(layer, std::string(16384, 'x'))).front(), 1350u + 20);
}

TEST_F(AltsTest, FramesHaveTheNegotiatedSize) {
  for (const auto& [agreed, longest] : {std::pair<size_t, size_t>{0, 1024},
                                        {1024, 1024},
                                        {4096, 4096},
                                        {size_t{1} << 30, AltsRecordLayer::kBestFrameBytes}}) {
    AltsRecordLayer layer(state_of(kKey, true, AltsProtocol::kAes128GcmRekey, agreed));
    const std::vector<size_t> lengths = lengths_of(sealed(layer, std::string(1'000'000, 'x')));
    EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), longest - 4);
  }
}

TEST_F(AltsTest, EmptyPlaintextSealsNothing) {
  AltsRecordLayer layer(client_state());
  EXPECT_EQ(sealed(layer, ""), "");
  EXPECT_EQ(layer.state().write, client_state().write);
}

// ---- Hostile and broken peers ----

constexpr std::string_view kNotAuthentic = "a frame that is not authentic";

TEST_P(AltsProtocolTest, SecondBeforeFirst) {
  Peer peer(client_state(GetParam()));
  peer.frame("first");
  AltsRecordLayer layer(server_state(GetParam()));
  expect_failure(layer, peer.frame("second"), kNotAuthentic);
}
TEST_P(AltsProtocolTest, Replay) {
  Peer peer(client_state(GetParam()));
  const std::string frame = peer.frame("once");
  AltsRecordLayer layer(server_state(GetParam()));
  EXPECT_EQ(open(layer, frame), Status::kOpen);
  EXPECT_EQ(opened_, "once");
  expect_failure(layer, frame, kNotAuthentic);
}
TEST_P(AltsProtocolTest, OwnFrame) {
  AltsRecordLayer layer(client_state(GetParam()));
  const std::string own = sealed(layer, "mirror");
  expect_failure(layer, own, kNotAuthentic);
}
TEST_P(AltsProtocolTest, FrameOfAnotherConnection) {
  Peer peer(state_of(random_text(44, 45), true, GetParam()));
  AltsRecordLayer layer(server_state(GetParam()));
  expect_failure(layer, peer.frame("misled"), kNotAuthentic);
}
TEST_P(AltsProtocolTest, EachBitIsAuthenticated) {
  const std::string frame = Peer(client_state(GetParam())).frame("first");
  for (size_t bit = 8 * AltsRecordLayer::kHeaderBytes; bit < 8 * frame.size(); ++bit) {
    std::string wrong = frame;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ 1 << bit % 8);
    AltsRecordLayer layer(server_state(GetParam()));
    ASSERT_EQ(open(layer, wrong), Status::kFailed) << bit;
  }
  EXPECT_EQ(opened_, "");
}
TEST_F(AltsTest, NothingIsOpenedAfterAFailure) {
  std::string wire = Peer(client_state()).frames({"first", "second", "third"});
  wire[wire.size() - 24 - 5 - 1] ^= 1;
  AltsRecordLayer layer(server_state());
  expect_failure(layer, wire, kNotAuthentic);
  EXPECT_EQ(opened_, "first");
}
TEST_F(AltsTest, OtherTypes) {
  for (const uint32_t type : {0x22u, 0u, 0x106u, 0x06000000u, 0x06000006u}) {
    AltsRecordLayer layer(server_state());
    expect_failure(layer, Peer(client_state()).frame("x", type), "a frame of an unknown type");
  }
}
// A frame with an invalid length is refused at once. Defect: lengths of up to 4 bytes more than 1 MiB were accepted,
// which is the limit of a whole frame.
TEST_F(AltsTest, OtherLengths) {
  for (const uint32_t length : {0u, 3u, 4u, 19u}) {
    AltsRecordLayer layer(server_state());
    expect_failure(layer, header_of(length, 6), "a frame that is shorter than its tag");
  }
  for (const uint32_t length : {(1u << 20) + 1, (1u << 20) + 4, 1u << 24, 0xffffffffu}) {
    AltsRecordLayer layer(server_state());
    expect_failure(layer, header_of(length, 6), "a frame of more than 1 MiB");
  }
  AltsRecordLayer layer(server_state());
  EXPECT_EQ(open(layer, header_of(1u << 20, 6)), Status::kOpen);
}
TEST_F(AltsTest, TooManyEmptyFrames) {
  Peer peer(client_state());
  AltsRecordLayer layer(server_state());
  for (int i = 0; i < 32; ++i) ASSERT_EQ(open(layer, peer.frame("")), Status::kOpen);
  ASSERT_EQ(open(layer, peer.frame("x")), Status::kOpen);
  for (int i = 0; i < 32; ++i) ASSERT_EQ(open(layer, peer.frame("")), Status::kOpen);
  // Another process continues to count.
  AltsRecordLayer other(layer.state());
  expect_failure(other, peer.frame(""), "too many empty frames");
}

// ---- The end of the counters ----

constexpr uint64_t kLastButOne[] = {0xffff'ffff'ffff'fffe, 0xff'ffff'fffe};  // In the order of kProtocols.

TEST_P(AltsProtocolTest, LastTwoFramesAreSealed) {
  for (const bool is_client : {true, false}) {
    AltsState state = state_of(kKey, is_client, GetParam()), peer = state_of(kKey, !is_client, GetParam());
    set_frame(state.write, kLastButOne[static_cast<size_t>(GetParam())]);
    set_frame(peer.read, kLastButOne[static_cast<size_t>(GetParam())]);
    AltsRecordLayer layer(state), other(peer);
    opened_.clear();
    EXPECT_EQ(open(other, sealed(layer, "last but one,")), Status::kOpen);
    EXPECT_EQ(open(other, sealed(layer, "last")), Status::kOpen);
    EXPECT_EQ(opened_, "last but one,last");
    EXPECT_EQ(open(layer, ""), Status::kOpen);
    // The exhaustion is part of the state.
    for (AltsRecordLayer* spent : {new AltsRecordLayer(layer.state()), &layer}) {
      EXPECT_EQ(sealed(*spent, "lost"), "");
      EXPECT_EQ(spent->error(), "no frame counters are left");
      EXPECT_EQ(open(*spent, ""), Status::kFailed);
      EXPECT_EQ(sealed(*spent, "lost"), "");
      if (spent != &layer) delete spent;
    }
    // And nothing that arrives later is opened.
    expect_failure(other, header_of(21, 6) + std::string(17, 'x'), "no frame counters are left to the peer");
  }
}
// In the middle of the data of one call.
TEST_P(AltsProtocolTest, SealingStopsWithTheCounters) {
  AltsState state = client_state(GetParam()), peer = server_state(GetParam());
  set_frame(state.write, kLastButOne[static_cast<size_t>(GetParam())]);
  set_frame(peer.read, kLastButOne[static_cast<size_t>(GetParam())]);
  AltsRecordLayer layer(state), other(peer);
  EXPECT_EQ(open(other, sealed(layer, std::string(10'000, 'x'))), Status::kOpen);
  EXPECT_EQ(opened_, std::string(2700, 'x'));
  Peer back(peer);
  expect_failure(layer, back.frame("answer"), "no frame counters are left");
}
TEST_P(AltsProtocolTest, NoCounterLeftForTheEnd) {
  AltsState state = client_state(GetParam());
  state.flags.authenticated_end = true;
  set_frame(state.write, kLastButOne[static_cast<size_t>(GetParam())] + 1);
  AltsRecordLayer layer(state);
  EXPECT_NE(sealed(layer, "x"), "");
  EXPECT_EQ(sealed_end(layer), "");
  EXPECT_EQ(open(layer, ""), Status::kFailed);
}

// ---- The end of the connection ----

TEST_F(AltsTest, WithoutAnEnd) {
  AltsRecordLayer layer(client_state());
  EXPECT_FALSE(layer.has_authenticated_end());
  EXPECT_EQ(sealed_end(layer), "");
  EXPECT_EQ(layer.state().write, client_state().write);
}

TEST_P(AltsProtocolTest, WithAnEnd) {
  AltsState of_client = client_state(GetParam()), of_server = server_state(GetParam());
  of_client.flags.authenticated_end = of_server.flags.authenticated_end = true;
  AltsRecordLayer client(of_client), server(of_server);
  EXPECT_TRUE(client.has_authenticated_end());
  const std::string last = sealed(client, "last");
  const std::string end = sealed_end(client);
  EXPECT_EQ(end.size(), 24u);
  EXPECT_EQ(end.substr(0, 8), header_of(20, 6));
  EXPECT_EQ(open(server, last + end + "rubbish"), Status::kEnded);
  EXPECT_EQ(opened_, "last");
  EXPECT_EQ(open(server, "more"), Status::kEnded);
  EXPECT_EQ(opened_, "last");
  // One direction only, and known to the layer that continues elsewhere.
  AltsRecordLayer moved(server.state());
  EXPECT_EQ(open(moved, "more"), Status::kEnded);
  EXPECT_EQ(open(client, sealed(moved, "we go on")), Status::kOpen);
  EXPECT_EQ(opened_, "lastwe go on");
  EXPECT_EQ(open(client, sealed_end(moved)), Status::kEnded);
}

TEST_F(AltsTest, EndCannotBeForged) {
  AltsState state = server_state();
  state.flags.authenticated_end = true;
  AltsRecordLayer layer(state);
  expect_failure(layer, header_of(20, 6) + std::string(16, '\0'), kNotAuthentic);
}

// ---- Random programs ----

// One end, the data it was given to seal, and what of it is in flight.
struct End {
  std::unique_ptr<AltsRecordLayer> layer;
  std::string sent, on_its_way, received;
};

TEST_F(AltsTest, RandomPrograms) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t bound) { return random() % bound; };
    const AltsProtocol protocol = kProtocols[below(2)];
    AltsState states[2] = {state_of(kKey, true, protocol, size_t{1024} << below(11)), server_state(protocol)};
    set_frame(states[0].write, 65'536 - below(50));
    states[1].read = states[0].write;
    End ends[2];
    for (size_t i = 0; i < 2; ++i) ends[i].layer = std::make_unique<AltsRecordLayer>(states[i]);
    for (int step = 0; step < 60; ++step) {
      End &from = ends[below(2)], &to = &from == ends ? ends[1] : ends[0];
      switch (below(8)) {
        case 0:
        case 1: {
          const std::string text = random_text(below(below(8) == 0 ? 100'000 : 3000), static_cast<uint32_t>(random()));
          Buffer plain = buffer_of(text, &random), wire;
          const Buffer shared = below(3) == 0 ? plain.clone(0, below(plain.size() + 1)) : Buffer();
          const std::string before = shared.to_string();
          from.layer->seal(pool_, std::move(plain), wire);
          ASSERT_EQ(shared.to_string(), before);
          from.sent += text;
          from.on_its_way += wire.to_string();
          break;
        }
        case 2:
          from.layer->park(pool_);
          break;
        case 3: {
          const AltsState state = from.layer->state();
          from.layer = std::make_unique<AltsRecordLayer>(state, from.layer->take_partial());
          break;
        }
        default: {
          const std::string part = from.on_its_way.substr(0, below(from.on_its_way.size() + 1));
          from.on_its_way.erase(0, part.size());
          Buffer wire = buffer_of(part, &random), plain;
          const Buffer shared = below(3) == 0 ? wire.clone(0, below(wire.size() + 1)) : Buffer();
          const std::string before = shared.to_string();
          ASSERT_EQ(to.layer->open(pool_, std::move(wire), plain), Status::kOpen) << to.layer->error();
          ASSERT_EQ(shared.to_string(), before);
          to.received += plain.to_string();
          ASSERT_TRUE(from.sent.starts_with(to.received));
        }
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      opened_.clear();
      ASSERT_EQ(open(*ends[1 - i].layer, ends[i].on_its_way), Status::kOpen);
      ASSERT_EQ(ends[1 - i].received + opened_, ends[i].sent);
    }
  }
}

// ---- Costs ----

TEST_P(AltsProtocolTest, NothingIsAllocatedPerFrame) {
  if (!test::kAllocationsCounted) GTEST_SKIP() << "a sanitizer's malloc";
  AltsRecordLayer client(client_state(GetParam())), server(server_state(GetParam()));
  Buffer text;
  ASSERT_TRUE(text.grow(pool_, 4096, std::byte{'x'}));
  const auto pass = [&](size_t bytes) {
    Buffer plain = text.clone(0, bytes), wire, opened;
    client.seal(pool_, std::move(plain), wire);
    Buffer kept = wire.clone();
    server.open(pool_, std::move(wire), opened);
    return opened.size();
  };
  for (int i = 0; i < 100; ++i) pass(4096), pass(16);
  const uint64_t before = test::allocations.load();
  size_t bytes = 0;
  for (int i = 0; i < 70'000; ++i) bytes += pass(i % 64 == 0 ? 4096 : 16);  // Keys change meanwhile.
  for (int i = 0; i < 100; ++i) {
    client.park(pool_);
    server.park(pool_);
    bytes += pass(1);
  }
  EXPECT_EQ(test::allocations.load() - before, 0u);
  EXPECT_EQ(bytes, 1094 * 4096 + (70'000 - 1094) * 16 + 100);
}

TEST_F(AltsTest, ParkedConnectionsPinLittle) {
  const std::string wire = Peer(client_state()).frames({"whole", "half"});
  AltsRecordLayer layer(server_state());
  open(layer, wire.substr(0, wire.size() - 5));
  layer.park(pool_);
  EXPECT_EQ(pool_.out_bytes(), 64u);
  EXPECT_EQ(open(layer, wire.substr(wire.size() - 5)), Status::kOpen);
  EXPECT_EQ(opened_, "wholehalf");
  sealed(layer, "answer");
  layer.park(pool_);
  EXPECT_EQ(pool_.out_bytes(), 0u);
  EXPECT_LE(sizeof layer, 240u);
}

TEST_F(AltsTest, ManyHalfFramesPinLittle) {
  // Halves of frames of 1,000 bytes, and of the sizes that grpc-go and gRPC core write: the received bytes are kept,
  // and little more.
  for (const auto& [frame_bytes, most] :
       {std::pair<size_t, size_t>{1000, 512}, {4096, 2048 + 256}, {16384, 8192 + 1024}}) {
    const std::string half = Peer(client_state()).frame(std::string(frame_bytes - 24, 'x')).substr(0, frame_bytes / 2);
    std::vector<std::unique_ptr<AltsRecordLayer>> layers;
    for (int i = 0; i < 1000; ++i) {
      auto& layer = layers.emplace_back(std::make_unique<AltsRecordLayer>(server_state()));
      Buffer arrived, plain;
      arrived.append(test::filled(Lease::allocate(pool_, 32768), half));
      ASSERT_EQ(layer->open(pool_, std::move(arrived), plain), Status::kOpen);
      layer->park(pool_);
    }
    EXPECT_LE(pool_.out_bytes(), 1000 * most);
    EXPECT_GE(pool_.out_bytes(), 1000 * half.size());
  }
}

// Also of a frame that is larger than any chunk.
TEST_F(AltsTest, HalfAMebibyteIsCompacted) {
  const std::string half = Peer(client_state()).frame(random_text(kMiB, 1).substr(0, kMostBytes)).substr(0, kMiB / 2);
  AltsRecordLayer layer(server_state());
  for (size_t at = 0; at < half.size(); at += 8192) {
    Buffer arrived, plain;
    arrived.append(test::filled(Lease::allocate(pool_, 65536), std::string_view(half).substr(at, 8192)));
    ASSERT_EQ(layer.open(pool_, std::move(arrived), plain), Status::kOpen);
  }
  EXPECT_EQ(pool_.out_bytes() / 65536, half.size() / 8192);
  layer.park(pool_);
  EXPECT_LT(pool_.out_bytes(), half.size() + 8192);
}

}  // namespace
}  // namespace sluice
