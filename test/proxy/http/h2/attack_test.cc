// Each known attack that makes an HTTP/2 server do work or hold memory for nothing: it ends with the right error,
// before much of either was used.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "test/proxy/http/h2/rig.h"

namespace sluice::test::http2 {
namespace {

using Type = Http2FrameType;

class Http2Attack : public PoolTest {
 protected:
  Http2Attack() : PoolTest(size_t{64} << 20) {}

  // Sends what `next` returns until the connection fails, at most `most` times. After each one the output is taken, or
  // stays if the attacker does not read. The memory of chunks is bounded throughout.
  void flood(ScriptedPeer& peer, size_t most, const std::function<std::string(size_t)>& next, bool reads = true,
             size_t bound_bytes = 2 << 20) {
    const size_t before = pool_.out_bytes();
    rounds_ = 0;
    output_.clear();
    while (rounds_ < most) {
      const std::string bytes = next(rounds_);
      const auto status = peer.give(bytes);
      ++rounds_;
      ASSERT_LE(pool_.out_bytes(), before + bound_bytes) << "after " << rounds_;
      if (reads) output_ = peer.output();
      if (status == HttpCodec::Status::kFailed) break;
    }
    if (!reads) output_ = peer.output();
  }
  void expect_calm(const ScriptedPeer& peer, const char* limit, uint64_t counter) {
    EXPECT_NE(output_.find("ENHANCE_YOUR_CALM"), std::string::npos) << output_;
    EXPECT_NE(peer.connection->error().find(limit), std::string::npos) << peer.connection->error();
    EXPECT_EQ(counter, 1u);
  }

  size_t rounds_ = 0;
  std::string output_;
};

TEST_F(Http2Attack, RapidReset) {  // CVE-2023-44487
  ScriptedPeer peer(pool_, true);
  peer.greet();
  flood(peer, 1000, [](size_t i) {
    const auto id = static_cast<uint32_t>(2 * i + 1);
    return get(id) + rst(id);
  });
  expect_calm(peer, "streams were reset", peer.counters.over_resets);
  EXPECT_EQ(rounds_, 101u);
}

TEST_F(Http2Attack, RapidResetWithoutRelease) {  // The slot is not free before the work has ended.
  Http2Limits limits;
  limits.resets = 100000;
  limits.streams = 10;
  ScriptedPeer peer(pool_, true, limits);
  peer.greet();
  flood(peer, 100, [](size_t i) {
    const auto id = static_cast<uint32_t>(2 * i + 1);
    return get(id) + rst(id);
  });
  EXPECT_EQ(peer.requests.size(), 20u);
  EXPECT_EQ(peer.counters.refused_streams, 80u);
}

TEST_F(Http2Attack, CompletedRequestsEarnResets) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  uint32_t id = 1;
  for (int i = 0; i < 2000; ++i, id += 4) {
    ASSERT_EQ(peer.give(get(id) + get(id + 2) + rst(id + 2)), HttpCodec::Status::kOpen) << i;
    Exchange& exchange = *peer.requests.exchanges[0];
    exchange.stream->send_head(response(pool_, 204), true);
    peer.take();
    peer.requests.exchanges.clear();
  }
}

TEST_F(Http2Attack, MadeYouReset) {  // CVE-2025-8671: all six ways.
  const std::function<std::string(uint32_t)> ways[] = {
      [](uint32_t id) { return get(id) + window_update(id, 0); },
      [](uint32_t id) { return get(id) + window_update(id, 0x7fffffff) + window_update(id, 0x7fffffff); },
      [](uint32_t id) { return get(id) + data(id, "x"); },
      [](uint32_t id) { return get(id) + get(id); },
      [](uint32_t id) { return get(id) + frame(Type::kPriority, 0, id, "abcd"); },
      [](uint32_t id) { return post(id, {{"content-length", "1"}}) + data(id, "xx"); },
      [](uint32_t id) { return headers(id, kEnd, {{":method", "GET"}}); },
  };
  for (const auto& way : ways) {
    ScriptedPeer peer(pool_, true);
    peer.greet();
    flood(peer, 1000, [&](size_t i) {
      peer.requests.exchanges.clear();
      return way(static_cast<uint32_t>(2 * i + 1));
    });
    expect_calm(peer, "streams were reset", peer.counters.over_resets);
    EXPECT_EQ(rounds_, 101u);
  }
}

TEST_F(Http2Attack, DependencyOnItself) {  // The sixth way: not even a reset.
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.give(frame(Type::kHeaders, 0x25, 1, u32(1) + "\x10" + block(get_fields())));
  EXPECT_EQ(peer.output(), "");
}

TEST_F(Http2Attack, ContinuationFlood) {  // VU#421644
  ScriptedPeer peer(pool_, true);
  peer.greet();
  const std::string field = block({{"x", std::string(10, 'a')}});
  flood(peer, 1000, [&](size_t i) {
    return i == 0 ? frame(Type::kHeaders, kEnd, 1, block(get_fields())) : frame(Type::kContinuation, 0, 1, field);
  });
  expect_calm(peer, "CONTINUATION", peer.counters.over_continuations);
  EXPECT_EQ(rounds_, 10u);
}

TEST_F(Http2Attack, EmptyContinuation) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.give(frame(Type::kHeaders, kEnd, 1, block(get_fields())) + frame(Type::kContinuation, 0, 1));
  output_ = peer.output();
  expect_calm(peer, "CONTINUATION", peer.counters.over_continuations);
}

TEST_F(Http2Attack, HpackBomb) {  // CVE-2016-6581: one large entry, referenced again and again by one byte.
  ScriptedPeer peer(pool_, true);
  peer.greet();
  const std::string entry = "\x40" + hpack_text("x") + hpack_text(std::string(4000, 'a'));
  peer.give(frame(Type::kHeaders, kEnd | kEndHeaders, 1, block(get_fields()) + entry + std::string(10000, '\xbe')));
  output_ = peer.output();
  expect_calm(peer, "header block", peer.counters.over_header_block);
  EXPECT_LT(pool_.stats().out_bytes_peak, 256u * 1024);
}

// Defect: a field of more than 64 KiB was reported as a COMPRESSION_ERROR, as if the peer's encoder were broken.
TEST_F(Http2Attack, FieldFarTooLarge) {
  for (const bool name : {false, true}) {
    ScriptedPeer peer(pool_, true);
    peer.greet();
    const std::string huge(65'537, 'a');
    const std::string field = std::string(1, '\0') + (name ? hpack_text(huge) : hpack_text("x") + hpack_text(huge));
    peer.give(frame(Type::kHeaders, kEnd, 1, (block(get_fields()) + field).substr(0, 16384)));
    output_ = peer.output();
    expect_calm(peer, "header block", peer.counters.over_header_block);
  }
}

TEST_F(Http2Attack, Http2Bomb) {  // CVE-2026-49975: many small cookie crumbs, by one byte each.
  ScriptedPeer peer(pool_, true);
  peer.greet();
  const std::string entry = "\x40" + hpack_text("cookie") + hpack_text("a");
  peer.give(frame(Type::kHeaders, kEnd | kEndHeaders, 1, block(get_fields()) + entry + std::string(16000, '\xbe')));
  output_ = peer.output();
  expect_calm(peer, "header block", peer.counters.over_header_block);
}

TEST_F(Http2Attack, TooLargeHeads) {  // 431 each, and not forever.
  ScriptedPeer peer(pool_, true);
  peer.greet();
  FieldList many = get_fields();
  // Defect: pseudo-header fields were counted, so that HTTP/2 accepted four fields less than HTTP/1.1.
  while (many.size() < 104) many.emplace_back("x", "a");
  peer.give(headers(1, kEnd, many));
  EXPECT_EQ(peer.requests.size(), 1u);
  peer.requests[0].release();
  (void)peer.output();
  many.emplace_back("x", "a");
  peer.give(headers(3, 0, many));
  EXPECT_EQ(peer.output(), "HEADERS 3 end; RST 3 NO_ERROR");
  flood(peer, 1000, [&](size_t i) { return headers(static_cast<uint32_t>(2 * i + 5), kEnd, many); });
  expect_calm(peer, "streams were reset", peer.counters.over_resets);
  EXPECT_EQ(peer.requests.size(), 1u);
}

TEST_F(Http2Attack, PingFlood) {  // CVE-2019-9512
  for (const bool reads : {true, false}) {
    ScriptedPeer peer(pool_, true);
    peer.greet();
    flood(peer, 10000, [](size_t) { return ping(); }, reads);
    expect_calm(peer, "PING", peer.counters.over_pings);
    EXPECT_EQ(rounds_, 51u);
  }
}

TEST_F(Http2Attack, PingsAtTheirRate) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  for (uint64_t now_ms = 0; now_ms < 1'000'000; now_ms += 100) {
    peer.connection->set_now(now_ms);
    ASSERT_EQ(peer.give(ping()), HttpCodec::Status::kOpen) << now_ms;
    peer.take();
  }
}

TEST_F(Http2Attack, SettingsFlood) {  // CVE-2019-9515
  ScriptedPeer peer(pool_, true);
  peer.greet();
  flood(peer, 10000, [](size_t) { return settings(); });
  expect_calm(peer, "SETTINGS frames", peer.counters.over_settings);
  EXPECT_EQ(rounds_, 50u);
}

TEST_F(Http2Attack, OneLongListOfSettings) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  std::string entries;
  for (uint32_t i = 0; i < 65; ++i) entries += setting(4, i) + (i < 3 ? setting(1, i * 4096) : "");
  peer.give(settings(entries));
  output_ = peer.output();
  expect_calm(peer, "SETTINGS in a frame", peer.counters.over_settings);
}

TEST_F(Http2Attack, UnreadReplies) {  // The queue is bounded even if each rate is kept.
  Http2Limits limits;
  limits.pings_burst = limits.replies_burst = 1'000'000;
  ScriptedPeer peer(pool_, true, limits);
  peer.greet();
  flood(peer, 10000, [](size_t) { return ping(); }, false);
  expect_calm(peer, "queued output", peer.counters.over_queued_control);
  EXPECT_EQ(rounds_, 1001u);
}

TEST_F(Http2Attack, UnreadResponseHeads) {
  Http2Limits limits;
  limits.queued_control_bytes = 64 * 1024;
  limits.resets = 100'000;
  ScriptedPeer peer(pool_, true, limits);
  peer.greet();
  flood(
      peer, 10000,
      [&](size_t i) {
        for (auto& exchange : peer.requests.exchanges) {
          exchange->stream->send_head(response(pool_, 200, {{"x", std::string(3500, '~')}}), false);
        }
        peer.requests.exchanges.clear();
        const auto id = static_cast<uint32_t>(2 * i + 1);
        return get(id);
      },
      false);
  expect_calm(peer, "queued output", peer.counters.over_queued_control);
  EXPECT_EQ(rounds_, 20u);
}

// Defect: each head of 28 KB came from a few bytes that referenced one entry of the table, and was not counted.
TEST_F(Http2Attack, HeldHeadsAreCounted) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.take();
  const std::string head(9000, 'x');
  peer.give(get(1, {{"x", head}}));
  const size_t one = peer.connection->held_bytes();
  EXPECT_GT(one, HttpCodec::kStreamBytes + head.size());
  peer.requests.most_held_bytes = 3 * one;
  for (uint32_t id = 3; id < 20; id += 2) peer.give(get(id, {{"x", head}}));
  EXPECT_EQ(peer.requests.size(), 3u);
  EXPECT_EQ(peer.counters.over_memory, 7u);
  peer.take();
  EXPECT_LE(peer.connection->held_bytes(), 3 * one);
  peer.requests.exchanges.clear();
  peer.take();
  EXPECT_EQ(peer.connection->held_bytes(), 0u);
  peer.give(get(21));
  EXPECT_EQ(peer.requests.size(), 1u);
  EXPECT_EQ(peer.connection->status(), HttpCodec::Status::kOpen);
}

// Defect: a thousand connections with 100 such heads each kept a worker busy for seconds, in one turn of its loop.
TEST_F(Http2Attack, HeadsTakeTurns) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  std::string frames;
  for (uint32_t id = 1; id < 40; id += 2) frames += get(id, {{"x", std::string(9000, 'x')}});
  peer.connection->receive(sluice::test::buffer_of(pool_, frames));
  EXPECT_EQ(peer.requests.size(), 8u);  // 64 KiB are exceeded by the eighth.
  EXPECT_TRUE(peer.connection->input_waits());
  EXPECT_FALSE(peer.connection->wants_bytes());
  EXPECT_FALSE(peer.connection->mid_head()) << "it is not the client that is slow to send";
  peer.connection->receive(Buffer());
  EXPECT_EQ(peer.requests.size(), 16u);
  peer.connection->receive(Buffer());
  EXPECT_EQ(peer.requests.size(), 20u);
  EXPECT_FALSE(peer.connection->input_waits());
  EXPECT_TRUE(peer.connection->wants_bytes());
}

// Defect: small heads counted by their size alone, so that the requests of a crowd, each of which was reset at once,
// took a tenth of a second in one turn of the loop.
TEST_F(Http2Attack, SmallRequestsTakeTurns) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  std::string frames;
  for (uint32_t id = 1; id < 160; id += 2) frames += get(id);
  peer.connection->receive(sluice::test::buffer_of(pool_, frames));
  EXPECT_EQ(peer.requests.size(), 64u);
  EXPECT_TRUE(peer.connection->input_waits());
  peer.connection->receive(Buffer());
  EXPECT_EQ(peer.requests.size(), 80u);
}

// Defect: each of a thousand connections had its turn's heads at once, so that a turn of the loop took half a second.
TEST_F(Http2Attack, ConnectionsShareTheHeadsOfATurn) {
  Http2Codec::HeadBudget budget;
  const auto make = [&] {
    auto peer = std::make_unique<ScriptedPeer>(pool_, true);
    peer->shared.head_budget = &budget;
    peer->greet();
    return peer;
  };
  const auto large = [](uint32_t id) { return get(id, {{"x", std::string(9000, 'x')}}); };
  const auto receive = [&](ScriptedPeer& peer, const std::string& frames) {
    peer.connection->receive(sluice::test::buffer_of(pool_, frames));
    return peer.requests.size();
  };
  const auto known = make(), greedy = make(), fresh = make();
  EXPECT_EQ(receive(*known, get(1)), 1u);
  budget.left_bytes = 20'000;
  EXPECT_EQ(receive(*greedy, large(1) + large(3) + large(5) + large(7)), 3u);
  EXPECT_EQ(budget.left_bytes, 0u);
  EXPECT_TRUE(greedy->connection->input_waits());
  EXPECT_EQ(receive(*greedy, large(9)), 3u) << "it waits for the next turn";
  EXPECT_EQ(receive(*fresh, get(1)), 0u) << "it waits behind the others";
  EXPECT_TRUE(fresh->connection->input_waits());
  // A connection that sends little is served at once.
  EXPECT_EQ(receive(*known, get(3) + get(5)), 3u);
  EXPECT_FALSE(known->connection->input_waits());
  // Each resumed connection continues, whatever budget is left.
  fresh->connection->receive(Buffer());
  EXPECT_EQ(fresh->requests.size(), 1u);
  greedy->connection->receive(Buffer());
  EXPECT_EQ(greedy->requests.size(), 4u);
  budget = {};
  greedy->connection->receive(Buffer());
  EXPECT_EQ(greedy->requests.size(), 5u);
  EXPECT_FALSE(greedy->connection->input_waits());
}

TEST_F(Http2Attack, UntakenBodiesAreCounted) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.give(post(1));
  peer.take();
  const size_t before = peer.connection->held_bytes();
  peer.requests[0].stream->set_reading(false);
  peer.give(data(1, std::string(10'000, 'x')));
  EXPECT_EQ(peer.connection->held_bytes(), before + 10'000);
  peer.requests[0].stream->set_reading(true);
  peer.take();
  EXPECT_EQ(peer.connection->held_bytes(), before);
}

TEST_F(Http2Attack, ResetFlood) {  // CVE-2019-9514: invalid streams.
  ScriptedPeer peer(pool_, true);
  peer.greet();
  flood(peer, 10000, [](size_t i) { return headers(static_cast<uint32_t>(2 * i + 1), kEnd, {{"x", "1"}}); }, false);
  expect_calm(peer, "streams were reset", peer.counters.over_resets);
}

TEST_F(Http2Attack, PriorityFlood) {  // CVE-2019-9513
  ScriptedPeer peer(pool_, true);
  peer.greet();
  flood(peer, 10000, [](size_t i) {
    return frame(Type::kPriority, 0, static_cast<uint32_t>(2 * i + 1), u32(static_cast<uint32_t>(i)) + "\x10");
  });
  expect_calm(peer, "PRIORITY or unknown", peer.counters.over_frames_unused);
  EXPECT_EQ(rounds_, 101u);
}

TEST_F(Http2Attack, UnknownFrameFlood) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  flood(peer, 10000, [](size_t) { return frame(Type{0xfa}, 0, 0, std::string(1000, 'x')); });
  expect_calm(peer, "PRIORITY or unknown", peer.counters.over_frames_unused);
}

TEST_F(Http2Attack, WindowUpdateFlood) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.give(get(1));
  flood(peer, 10000, [](size_t) { return window_update(1, 1); });
  expect_calm(peer, "WINDOW_UPDATE", peer.counters.over_window_updates);
  EXPECT_EQ(rounds_, 103u);
}

TEST_F(Http2Attack, EmptyDataFlood) {  // CVE-2019-9518
  for (const bool padded : {false, true}) {
    ScriptedPeer peer(pool_, true);
    peer.greet();
    peer.give(post(1));
    const std::string empty = padded ? frame(Type::kData, 8, 1, std::string(1, '\0')) : data(1, "");
    flood(peer, 10000, [&](size_t) { return empty; });
    expect_calm(peer, "empty DATA", peer.counters.over_empty_data);
    EXPECT_EQ(rounds_, 9u);
  }
}

TEST_F(Http2Attack, EmptyNames) {  // CVE-2019-9516
  ScriptedPeer peer(pool_, true);
  peer.greet();
  flood(peer, 10000, [](size_t i) { return get(static_cast<uint32_t>(2 * i + 1), {{"", ""}}); });
  expect_calm(peer, "streams were reset", peer.counters.over_resets);
}

TEST_F(Http2Attack, TinyData) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.give(post(1));
  peer.requests[0].keep_body = false;
  flood(peer, 500'000, [](size_t) { return data(1, "x"); });
  EXPECT_EQ(rounds_, 500'000u);  // As a stream of small gRPC messages.
}

// Defect: each byte that waited for a slow upstream took a window and more, and each was forwarded alone.
TEST_F(Http2Attack, WaitingTinyData) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.give(post(1));
  peer.requests[0].stream->set_reading(false);
  std::string frames;
  for (int i = 0; i < 1500; ++i) frames += data(1, "x");
  const size_t before = pool_.out_bytes();
  for (int i = 0; i < 40; ++i) ASSERT_EQ(peer.give(frames), HttpCodec::Status::kOpen);
  EXPECT_EQ(peer.requests[0].body.to_string(), std::string(60000, 'x'));
  EXPECT_LE(pool_.out_bytes(), before + 40 * 8192);  // With a window for each byte it would be 2 MB.
  EXPECT_LE(peer.requests[0].body.window_count(), 40u * 8);
}

TEST_F(Http2Attack, TinyDataOfManyStreams) {  // Each stream's data is in order, with its end.
  std::string frames, expected[2];
  for (int i = 0; i < 300; ++i) {
    const std::string text(static_cast<size_t>(i % 70), static_cast<char>('a' + i % 26));
    if (text.empty()) continue;
    frames += data(i % 5 == 0 ? 3 : 1, text) + data(5, "x");
    expected[i % 5 == 0 ? 1 : 0] += text;
  }
  const std::string ends = frames + data(1, "end", kEnd) + data(3, "", kEnd) + rst(5);
  for (const size_t cut : {size_t{0}, size_t{7}, size_t{100}}) {
    ScriptedPeer peer(pool_, true);
    peer.greet();
    peer.give(post(1) + post(3) + post(5));
    peer.give(ends, cut);
    EXPECT_EQ(peer.requests[0].body.to_string(), expected[0] + "end") << cut;
    EXPECT_EQ(peer.requests[1].body.to_string(), expected[1]) << cut;
    EXPECT_TRUE(peer.requests[0].ended && peer.requests[1].ended);
    EXPECT_TRUE(peer.requests[2].reset);
  }
}

// Defect: frames for closed streams were accepted without a limit.
TEST_F(Http2Attack, FramesOfClosedStreams) {
  const std::string pieces[] = {data(1, "x"), rst(1), headers(1, kEnd, {{"x", "y"}})};
  for (const std::string& piece : pieces) {
    ScriptedPeer peer(pool_, true);
    peer.greet();
    peer.give(post(1, {{"content-length", "1"}}) + data(1, "xx"));  // The server resets it.
    flood(peer, 10000, [&](size_t) { return piece; });
    expect_calm(peer, "closed streams", peer.counters.over_frames_on_closed);
    EXPECT_EQ(rounds_, 1101u);  // The stream has earned some.
  }
}

TEST_F(Http2Attack, DataByteByByte) {  // CVE-2019-9511: it pins as much as one frame, not a chunk per byte.
  ScriptedPeer peer(pool_, true);
  peer.greet();
  const std::string bytes = frame(Type::kHeaders, kEnd | kEndHeaders, 1, std::string(16000, 'x'));
  const size_t before = pool_.out_bytes();
  for (const char byte : bytes.substr(0, 15000)) {
    Lease chunk = Lease::allocate(pool_, 4096);
    chunk.grow_back(1);
    *chunk.data() = static_cast<std::byte>(byte);
    Buffer piece;
    piece.append(std::move(chunk));
    ASSERT_EQ(peer.connection->receive(std::move(piece)), HttpCodec::Status::kOpen);
    ASSERT_LE(pool_.out_bytes(), before + 17 * 4096 + 2 * 16384);
  }
}

TEST_F(Http2Attack, TinyWindowsHoldWhatTheSenderQueued) {  // CVE-2019-9517: what waits is what the owner has queued.
  ScriptedPeer peer(pool_, true);
  peer.greet(setting(4, 0));
  peer.give(get(1));
  HttpStream& stream = *peer.requests[0].stream;
  stream.send_head(response(pool_, 200), false);
  stream.send_body(buffer_of(std::string(50000, 'x')), true);
  EXPECT_EQ(peer.output(), "HEADERS 1");
  EXPECT_EQ(stream.queued(), 50000u);
  EXPECT_TRUE(peer.connection->waits_for_window());
  EXPECT_FALSE(peer.connection->has_output());
}

TEST_F(Http2Attack, HeaderTableThrash) {
  ScriptedPeer peer(pool_, true);
  peer.limits.settings_burst = 10000;
  peer.greet(setting(1, 0xffffffff));
  const size_t before = pool_.out_bytes();
  for (uint32_t i = 0; i < 500; ++i) {
    peer.give(get(2 * i + 1) + settings(setting(1, 0) + setting(1, 0xffffffff)));
    peer.requests[i].stream->send_head(response(pool_, 200, {{"x-" + std::to_string(i), std::string(500, 'a')}}), true);
    peer.take();
    peer.requests[i].release();
    ASSERT_LT(pool_.out_bytes(), before + 300 * 1024);  // Includes the test's own heads.
    peer.requests[i].head.clear();
  }
}

TEST_F(Http2Attack, StreamsAfterTheLastGoaway) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  peer.give(get(1));
  peer.connection->drain();
  peer.connection->drain();
  EXPECT_EQ(peer.output(), "GOAWAY 2147483647 NO_ERROR; PING; GOAWAY 1 NO_ERROR");
  flood(peer, 10000, [](size_t i) { return get(static_cast<uint32_t>(2 * i + 3)); });
  expect_calm(peer, "oddities", peer.counters.over_glitches);
  EXPECT_EQ(peer.requests.size(), 1u);
}

TEST_F(Http2Attack, InformationalResponsesWithoutEnd) {
  ScriptedPeer peer(pool_, false);
  peer.greet();
  Exchange exchange;
  exchange.stream = peer.connection->open_stream(exchange);
  exchange.stream->send_head(request(pool_), true);
  flood(peer, 8, [](size_t) { return headers(1, 0, {{":status", "103"}}); });
  EXPECT_EQ(exchange.informational.size(), 8u);
  peer.give(headers(1, 0, {{":status", "103"}}));
  EXPECT_EQ(peer.output(), "RST 1 PROTOCOL_ERROR");
}

TEST_F(Http2Attack, MoreStreamsThanAllowed) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  std::string all;
  for (uint32_t i = 0; i < 150; ++i) all += get(2 * i + 1);
  EXPECT_EQ(peer.give(all), HttpCodec::Status::kOpen);
  EXPECT_EQ(peer.requests.size(), 100u);
  EXPECT_EQ(peer.connection->streams(), 100u);
  EXPECT_EQ(peer.counters.refused_streams, 50u);
  EXPECT_TRUE(peer.output().starts_with("RST 201 REFUSED_STREAM"));
}

}  // namespace
}  // namespace sluice::test::http2
