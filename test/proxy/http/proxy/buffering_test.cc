// Buffered bodies: responses for clients that do not read, requests until they are complete; each version on each side.

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

constexpr uint64_t kMiB = 1 << 20;

class BufferingTest : public test::HttpRigTest {
 protected:
  BufferingTest() : origin(rig.add_origin()) {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
    config.body_timeout = config.stuck_timeout = config.header_timeout = 100h;
    config.max_body = {64 * kMiB};
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
    config.forward.clear();
    route.forward = "origin";
  }
  void start() {
    rig.config().routes = {route};
    rig.start();
    rig.add_desk();
  }
  void start_with_hedges() {
    route.buffer.emplace().requests = {8 * kMiB};
    route.retry.emplace().hedge_after = 1s;
    start();
  }
  // In two pieces.
  PeerStream& put(const std::string& bytes) {
    PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
    stream.send(bytes.substr(0, bytes.size() / 2));
    rig.settle();
    stream.send(bytes.substr(bytes.size() / 2), true);
    return stream;
  }
  bool upstream_is_free() { return rig.upstream_state().endpoint(0).active.load() == 0; }

  HttpOrigin& origin;
  config::HttpRoute route;
  const std::string little = test::stream_bytes(1, 0, 40'000);
};

TEST_P(BufferingTest, UpstreamIsFreeBeforeTheClientHasRead) {
  route.buffer.emplace().responses = {64 * kMiB};
  start();
  const std::string body = test::stream_bytes(1, 0, 12 * kMiB);  // More than sockets hold.
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  PeerStream& request = rig.request_at(origin);
  client.reads = false;
  request.respond(200, {}, false);
  request.send(body);
  request.send_trailers({{"x-sum", "1"}});
  rig.until([&] { return upstream_is_free(); });
  EXPECT_GT(rig.http().body_file.written_bytes.value(), 0u);
  EXPECT_FALSE(stream.ended);
  client.reads = true;
  rig.wait_over(stream);
  EXPECT_TRUE(stream.body == body);
  if (client_http2()) {
    EXPECT_EQ(stream.trailers.value("x-sum"), "1");
  }
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(BufferingTest, ClientDisconnectsDuringAWrite) {
  route.buffer.emplace().responses = {64 * kMiB};
  start();
  HttpPeer& client = rig.connect();
  client.send_request();
  PeerStream& request = rig.request_at(origin);
  client.reads = false;
  request.respond(200, std::string(12 * kMiB, 'x'));
  rig.until([&] { return rig.http().body_file.written_bytes.value() > 0; });
  client.streams[0]->cancel();
  client.socket.close();
  rig.expect_ended(HttpEnd::kClientReset);
}

TEST_P(BufferingTest, RequestIsSentWhenComplete) {
  route.buffer.emplace().requests = {64 * kMiB};
  start();
  const std::string half = test::stream_bytes(1, 0, 2 * kMiB);
  PeerStream& stream = rig.connect().post(half, false);
  rig.until([&] { return rig.http().body_file.written_bytes.value() > kMiB; });
  rig.settle();
  EXPECT_TRUE(origin.requests.empty());
  stream.send(half, true);
  PeerStream& request = rig.request_at(origin);
  rig.wait_over(request);
  EXPECT_TRUE(request.body == half + half);
  EXPECT_EQ(request.field("content-length"), std::to_string(4 * kMiB));
  request.respond(200, "ok");
  rig.expect_response(stream, 200, "ok");
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(BufferingTest, RequestTrailersFollowTheBody) {
  route.buffer.emplace().requests = {64 * kMiB};
  start();
  PeerStream& stream = rig.connect().post("body", false);
  rig.settle();
  EXPECT_TRUE(origin.requests.empty());
  stream.send_trailers({{"x-sum", "1"}});
  PeerStream& request = rig.request_at(origin);
  rig.wait_over(request);
  EXPECT_EQ(request.body, "body");
  EXPECT_EQ(request.trailers.value("x-sum"), "1");
  request.respond(200, "ok");
  rig.expect_response(stream, 200, "ok");
}

TEST_P(BufferingTest, RestBeyondTheBoundIsForwarded) {
  route.buffer.emplace().requests = {256 * 1024};
  start();
  const std::string piece = test::stream_bytes(1, 0, 300 * 1024);
  PeerStream& stream = rig.connect().post(piece, false);
  PeerStream& request = rig.request_at(origin);
  rig.until([&] { return request.body.size() == piece.size(); });
  EXPECT_FALSE(request.ended);
  stream.send(piece, true);
  rig.wait_over(request);
  EXPECT_TRUE(request.body == piece + piece);
  request.respond(200, "ok");
  rig.expect_response(stream, 200, "ok");
}

TEST_P(BufferingTest, ResponseBeforeTheRequestIsRead) {
  route.buffer.emplace().requests = {8 * kMiB};
  start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.post(std::string(6 * kMiB, 'x'));
  PeerStream& request = rig.request_at(origin);
  request.respond(403, {}, true);
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 403);
  rig.until([&] { return rig.sum_of_ends() == 1; });
}

TEST_P(BufferingTest, CollectedRequestIsResentWhole) {
  route.buffer.emplace().requests = {8 * kMiB};
  config::Retry& retry = route.retry.emplace();
  retry.on = {config::RetryOn::k5xx};
  retry.backoff = retry.max_backoff = 0ms;
  start();
  const std::string body = test::stream_bytes(1, 0, 3 * kMiB);
  PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
  stream.send(body, true);
  PeerStream& first = rig.request_at(origin);
  rig.wait_over(first);
  EXPECT_TRUE(first.body == body);
  first.respond(503, "again");
  PeerStream& second = rig.request_at(origin, 1);
  rig.wait_over(second);
  EXPECT_TRUE(second.body == body) << second.body.size();
  second.respond(200, "ok");
  rig.expect_response(stream, 200, "ok");
}

// The second endpoint gets all of it, whichever of the two responds.
TEST_P(BufferingTest, CollectedRequestsAreHedged) {
  HttpOrigin& other = rig.add_origin();
  start_with_hedges();
  PeerStream& stream = put(little);
  PeerStream& first = rig.request_at(origin);
  rig.wait_over(first);
  rig.pass(1100ms);
  PeerStream& second = rig.request_at(other);
  rig.wait_over(second);
  EXPECT_TRUE(first.body == little && second.body == little);
  second.respond(200, "ok");
  rig.expect_response(stream, 200, "ok");
  rig.wait_cancelled(first);
}

// The first endpoint breaks off while there is no connection to the second yet: the body is resent from the buffer.
TEST_P(BufferingTest, WaitingHedgeGetsTheBodyLater) {
  HttpOrigin& other = rig.add_origin();
  other.silent = upstream_http2();  // It would have to send SETTINGS before it gets a request.
  start_with_hedges();
  PeerStream& stream = put(little);
  PeerStream& first = rig.request_at(origin);
  rig.wait_over(first);
  rig.pass(1100ms);
  first.cancel(ResetReason::kInternal);
  rig.settle();
  other.silent = false;
  PeerStream& second = rig.request_at(other);
  rig.wait_over(second);
  EXPECT_TRUE(second.body == little) << second.body.size();
  second.respond(200, "ok");
  rig.expect_response(stream, 200, "ok");
}

TEST_P(BufferingTest, ClientDisconnectsBeforeTheEnd) {
  route.buffer.emplace().requests = {8 * kMiB};
  start();
  HttpPeer& client = rig.connect();
  client.post(std::string(2 * kMiB, 'x'), false);
  rig.until([&] { return rig.http().body_file.written_bytes.value() > 0; });
  client.socket.close();
  rig.expect_ended(HttpEnd::kClientReset);
  EXPECT_TRUE(origin.requests.empty());
}

INSTANTIATE_TEST_SUITE_P(Versions, BufferingTest,
                         testing::Values(test::Versions{false, false}, test::Versions{false, true},
                                         test::Versions{true, false}, test::Versions{true, true}),
                         [](const auto& each) { return test::name_of(each.param); });

}  // namespace
}  // namespace sluice
