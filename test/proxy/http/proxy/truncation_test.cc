// Truncated responses: the data that has arrived reaches the client, and then the response does not look complete.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

constexpr size_t kMiB = size_t{1} << 20;

class TruncationTest : public test::HttpRigTest {
 protected:
  TruncationTest() : origin(rig.add_origin()) {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
    config.body_timeout = config.stuck_timeout = config.header_timeout = 100h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
    config.forward.clear();
    route.forward = "origin";
  }
  void start() {
    rig.config().routes = {route};
    rig.start();
    rig.add_desk();
  }
  void expect_truncated(PeerStream& stream, const std::string& body) {
    rig.wait_over(stream);
    EXPECT_TRUE(stream.reset) << "it looks whole";
    EXPECT_EQ(stream.head.status, 200);
    EXPECT_EQ(stream.body.size(), body.size());
    EXPECT_TRUE(stream.body == body);
    if (stream.codec_stream) stream.release();
    rig.expect_ended(HttpEnd::kUpstreamReset);
  }

  HttpOrigin& origin;
  config::HttpRoute route;
};

// Defect: data that the proxy held was dropped: of 1,000,000 bytes 262,161 arrived, and fewer at a slow client.
TEST_P(TruncationTest, SlowClientsGetAllThatArrived) {
  for (const bool slow : {false, true}) {
    test::HttpRig each(GetParam());
    HttpOrigin& from = each.add_origin();
    config::Http& config = each.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
    config.stuck_timeout = 100h;
    each.start();
    HttpPeer& client = each.connect();
    PeerStream& stream = client.send_request();
    PeerStream& request = each.request_at(from);
    client.reads = !slow;
    const std::string body = test::stream_bytes(1, 0, kMiB);
    request.respond(200, {{"content-length", "1048677"}}, false);
    request.send(body);
    each.settle(50);
    client.reads = true;
    each.until([&] { return request.codec_stream->queued() == 0 && !request.connection->has_unsent(); });
    client.reads = !slow;
    request.connection->close();
    each.settle(20);
    client.reads = true;
    each.wait_over(stream);
    EXPECT_TRUE(stream.reset) << "it looks whole";
    EXPECT_TRUE(stream.body == body) << stream.body.size();
    if (stream.codec_stream) stream.release();
    each.expect_ended(HttpEnd::kUpstreamReset);
  }
}

// Defect: of a small response sometimes not even the status arrived.
TEST_P(TruncationTest, SmallResponses) {
  start();
  const std::string body = "a part of it";
  PeerStream& stream = rig.connect().send_request();
  PeerStream& request = rig.request_at(origin);
  request.respond(200, {{"content-length", "100"}}, false);
  request.send(body);
  request.connection->turn();  // In one piece with the end.
  request.connection->close();
  expect_truncated(stream, body);
}

// The end of the connection is the only framing: a reset after the data.
TEST(Truncation, OldClients) {
  test::HttpRig rig({.client_http2 = false, .upstream_http2 = false});
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  test::Peer client = rig.connect_raw();
  client.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
  PeerStream& request = rig.request_at(origin);
  const std::string body = test::stream_bytes(1, 0, 100'000);
  request.respond(200, {}, false);
  request.send(body);
  rig.settle(20);
  request.connection->close();
  rig.settle(20);
  rig.until([&] {
    client.read(size_t{1} << 20);
    rig.pass(20ms);
    return client.ended || client.error != 0;
  });
  EXPECT_NE(client.error, 0) << "it looks whole";
  EXPECT_TRUE(client.received.ends_with(body)) << client.received.size();
}

// Defect: a send of the request that met a reset dropped the response that had arrived before it.
TEST(Truncation, ResponseBeforeAFailedSend) {
  test::HttpRig rig({.client_http2 = false, .upstream_http2 = false});
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  PeerStream& stream = rig.connect().post("part", /*end=*/false);
  PeerStream& request = rig.request_at(origin);
  rig.until([&] { return request.body == "part"; });
  rig.loop().ring().inject(Op::kSend, -ECONNRESET);
  stream.send("more");
  rig.settle(1);  // The send is submitted in the next turn, together with the receive of the response.
  request.respond(200, "early");
  rig.settle(4);
  EXPECT_EQ(stream.head.status, 200);
  EXPECT_EQ(stream.body, "early");
  EXPECT_EQ(request.body, "part") << "the send was not the one that failed";
}

// Buffered bodies, in memory and in the file, are sent before the cut.
TEST_P(TruncationTest, BufferedBodies) {
  route.buffer.emplace().responses = {64 * kMiB};
  start();
  const std::string body = test::stream_bytes(1, 0, 12 * kMiB);
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  PeerStream& request = rig.request_at(origin);
  client.reads = false;
  request.respond(200, {}, false);
  request.send(body);
  rig.until([&] { return request.codec_stream->queued() == 0 && !request.connection->has_unsent(); });
  rig.settle(50);
  request.connection->close();
  rig.until([&] { return rig.upstream_state().endpoint(0).active.load() == 0; });
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  client.reads = true;
  expect_truncated(stream, body);
}

// A client that takes nothing of the rest has only send_timeout.
TEST_P(TruncationTest, AsLongAsTheClientReads) {
  rig.config().send_timeout = 10s;
  start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  PeerStream& request = rig.request_at(origin);
  if (client_http2()) stream.codec_stream->set_reading(false);
  request.respond(200, {}, false);
  request.send(test::stream_bytes(1, 0, 200'000));
  rig.settle(50);
  if (!client_http2()) client.reads = false;
  request.connection->close();
  rig.settle(50);
  for (int i = 0; i < 10 && rig.sum_of_ends() == 0; ++i) rig.pass(5s);
  if (client_http2()) {
    rig.expect_ended(HttpEnd::kSendTimeout);
  } else {
    rig.expect_ended(HttpEnd::kUpstreamReset);  // The connection has the rest.
  }
}

SLUICE_EACH_VERSION(TruncationTest);

}  // namespace
}  // namespace sluice
