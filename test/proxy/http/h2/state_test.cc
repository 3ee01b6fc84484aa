// An idle HTTP/2 connection that continues in another codec, as in another process: header tables, windows and stream
// numbers go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "alts_like/record_state.h"
#include "test/proxy/http/h2/rig.h"

namespace sluice::test::http2 {
namespace {

class Http2StateTest : public PoolTest {
 protected:
  // Continues in a codec of another peer object.
  static bool resume(ScriptedPeer& from, ScriptedPeer& to, bool server = true) {
    EXPECT_TRUE(from.connection->can_move());
    SecretBytes bytes;
    StateWriter out(bytes);
    from.connection->write_state(out);
    StateReader in(bytes);
    to.connection = Http2Codec::resume(to.shared, server ? &to.requests : nullptr, in);
    return to.connection && in.done();
  }
  static void serve(ScriptedPeer& peer, const std::string& request) {
    ASSERT_EQ(peer.give(request), HttpCodec::Status::kOpen);
    Exchange& exchange = peer.requests[peer.requests.size() - 1];
    exchange.stream->send_head(response(peer.pool, 200, {{"x-a", "value"}}), true);
    exchange.release();
  }
};

constexpr size_t kFrameHead = Http2FrameHeader::kBytes;
const size_t kStreamWindow = Http2Limits().stream_window_bytes;

void open_tunnel(ScriptedPeer& peer, uint32_t stream) {
  ASSERT_EQ(peer.give(headers(stream, 0, get_fields({{":protocol", "websocket"}}, "CONNECT"))),
            HttpCodec::Status::kOpen);
  Exchange& exchange = peer.requests[peer.requests.size() - 1];
  exchange.stream->send_head(response(peer.pool, 200), false);
  peer.take();
  EXPECT_TRUE(peer.connection->can_move());
}

void fill_window(ScriptedPeer& peer, uint32_t stream, size_t bytes) {
  for (size_t left = bytes, size = 0; left > 0; left -= size) {
    size = std::min(left, size_t{kHttp2FrameBytes});
    peer.give(data(stream, std::string(size, 'd')));
  }
}

// Adds a field to the peer's table, or refers to it.
std::string indexed(uint32_t stream, bool adds) {
  std::string fields = block(get_fields());
  fields += adds ? "\x40" + hpack_text("x-table") + hpack_text("from the table") : std::string("\xbe");
  return frame(Http2FrameType::kHeaders, kEnd | kEndHeaders, stream, fields);
}

TEST_F(Http2StateTest, TablesWindowsAndStreamsGoOn) {
  ScriptedPeer first(pool_, true), second(pool_, true);
  first.greet(setting(4, 70'000));
  serve(first, indexed(1, true));
  first.give(window_update(0, 1000));
  first.take();
  // The beginning of a frame has arrived.
  const std::string next = indexed(3, false);
  first.give(next.substr(0, 5));
  ASSERT_TRUE(resume(first, second));
  serve(second, next.substr(5));
  EXPECT_EQ(second.requests[0].head.fields.value("x-table"), "from the table");
  // The block of the response empties the peer's table first: a size update to 0 and back.
  const std::vector<Frame> frames = second.take();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload.substr(0, 4), std::string("\x20\x3f\xe1\x1f", 4));
  // A stream that the first codec has served is closed.
  second.give(indexed(1, false));
  EXPECT_EQ(second.connection->status(), HttpCodec::Status::kFailed);
}

// A process with other limits announces them; smaller windows could not be announced in time.
TEST_F(Http2StateTest, OtherLimits) {
  ScriptedPeer first(pool_, true);
  first.greet();
  serve(first, get(1));
  first.take();
  Http2Limits larger;
  larger.stream_window_bytes *= 2;
  larger.connection_window_bytes += 1000;
  ScriptedPeer second(pool_, true, larger);
  ASSERT_TRUE(resume(first, second));
  EXPECT_EQ(second.output(true), "SETTINGS; WINDOW_UPDATE 0 1000");
  EXPECT_EQ(second.give(settings_ack()), HttpCodec::Status::kOpen);
  ScriptedPeer third(pool_, true);
  ASSERT_TRUE(second.connection->can_move());
  EXPECT_FALSE(resume(second, third));
}

TEST_F(Http2StateTest, BusyConnectionsAreNotIdle) {
  ScriptedPeer peer(pool_, true);
  EXPECT_FALSE(peer.connection->can_move());  // Not greeted.
  peer.greet();
  EXPECT_TRUE(peer.connection->can_move());
  peer.give(get(1));
  EXPECT_FALSE(peer.connection->can_move());
  peer.requests[0].stream->send_head(response(pool_, 200), true);
  EXPECT_FALSE(peer.connection->can_move());  // Not sent.
  peer.take();
  EXPECT_FALSE(peer.connection->can_move());  // Not released.
  peer.requests[0].release();
  EXPECT_TRUE(peer.connection->can_move());
  peer.connection->drain();
  EXPECT_FALSE(peer.connection->can_move());
}

// With what waits for the peer's window, and in the middle of a DATA frame.
TEST_F(Http2StateTest, OpenTunnelsGoOn) {
  ScriptedPeer first(pool_, true), second(pool_, true);
  first.greet();
  open_tunnel(first, 1);
  open_tunnel(first, 3);
  first.requests[1].stream->send_body(test::buffer_of(pool_, std::string(70'000, 'x')), false);
  EXPECT_FALSE(first.output().empty());
  EXPECT_EQ(first.requests[1].stream->queued(), 70'000u - 65'535u);
  // Consumed by a receiver that reads, and by one that does not.
  first.give(data(1, std::string(1000, 'a')));
  first.requests[1].stream->set_reading(false);
  first.give(data(3, std::string(2000, 'b')));
  const std::string next = data(1, std::string(100, 'c'));
  first.give(next.substr(0, 50));
  ASSERT_EQ(first.connection->receivers().size(), 2u);
  EXPECT_EQ(first.connection->receivers()[0], &first.requests[0]);
  ASSERT_TRUE(resume(first, second));

  const std::vector<HttpStream*> streams = second.connection->take_streams();
  ASSERT_EQ(streams.size(), 2u);
  for (HttpStream* const stream : streams) {
    Exchange& exchange = static_cast<Exchange&>(second.requests.on_stream(*stream));
    exchange.has_head = true;
    stream->hand_over(exchange);
  }
  EXPECT_EQ(second.connection->streams(), 2u);
  second.give(next.substr(50));
  EXPECT_EQ(second.requests[0].received, 100u - 50u + kFrameHead);
  // All credit for the first stream but the last bytes, and for the second once it reads.
  for (HttpStream* const stream : streams) stream->set_reading(true);
  fill_window(second, 1, kStreamWindow - 1100);
  fill_window(second, 3, kStreamWindow - 2000);
  EXPECT_EQ(second.connection->status(), HttpCodec::Status::kOpen);
  EXPECT_EQ(second.output(true).find("RST"), std::string::npos);
  // What waited goes on where it stopped, and the windows count on.
  second.give(window_update(3, 5000) + window_update(0, 5000));
  EXPECT_EQ(second.output(), "DATA 3 4465");
  streams[0]->send_body(test::buffer_of(pool_, "bye"), true);
  second.give(data(1, {}, true));
  EXPECT_TRUE(second.requests[0].ended);
  EXPECT_EQ(second.output(), "DATA 1 3 end");
  second.give(rst(3));
  EXPECT_TRUE(second.requests[1].reset);
}

// A client with a response under way, whose request has ended, and one whose request has not.
TEST_F(Http2StateTest, ClientsGoOn) {
  ScriptedPeer first(pool_, false), second(pool_, false);
  first.greet();
  Exchange one, two;
  for (Exchange* const each : {&one, &two}) {
    each->stream = first.connection->open_stream(*each);
    each->stream->send_head(request(pool_), each == &one);
  }
  EXPECT_FALSE(first.connection->can_move());  // Neither has a response.
  first.give(headers(1, 0, {{":status", "200"}, {"content-length", "300"}}) + data(1, std::string(100, 'x')));
  first.give(headers(3, 0, {{":status", "200"}}));
  first.take();
  EXPECT_EQ(first.connection->receivers(), (std::vector<StreamReceiver*>{&one, &two}));
  ASSERT_TRUE(resume(first, second, /*server=*/false));
  one.released = two.released = true;

  const std::vector<HttpStream*> streams = second.connection->take_streams();
  ASSERT_EQ(streams.size(), 2u);
  Exchange three, four, next;
  three.has_head = four.has_head = true;
  three.stream = streams[0];
  four.stream = streams[1];
  three.stream->hand_over(three);
  four.stream->hand_over(four);
  for (HttpStream* const stream : streams) stream->set_reading(true);
  four.stream->send_body(test::buffer_of(pool_, "more"), true);
  next.stream = second.connection->open_stream(next);
  next.stream->send_head(request(pool_), true);
  EXPECT_EQ(second.output(), "HEADERS 5 end; DATA 3 4 end");
  second.give(data(1, std::string(199, 'x')));
  EXPECT_FALSE(three.ended);
  second.give(data(1, "x", true) + data(3, "result") + headers(3, kEnd, {{"grpc-status", "0"}}));
  EXPECT_TRUE(three.ended && four.has_trailers);
  EXPECT_EQ(three.received + four.received, 200u + 6u);
}

// They are not read, nor is what follows them, but requests in progress go on.
TEST_F(Http2StateTest, HeldRequests) {
  ScriptedPeer first(pool_, true), second(pool_, true);
  first.greet();
  first.give(post(1));
  first.connection->hold_requests(true);
  first.give(data(1, "one"));
  EXPECT_TRUE(first.connection->wants_bytes());
  const std::string rest = data(1, "two") + get(5);
  first.give(get(3) + rest.substr(0, rest.size() - 5));
  EXPECT_EQ(first.requests.size(), 1u);
  EXPECT_EQ(first.requests[0].received, 3u);
  EXPECT_FALSE(first.connection->wants_bytes());
  first.requests[0].stream->send_head(response(pool_, 200), false);
  first.take();
  ASSERT_TRUE(resume(first, second));

  HttpStream* const stream = second.connection->take_streams().at(0);
  Exchange& exchange = static_cast<Exchange&>(second.requests.on_stream(*stream));
  exchange.has_head = true;
  stream->hand_over(exchange);
  second.give(rest.substr(rest.size() - 5));
  EXPECT_EQ(second.requests.size(), 3u);
  EXPECT_EQ(second.requests[0].received, 3u);
  // In the same process.
  first.requests[0].released = true;
  second.connection->hold_requests(true);
  second.give(get(7));
  EXPECT_EQ(second.requests.size(), 3u);
  second.connection->hold_requests(false);
  second.give({});
  EXPECT_EQ(second.requests.size(), 4u);
}

// An idle connection is packed and goes on: with its header table, its windows, its stream numbers, and without new
// allowances for floods.
TEST_F(Http2StateTest, IdleConnectionsArePacked) {
  Http2Limits limits;
  limits.resets = 3;
  limits.resets_saved = 3;
  ScriptedPeer peer(pool_, true, limits);
  const auto pack = [&] {
    EXPECT_TRUE(peer.connection->can_pack());
    const IdleHttp2Connection idle = peer.connection->pack();
    peer.connection = std::make_unique<Http2Codec>(peer.shared, &peer.requests, idle);
  };
  peer.greet(setting(4, 70'000));
  serve(peer, indexed(1, true));
  peer.give(window_update(0, 1000));
  peer.take();
  pack();
  serve(peer, indexed(3, false));
  EXPECT_EQ(peer.requests[1].head.fields.value("x-table"), "from the table");
  const std::vector<Frame> frames = peer.take();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload.substr(0, 4), std::string("\x20\x3f\xe1\x1f", 4));
  // The peer's windows: 70,000 bytes for a stream, and as many as at first and 1,000 more for all of them.
  peer.give(get(5));
  Exchange& exchange = peer.requests[2];
  exchange.stream->send_head(response(pool_, 200), false);
  exchange.stream->send_body(test::buffer_of(pool_, std::string(80'000, 'x')), true);
  EXPECT_FALSE(peer.connection->can_pack());
  peer.take();
  EXPECT_EQ(exchange.stream->queued(), 80'000u - kHttp2FirstWindow - 1000);
  peer.give(window_update(0, 80'000) + window_update(5, 80'000));
  peer.take();
  exchange.release();
  pack();
  // Resets use up one allowance, however often the connection is idle between them.
  uint32_t stream = 7;
  for (; stream < 50 && peer.connection->status() == HttpCodec::Status::kOpen; stream += 2) {
    peer.give(get(stream));
    peer.requests[peer.requests.size() - 1].released = true;
    peer.give(rst(stream));
    if (peer.connection->can_pack()) pack();
  }
  EXPECT_EQ(peer.connection->status(), HttpCodec::Status::kFailed);
  EXPECT_LT(stream, 50u);
}

TEST_F(Http2StateTest, BusyConnectionsAreNotPacked) {
  ScriptedPeer client(pool_, false);
  client.greet();
  client.take();
  EXPECT_FALSE(client.connection->can_pack());
  ScriptedPeer peer(pool_, true);
  EXPECT_FALSE(peer.connection->can_pack());  // Not greeted.
  peer.greet();
  peer.take();
  EXPECT_TRUE(peer.connection->can_pack());
  const std::string request = get(1);
  peer.give(request.substr(0, 5));
  EXPECT_FALSE(peer.connection->can_pack());  // In a frame.
  peer.give(request.substr(5));
  EXPECT_FALSE(peer.connection->can_pack());
  peer.requests[0].stream->send_head(response(pool_, 200), true);
  peer.take();
  peer.requests[0].release();
  EXPECT_TRUE(peer.connection->can_pack());
  peer.give(ping());
  EXPECT_FALSE(peer.connection->can_pack());  // The acknowledgment was not sent.
  peer.take();
  EXPECT_TRUE(peer.connection->can_pack());
  open_tunnel(peer, 3);
  EXPECT_FALSE(peer.connection->can_pack());
  peer.connection->drain();
  EXPECT_FALSE(peer.connection->can_pack());
}

TEST_F(Http2StateTest, MalformedStatesAreRefused) {
  ScriptedPeer first(pool_, true);
  first.greet();
  serve(first, indexed(1, true));
  open_tunnel(first, 3);
  first.take();
  SecretBytes bytes;
  StateWriter out(bytes);
  first.connection->write_state(out);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ScriptedPeer second(pool_, true);
    StateReader in(std::span<const uint8_t>(bytes).first(size));
    EXPECT_EQ(Http2Codec::resume(second.shared, &second.requests, in), nullptr) << size;
  }
}

}  // namespace
}  // namespace sluice::test::http2
