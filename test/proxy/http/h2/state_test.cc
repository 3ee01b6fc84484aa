// An idle HTTP/2 connection that continues in another codec, as in another process: header tables, windows and stream
// numbers go on.
#include <gtest/gtest.h>

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
    EXPECT_TRUE(from.connection->idle());
    SecretBytes bytes;
    StateWriter out(bytes);
    from.connection->write_state(out);
    StateReader in(bytes);
    to.connection = Http2Codec::resume(to.shared, to.requests, in);
    return to.connection && in.done();
  }
  static void serve(ScriptedPeer& peer, const std::string& request) {
    ASSERT_EQ(peer.give(request), HttpCodec::Status::kOpen);
    Exchange& exchange = peer.requests[peer.requests.size() - 1];
    exchange.stream->send_head(response(peer.pool, 200, {{"x-a", "value"}}), true);
    exchange.release();
  }
};

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
  ASSERT_TRUE(second.connection->idle());
  EXPECT_FALSE(resume(second, third));
}

TEST_F(Http2StateTest, BusyConnectionsAreNotIdle) {
  ScriptedPeer peer(pool_, true);
  EXPECT_FALSE(peer.connection->idle());  // Not greeted.
  peer.greet();
  EXPECT_TRUE(peer.connection->idle());
  peer.give(get(1));
  EXPECT_FALSE(peer.connection->idle());
  peer.requests[0].stream->send_head(response(pool_, 200), true);
  EXPECT_FALSE(peer.connection->idle());  // Not sent.
  peer.take();
  EXPECT_FALSE(peer.connection->idle());  // Not released.
  peer.requests[0].release();
  EXPECT_TRUE(peer.connection->idle());
  peer.connection->drain();
  EXPECT_FALSE(peer.connection->idle());
}

TEST_F(Http2StateTest, MalformedStatesAreRefused) {
  ScriptedPeer first(pool_, true);
  first.greet();
  serve(first, indexed(1, true));
  first.take();
  SecretBytes bytes;
  StateWriter out(bytes);
  first.connection->write_state(out);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ScriptedPeer second(pool_, true);
    StateReader in(std::span<const uint8_t>(bytes).first(size));
    EXPECT_EQ(Http2Codec::resume(second.shared, second.requests, in), nullptr) << size;
  }
}

}  // namespace
}  // namespace sluice::test::http2
