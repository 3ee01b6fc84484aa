// Copies of requests for another upstream (`mirror`): which are made, what they contain, when they are abandoned, and
// that neither clients nor the responding upstream are affected. At the end of each test the rig checks that nothing is
// left of them.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "proxy/http/proxy/exchange.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

class HttpMirrorTest : public test::HttpRigTest {
 protected:
  HttpMirrorTest() {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
    config.body_timeout = config.stuck_timeout = config.header_timeout = 100h;
    config.forward.clear();
    route.forward = "origin";
    route.mirror = {{.to = "trial"}};
    rig.upstream().response_timeout = copies().response_timeout = 100h;
  }

  config::Upstream& copies() { return added; }
  void expect_copies(uint64_t made, uint64_t given_up) {
    UpstreamHttpCounters& counters = rig.upstream_counters(1);
    rig.until([&] { return counters.mirrored.value() >= made && counters.mirrors_given_up.value() >= given_up; });
    rig.settle();
    EXPECT_EQ(counters.mirrored.value(), made);
    EXPECT_EQ(counters.mirrors_given_up.value(), given_up);
  }
  /// The client's request gets its response from its own upstream.
  void expect_served(PeerStream& stream, size_t n = 0) {
    PeerStream& got = rig.request_at(origin, n);
    rig.wait_over(got);
    got.respond(200, "served");
    rig.expect_response(stream, 200, "served");
  }

  // One more upstream, with the same version.
  config::Upstream& added =
      rig.upstreams.emplace_back(config::Upstream{.name = "trial", .protocol = rig.upstreams.front().protocol});
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& trial = rig.add_origin_of(1);
  config::HttpRoute& route = rig.config().routes.emplace_back();
};

TEST_P(HttpMirrorTest, CopiesAreComplete) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/a?b", {{"x-own", "1"}, {"trailer", "x-sum"}}, false);
  PeerStream& copy = rig.request_at(trial);
  stream.send("one ");
  rig.until([&] { return copy.body == "one "; });  // As it arrives.
  stream.send("two");
  stream.send_trailers({{"x-sum", "7"}});
  rig.wait_over(copy);
  EXPECT_EQ(copy.head.method(), "POST");
  EXPECT_EQ(copy.head.path(), "/a?b");
  EXPECT_EQ(copy.head.authority(), "a.test");
  EXPECT_EQ(copy.field("x-own"), "1");
  EXPECT_EQ(copy.body, "one two");
  EXPECT_EQ(copy.trailers.value("x-sum"), "7");
  expect_served(stream);
  copy.respond(200, "nobody sees it");
  expect_copies(1, 0);
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpMirrorTest, ResponsesToCopiesAreDropped) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  PeerStream& copy = rig.request_at(trial);
  copy.respond(500, std::string(2'000'000, 'n'));
  rig.until([&] { return copy.codec_stream == nullptr; });  // All of it was read.
  EXPECT_FALSE(stream.has_head);
  EXPECT_FALSE(copy.reset);
  expect_served(stream);
  expect_copies(1, 0);
}

TEST_P(HttpMirrorTest, Percent) {
  route.mirror[0].percent = 30;
  rig.start();
  HttpPeer& client = rig.connect();
  constexpr size_t kRequests = 200;
  for (size_t i = 0; i < kRequests; ++i) {
    expect_served(client.send_request(), i);
    for (PeerStream* copy : trial.requests) {
      if (copy->codec_stream && copy->ended && !copy->sent_end) copy->respond(200, "");
    }
  }
  const uint64_t made = rig.upstream_counters(1).mirrored.value();
  EXPECT_GE(made, 25u);  // 60 of 200, and less than six standard deviations off.
  EXPECT_LE(made, 95u);
}

TEST_P(HttpMirrorTest, ZeroPercent) {
  route.mirror[0].percent = 0;
  rig.start();
  HttpPeer& client = rig.connect();
  for (size_t i = 0; i < 20; ++i) expect_served(client.send_request(), i);
  expect_copies(0, 0);
}

// One of the copies is abandoned, or complete, before the other.
TEST_P(HttpMirrorTest, SeveralCopies) {
  rig.upstreams.push_back({.name = "second", .protocol = rig.upstreams.front().protocol});
  rig.upstreams.back().response_timeout = 100h;
  HttpOrigin& second = rig.add_origin_of(2);
  route.mirror = {{.to = "trial"}, {.to = "second"}, {.to = "trial"}};
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, false);
  stream.send("first ", false);
  PeerStream& third = rig.request_at(trial);
  PeerStream& cut = rig.request_at(second);
  PeerStream& first = rig.request_at(trial, 1);
  cut.cancel();
  if (!upstream_http2()) second.connections[0]->break_off();
  rig.until([&] { return rig.upstream_counters(2).mirrors_given_up.value() == 1; });
  stream.send("second", true);
  for (PeerStream* const copy : {&first, &third}) {
    rig.wait_over(*copy);
    EXPECT_EQ(copy->body, "first second");
    copy->respond(200, "");
  }
  expect_served(stream);
  expect_copies(2, 0);
  EXPECT_EQ(rig.upstream_counters(2).mirrored.value(), 1u);
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpMirrorTest, TunnelsAreNotCopied) {
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  if (upstream_http2()) {
    rig.until([&] { return !origin.connections.empty() && origin.connections[0]->greeted(); });
  }
  rig.until([&] { return !origin.requests.empty() || stream.over() || stream.has_head; });
  expect_copies(0, 0);
  EXPECT_TRUE(trial.connections.empty());
}

// After 256 KiB are waiting, the copy is abandoned, and the client is not slowed down.
TEST_P(HttpMirrorTest, SlowMirrorLosesTheCopy) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, false);
  rig.request_at(trial);
  trial.silent = true;
  uint64_t sent = 0;
  // The memory of sockets is not the proxy's to bound.
  for (; rig.upstream_counters(1).mirrors_given_up.value() == 0 && sent < 64'000'000; sent += 100'000) {
    stream.send(std::string(100'000, 'b'));
    rig.until([&] { return origin.requests.size() == 1 && origin.requests[0]->body.size() == sent + 100'000; });
  }
  stream.send("", true);
  expect_served(stream);
  EXPECT_EQ(origin.requests[0]->body.size(), sent);
  trial.silent = false;
  expect_copies(1, 1);
}

// Their upstream is full; the other one is not delayed.
TEST_P(HttpMirrorTest, CopiesWithoutAConnection) {
  copies().max_connections_per_endpoint = 1;
  copies().pool.max_streams = 1;
  rig.start();
  PeerStream& first = rig.connect().send_request();
  rig.request_at(trial);  // It gets no response.
  expect_served(first);
  PeerStream& second = rig.connect().send_request("POST", "/", {}, false);
  rig.request_at(origin, 1);
  const std::string body(300'000, 'b');
  second.send(body, true);
  expect_served(second, 1);
  EXPECT_EQ(origin.requests[1]->body, body);
  expect_copies(2, 1);
  EXPECT_EQ(trial.requests.size(), 1u);
}

// A body that arrives with the head has to wait until there is a connection.
TEST_P(HttpMirrorTest, BodiesThatArriveWithTheHead) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {{"trailer", "x-sum"}}, false);
  stream.send("body");
  stream.send_trailers({{"x-sum", "7"}});
  expect_served(stream);
  PeerStream& copy = rig.request_at(trial);
  rig.wait_over(copy);
  EXPECT_EQ(copy.body, "body");
  EXPECT_EQ(copy.trailers.value("x-sum"), "7");
  copy.respond(200, "");
  expect_copies(1, 0);
}

TEST_P(HttpMirrorTest, CopiesHaveTheTimeoutOfTheirUpstream) {
  copies().response_timeout = 2s;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& copy = rig.request_at(trial);
  rig.pass(1s);
  EXPECT_FALSE(copy.reset || copy.connection->gone());
  rig.pass(2s);
  rig.wait_cancelled(copy);
  expect_copies(1, 1);
  expect_served(stream);
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpMirrorTest, DisconnectCutsTheCopyOfAnIncompleteRequest) {
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request("POST", "/", {}, false).send("a part");
  PeerStream& copy = rig.request_at(trial);
  rig.until([&] { return copy.body == "a part"; });
  client.break_off();
  rig.wait_cancelled(copy);
  EXPECT_FALSE(copy.ended);
  rig.expect_ended(HttpEnd::kClientReset);
  expect_copies(1, 1);
}

TEST_P(HttpMirrorTest, CompleteCopiesContinueWithoutTheClient) {
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request();
  PeerStream& copy = rig.request_at(trial);
  rig.request_at(origin);
  client.break_off();
  rig.expect_ended(HttpEnd::kClientReset);
  EXPECT_FALSE(copy.reset || copy.connection->gone());
  copy.respond(200, "in time");
  rig.until([&] { return copy.codec_stream == nullptr; });
  EXPECT_FALSE(copy.reset);
  expect_copies(1, 0);
}

// The copy is sent as the body arrives; the other upstream gets the request when it is complete.
TEST_P(HttpMirrorTest, WithBuffer) {
  route.buffer.emplace().requests.bytes = size_t{8} << 20;
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, false);
  PeerStream& copy = rig.request_at(trial);
  std::string body;
  for (int i = 0; i < 20; ++i) {
    const std::string piece(100'000, static_cast<char>('a' + i));
    stream.send(piece);
    body += piece;
    rig.until([&] { return copy.body.size() == body.size(); });
  }
  EXPECT_TRUE(origin.requests.empty());
  stream.send("", true);
  expect_served(stream);
  rig.wait_over(copy);
  EXPECT_TRUE(origin.requests[0]->body == body && copy.body == body);
  copy.respond(200, "");
  expect_copies(1, 0);
}

// A retry for the client is not a second request.
TEST_P(HttpMirrorTest, RetriesAreNotCopied) {
  config::Retry& policy = route.retry.emplace();
  policy.on = {config::RetryOn::k5xx};
  policy.backoff = policy.max_backoff = 0ms;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.request_at(origin).respond(503, "busy");
  expect_served(stream, 1);
  rig.request_at(trial).respond(200, "");
  expect_copies(1, 0);
  EXPECT_EQ(trial.requests.size(), 1u);
}

// Defect: a copy whose connection or stream was reset was counted as delivered.
TEST_P(HttpMirrorTest, BrokenCopiesAreCounted) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.request_at(trial).cancel();
  if (!upstream_http2()) trial.connections[0]->break_off();
  expect_copies(1, 1);
  expect_served(stream);
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpMirrorTest, RefusingUpstreamLosesItsCopies) {
  trial.stop();
  rig.start();
  expect_served(rig.connect().send_request());
  expect_copies(1, 1);
  rig.expect_ended(HttpEnd::kOk);
}

SLUICE_EACH_VERSION(HttpMirrorTest);

}  // namespace
}  // namespace sluice
