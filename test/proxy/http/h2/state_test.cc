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
  static bool resume(ScriptedPeer& from, ScriptedPeer& to) {
    EXPECT_TRUE(from.connection->can_move());
    SecretBytes bytes;
    StateWriter out(bytes);
    from.connection->write_state(out);
    StateReader in(bytes);
    to.connection = Http2Codec::resume(to.shared, &to.requests, in);
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
