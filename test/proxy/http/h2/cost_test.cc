// The costs of requests and of waiting: allocations, copies, memory.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "test/proxy/http/h2/allocations.h"
#include "test/proxy/http/h2/rig.h"
#include "test/support/sanitizers.h"

namespace sluice::test::http2 {
namespace {

// Echoes: the response has the body of the request. Nothing is kept.
struct Echo final : StreamReceiver {
  void on_head(HttpStream& stream, Head&&, bool end) override {
    stream.send_head(head, false);
    if (end) stream.send_body(Buffer(), true);
  }
  void on_body(HttpStream& stream, Buffer&& body, bool end) override { stream.send_body(std::move(body), end); }
  void on_trailers(HttpStream& stream, Fields&& trailers) override { stream.send_trailers(trailers); }
  void on_reset(HttpStream& stream, ResetReason) override { stream.release(); }
  void on_drained(HttpStream&) override {}
  Head head;
};
struct EchoServer final : HttpCodec::Acceptor {
  StreamReceiver& on_stream(HttpStream&) override { return echo; }
  Echo echo;
};
struct Client final : StreamReceiver {
  void on_head(HttpStream& stream, Head&&, bool end) override { finish(stream, end); }
  void on_body(HttpStream& stream, Buffer&& body, bool end) override {
    received += body.size();
    body.clear();
    finish(stream, end);
  }
  void on_trailers(HttpStream& stream, Fields&&) override { finish(stream, true); }
  void on_reset(HttpStream& stream, ResetReason) override {
    ADD_FAILURE();
    stream.release();
  }
  void on_drained(HttpStream&) override {}
  void finish(HttpStream& stream, bool end) {
    if (!end) return;
    ++ended;
    stream.release();
  }
  size_t received = 0, ended = 0;
};

class Http2Cost : public PoolTest {
 protected:
  Http2Cost() : PoolTest(size_t{64} << 20), shared_{pool_, limits_, counters_} {
#if !defined(SLUICE_ASAN) && !defined(__SANITIZE_THREAD__)
    const uint64_t before = allocations;
    delete new std::string(100, 'x');
    EXPECT_EQ(allocations - before, 2u) << "allocations are not counted";
#endif
    limits_.requests = 0;
    server_.echo.head = response(pool_, 200, {{"content-type", "text/plain"}, {"server", "sluice"}});
    head_ = request(pool_, "POST", {{"user-agent", "test"}, {"accept", "*/*"}, {"x-id", "0"}});
  }
  void TearDown() override {
    server_.echo.head.clear();
    head_.clear();
    PoolTest::TearDown();
  }
  void carry(Http2Codec& from, Http2Codec& to) {
    Buffer wire;
    while (from.has_output()) from.flush(wire);
    ASSERT_EQ(to.receive(std::move(wire)), HttpCodec::Status::kOpen) << to.error();
  }
  void converse(Http2Codec& client, Http2Codec& server) {
    while (client.has_output() || server.has_output()) {
      carry(client, server);
      carry(server, client);
    }
  }
  // The server's streams are released as by a session: when they have ended.
  struct Releasing final : HttpCodec::Acceptor, StreamReceiver {
    explicit Releasing(Echo& of) : echo(of) {}
    StreamReceiver& on_stream(HttpStream&) override { return *this; }
    void on_head(HttpStream& stream, Head&& head, bool end) override {
      echo.on_head(stream, std::move(head), end);
      if (end) stream.release();
    }
    void on_body(HttpStream& stream, Buffer&& body, bool end) override {
      ended = end;
      echo.on_body(stream, std::move(body), end);
    }
    void on_trailers(HttpStream& stream, Fields&& trailers) override { echo.on_trailers(stream, std::move(trailers)); }
    void on_reset(HttpStream& stream, ResetReason) override { stream.release(); }
    void on_drained(HttpStream& stream) override {
      if (ended && stream.queued() == 0) stream.release();
    }
    Echo& echo;
    bool ended = false;
  };

  Http2Limits limits_;
  Http2Counters counters_;
  Http2Codec::Shared shared_;
  EchoServer server_;
  Head head_;
};

TEST_F(Http2Cost, NoAllocationAndNoCopyPerRequest) {
  Releasing acceptor(server_.echo);
  Http2Codec server(shared_, &acceptor), client(shared_);
  Client receiver;
  Buffer body = sluice::test::buffer_of(pool_, std::string(40'000, 'x'), splits_every(16384, 40'000));
  const auto send_request = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      HttpStream* stream = client.open_stream(receiver);
      stream->send_head(head_, i % 2 == 0);
      if (i % 2 != 0) stream->send_body(body.clone(), true);
      converse(client, server);
    }
  };
  send_request(2000);
  const uint64_t before = allocations;
  const uint64_t copied_before = copied();
  send_request(1000);
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_EQ(copied() - copied_before, 0u);
  EXPECT_EQ(receiver.ended, 3000u);
  EXPECT_EQ(receiver.received, 1500u * 40'000);
  EXPECT_EQ(server.streams(), 0u);
  EXPECT_EQ(counters_.completed, 6000u);
}

TEST_F(Http2Cost, NoAllocationWhenHeadersChange) {  // Each request is added to both tables, and evicts another.
  Releasing acceptor(server_.echo);
  Http2Codec server(shared_, &acceptor), client(shared_);
  Client receiver;
  uint64_t before = 0;
  for (int i = 0; i < 4000; ++i) {
    if (i == 3000) before = allocations;
    char id[16];
    std::snprintf(id, sizeof id, "%015d", i);
    Head head;
    ASSERT_TRUE(head.set(pool_, Head::Part::kMethod, "GET") && head.set(pool_, Head::Part::kScheme, "https") &&
                head.set(pool_, Head::Part::kAuthority, "a.example") && head.set(pool_, Head::Part::kPath, "/") &&
                head.fields.add(pool_, "x-id", id));
    client.open_stream(receiver)->send_head(head, true);
    converse(client, server);
  }
  EXPECT_EQ(allocations - before, 0u);
}

TEST_F(Http2Cost, MemoryOfAWaitingConnection) {
  Releasing acceptor(server_.echo);
  const size_t nothing = pool_.out_bytes();
  Http2Codec server(shared_, &acceptor), client(shared_);
  Client receiver;
  converse(client, server);
  client.open_stream(receiver)->send_head(head_, true);
  converse(client, server);
  const size_t live = pool_.out_bytes() - nothing;
  server.park();
  client.park();
  const size_t parked = pool_.out_bytes() - nothing;
  std::printf("sizeof: connection %zu, stream %zu, header block %zu; two sides with tables %zu, parked %zu\n",
              sizeof(Http2Codec), sizeof(Http2Stream), sizeof(Http2HeaderBlock), live, parked);
  RecordProperty("sizeof_connection", static_cast<int>(sizeof(Http2Codec)));
  EXPECT_LE(sizeof(Http2Codec), 1024u);
  EXPECT_LE(sizeof(Http2Stream), 256u);
  EXPECT_LE(parked, 512u);  // The text of both decoders' tables, and nothing else.
  // Afterwards it continues as before.
  for (int i = 0; i < 3; ++i) {
    client.open_stream(receiver)->send_head(head_, true);
    converse(client, server);
    server.park();
    client.park();
  }
  EXPECT_EQ(receiver.ended, 4u);
  EXPECT_LE(pool_.out_bytes() - nothing, parked);
}

TEST_F(Http2Cost, MemoryOfAFullTable) {
  Releasing acceptor(server_.echo);
  const size_t nothing = pool_.out_bytes();
  Http2Codec server(shared_, &acceptor), client(shared_);
  Client receiver;
  for (int i = 0; i < 300; ++i) {
    Head head = request(pool_, "GET", {{"x-" + std::to_string(i), std::to_string(i)}});
    client.open_stream(receiver)->send_head(head, true);
    converse(client, server);
  }
  const size_t live = pool_.out_bytes() - nothing;
  server.park();
  client.park();
  const size_t parked = pool_.out_bytes() - nothing;
  std::printf("full tables: two sides %zu, parked %zu\n", live, parked);
  EXPECT_LE(parked, 4096u + 256);
}

TEST_F(Http2Cost, WaitingFrameIsCompacted) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  const size_t before = pool_.out_bytes();
  Lease chunk = Lease::allocate(pool_, 16384);
  const std::string half = get(1).substr(0, 30);
  chunk = filled(std::move(chunk), half);
  Buffer piece;
  piece.append(std::move(chunk));
  peer.connection->receive(std::move(piece));
  EXPECT_EQ(pool_.out_bytes() - before, 16384u);
  peer.connection->park();
  EXPECT_EQ(pool_.out_bytes() - before, 64u);
}

TEST_F(Http2Cost, ResponsesAreFewWindows) {
  ScriptedPeer peer(pool_, true);
  peer.greet();
  for (uint32_t i = 0; i < 16; ++i) peer.give(get(2 * i + 1));
  for (auto& exchange : peer.requests.exchanges) {
    exchange->stream->send_head(server_.echo.head, false);
    exchange->stream->send_body(buffer_of("hello"), true);
  }
  Buffer out;
  peer.connection->flush(out);
  // All heads in one window; for each response a DATA frame's header, and its body.
  EXPECT_EQ(out.window_count(), 1u + 2 * 16);
}

}  // namespace
}  // namespace sluice::test::http2
