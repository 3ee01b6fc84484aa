// The connections that requests share: which one a request gets, when it is retried, and how many connections there may
// be.

#include "proxy/http/proxy/http_upstream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "test/proxy/http/h2/rig.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::ClosedPort;
using test::HttpOrigin;
using test::HttpPeer;
using test::HttpRig;
using test::PeerStream;

class HttpUpstreamTest : public test::HttpRigTest {
 protected:
  HttpUpstreamTest() {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = config.body_timeout = 100h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
  }
  // A request by a client of its own, and its response.
  void serve(HttpOrigin& origin) {
    PeerStream& stream = rig.connect().send_request();
    rig.request_at(origin, origin.requests.size()).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  }
  PeerStream& next_request(HttpOrigin& origin) { return rig.request_at(origin, origin.requests.size()); }
  // The origin's connections that the proxy has not closed.
  static size_t open(const HttpOrigin& origin) {
    size_t count = 0;
    for (auto& connection : origin.connections) count += connection->gone() ? 0 : 1;
    return count;
  }
  // Waits until all requests have arrived at the origin.
  void expect_requests(HttpOrigin& origin, size_t count) {
    rig.until([&] { return origin.requests.size() == count; });
    rig.settle();
    EXPECT_EQ(origin.requests.size(), count);
  }
  uint64_t opened() { return rig.upstream_counters().connections_opened.value(); }
};

// ---- Shared connections ----

TEST_P(HttpUpstreamTest, ConnectionIsReused) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  for (int i = 0; i < 5; ++i) serve(origin);
  EXPECT_EQ(opened(), 1u);
  EXPECT_EQ(rig.upstream_counters().connections_reused.value(), 4u);
  EXPECT_EQ(rig.endpoint().connected.value(), 1u);
  EXPECT_EQ(open(origin), 1u);
}

// Many requests at once: HTTP/1.1 opens a connection for each, of which max_idle stay; HTTP/2 opens one for all.
// Defect: those beyond max_idle were closed at once, so that with 4,000 clients three of four requests opened a
// connection.
TEST_P(HttpUpstreamTest, ManyAtOnceAndMaxIdle) {
  rig.upstream().pool.max_idle = 2;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  constexpr size_t kCount = 6;
  std::vector<PeerStream*> streams;
  for (size_t i = 0; i < kCount; ++i) streams.push_back(&rig.connect().send_request());
  expect_requests(origin, kCount);
  EXPECT_EQ(opened(), upstream_http2() ? 1u : kCount);
  for (PeerStream* const request : origin.requests) request->respond(200, "fine");
  for (PeerStream* const stream : streams) rig.expect_response(*stream, 200, "fine");
  rig.settle();
  EXPECT_EQ(open(origin), upstream_http2() ? 1u : kCount);
  rig.pass(2s);
  rig.until([&] { return open(origin) <= 2; });
  rig.settle();
  EXPECT_EQ(open(origin), upstream_http2() ? 1u : 2u);
  const uint64_t before = opened();
  serve(origin);
  EXPECT_EQ(opened(), before);
}

TEST_P(HttpUpstreamTest, MaxRequests) {
  rig.upstream().pool.max_requests = 2;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  for (int i = 0; i < 5; ++i) serve(origin);
  EXPECT_EQ(opened(), 3u);
  rig.until([&] { return open(origin) == 1; });
  for (auto& connection : origin.connections) EXPECT_FALSE(connection->was_reset());
}

TEST_P(HttpUpstreamTest, PoolIdleTimeout) {
  rig.upstream().pool.idle_timeout = 100s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  for (int i = 0; i < 3; ++i) {
    serve(origin);
    rig.pass(60s);
  }
  EXPECT_EQ(open(origin), 1u);
  EXPECT_EQ(opened(), 1u);
  rig.pass(60s);
  rig.until([&] { return open(origin) == 0; });
  EXPECT_FALSE(origin.connections[0]->was_reset());
  serve(origin);
  EXPECT_EQ(opened(), 2u);
}

// Defect: a pool was idle as soon as its last connection had closed, before that was destroyed. A reload that destroyed
// the pool in this turn left a connection that used the freed pool.
TEST_P(HttpUpstreamTest, PoolIsIdleOnceItsConnectionIsDestroyed) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  serve(origin);
  struct Turn {
    HttpRig* rig;
    bool idle_before = false;  // Before the turn's deferred calls.
    bool idle = false;
  } turn{&rig};
  ASSERT_FALSE(rig.http_worker().idle());
  origin.connections[0]->close();
  rig.loop().until([&] {
    if (turn.idle) return true;
    const auto look = [](void* context) {
      auto* const t = static_cast<Turn*>(context);
      t->idle_before = t->rig->http_worker().idle();
      const auto look_again = [](void* c) {
        auto* const later = static_cast<Turn*>(c);
        later->idle = later->rig->http_worker().idle();
      };
      t->rig->loop()->defer(look_again, t);
    };
    rig.loop()->defer(look, &turn);
    return false;
  });
  EXPECT_FALSE(turn.idle_before);
}

// Defect: each frame from an endpoint of HTTP/2 restarted pool.idle_timeout, so that an endpoint that sends a PING now
// and then kept unused connections forever.
TEST(HttpUpstreamStreams, PingsDoNotDelayThePoolIdleTimeout) {
  for (const auto step : {500ms, 3000ms}) {
    HttpRig rig({.client_http2 = false, .upstream_http2 = true});
    rig.config().idle_timeout = rig.config().stream_idle_timeout = 100h;
    rig.upstream().pool.idle_timeout = 10s;
    HttpOrigin& origin = rig.add_origin();
    rig.start();
    PeerStream& stream = rig.connect().send_request();
    rig.request_at(origin).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
    HttpPeer& connection = *origin.connections[0];
    auto passed = 0ms;
    while (!connection.gone() && passed < 15s) {
      rig.pass(step);
      passed += step;
      connection.socket.send_some(test::http2::ping());
    }
    EXPECT_TRUE(connection.gone());
    EXPECT_GE(passed, 10s);
  }
}

// Streams beyond our limit or the endpoint's on a connection of HTTP/2 use another one.
TEST(HttpUpstreamStreams, MaxStreams) {
  for (const bool ours : {true, false}) {
    HttpRig rig({.client_http2 = false, .upstream_http2 = true});
    rig.upstream().pool.max_streams = ours ? 2 : 100;
    HttpOrigin& origin = rig.add_origin();
    origin.options.streams = ours ? 100 : 2;
    rig.start();
    std::vector<PeerStream*> streams;
    for (int i = 0; i < 5; ++i) streams.push_back(&rig.connect().send_request());
    rig.until([&] { return origin.requests.size() == 5; });
    EXPECT_EQ(rig.upstream_counters().connections_opened.value(), 3u);
    for (auto& connection : origin.connections) EXPECT_LE(connection->streams.size(), 2u);
    for (PeerStream* const request : origin.requests) request->respond(200, "fine");
    for (PeerStream* const stream : streams) rig.expect_response(*stream, 200, "fine");
    rig.expect_ended(HttpEnd::kOk, 5);
  }
}

// Defect: each of them opened a connection, which is most of what a small request costs (CVE-2023-44487), or ended an
// idle one.
TEST(HttpUpstreamStreams, RequestsThatAreResetAtOnceReachNoEndpoint) {
  for (const bool upstream_http2 : {false, true}) {
    HttpRig rig({.client_http2 = true, .upstream_http2 = upstream_http2});
    HttpOrigin& origin = rig.add_origin();
    rig.start();
    HttpPeer& client = rig.connect();
    rig.until([&] { return client.greeted(); });
    const auto reset_some = [&] {
      for (int i = 0; i < 10; ++i) client.send_request().cancel();
    };
    reset_some();
    rig.settle();
    EXPECT_EQ(rig.upstream_counters().connections_opened.value(), 0u);
    if (upstream_http2) continue;  // Requests on an open connection are sent, with their resets.
    for (size_t i = 0; i < 3; ++i) {
      reset_some();
      PeerStream& stream = client.send_request();
      reset_some();
      rig.request_at(origin, origin.requests.size()).respond(200, "fine");
      rig.expect_response(stream, 200, "fine");
    }
    EXPECT_EQ(rig.upstream_counters().connections_opened.value(), 1u);
    EXPECT_EQ(origin.requests.size(), 3u);
  }
}

// So many that they are opened in several turns.
TEST(HttpUpstreamStreams, AHundredConnectionsAreOpened) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  std::vector<PeerStream*> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(&client.send_request());
  rig.until([&] { return origin.requests.size() == 100; });
  EXPECT_EQ(rig.upstream_counters().connections_opened.value(), 100u);
  for (PeerStream* const request : origin.requests) request->respond(200, "fine");
  for (PeerStream* const stream : streams) rig.expect_response(*stream, 200, "fine");
}

// A draining endpoint gets no new requests, and those that it has are finished.
TEST_P(HttpUpstreamTest, EndpointDrains) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  serve(origin);
  PeerStream& stream = rig.connect().send_request();
  PeerStream& request = next_request(origin);
  origin.connections[0]->codec->drain();
  origin.connections[0]->codec->drain();
  rig.settle();
  serve(origin);
  EXPECT_EQ(opened(), 2u);
  request.respond(200, "the last one");
  rig.expect_response(stream, 200, "the last one");
  rig.until([&] { return origin.connections[0]->gone(); });
  EXPECT_FALSE(origin.connections[0]->was_reset());
  rig.expect_ended(HttpEnd::kOk, 3);
  EXPECT_EQ(rig.http().retries.value(), 0u);
}

// ---- Limits ----

TEST_P(HttpUpstreamTest, MaxConnectionsPerEndpoint) {
  rig.upstream().max_connections_per_endpoint = 2;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  std::vector<PeerStream*> streams;
  for (int i = 0; i < 2; ++i) streams.push_back(&rig.connect().send_request());
  expect_requests(origin, 2);
  rig.expect_response(rig.connect().send_request(), 503, "no endpoint can be reached\n");
  for (size_t i = 0; i < 2; ++i) origin.requests[i]->respond(200, "fine");
  for (PeerStream* const stream : streams) rig.expect_response(*stream, 200, "fine");
  rig.expect_ended(HttpEnd::kNoEndpoint);
  serve(origin);
}

/// An endpoint to which no connection succeeds: its accept queue is full, and stays so.
class FullPort {
 public:
  FullPort() : fd_(test::tcp_listen(0)) {
    for (int& filler : fillers_) {
      filler = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      const sockaddr_in address = test::loopback(port());
      connect(filler, test::generic(address), sizeof address);
    }
  }
  ~FullPort() {
    for (const int filler : fillers_) close(filler);
    close(fd_);
  }
  FullPort(const FullPort&) = delete;
  FullPort& operator=(const FullPort&) = delete;
  uint16_t port() const { return test::port_of(fd_); }

 private:
  int fd_;
  int fillers_[4];
};

TEST_P(HttpUpstreamTest, MaxPending) {
  rig.upstream().pool.max_pending = 2;
  rig.upstream().connect_timeout = 100s;
  const FullPort full;
  rig.add_endpoint(full.port());
  rig.start();
  std::vector<PeerStream*> streams;
  for (int i = 0; i < 2; ++i) streams.push_back(&rig.connect().send_request());
  rig.until([&] { return rig.http().requests.value() == 2; });
  rig.expect_response(rig.connect().send_request(), 503, "too many requests wait for a connection\n");
  EXPECT_EQ(rig.upstream_counters().pending_refused.value(), 1u);
  rig.until([&] { return rig.ended(HttpEnd::kTooManyPending) == 1; });
  // Waiting requests fail when it does not connect.
  rig.pass(60s);
  EXPECT_FALSE(streams[0]->over());
  rig.pass(60s);
  for (PeerStream* const stream : streams) rig.expect_response(*stream, 503, "no endpoint can be reached\n");
  rig.until([&] { return rig.ended(HttpEnd::kNoEndpoint) == 2; });
  EXPECT_GT(rig.connect_errors(ConnectError::kTimeout), 0u);
}

// ---- Retries ----

TEST_P(HttpUpstreamTest, NextEndpointWhenOneRefuses) {
  rig.upstream().fail_timeout = 100s;
  const ClosedPort closed;
  rig.add_endpoint(closed.port());
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  // A body that has arrived meanwhile is sent with it.
  PeerStream& stream = rig.connect().post("all of it");
  PeerStream& request = next_request(origin);
  rig.wait_over(request);
  EXPECT_EQ(request.body, "all of it");
  request.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
  EXPECT_EQ(rig.http().retries.value(), 1u);
  EXPECT_EQ(rig.connect_errors(ConnectError::kRefused), 1u);
  for (int i = 0; i < 4; ++i) serve(origin);  // It is passed over now,
  EXPECT_EQ(rig.connect_errors(ConnectError::kRefused), 1u);
  rig.pass(120s);
  for (int i = 0; i < 2; ++i) serve(origin);  // and tried again later.
  EXPECT_EQ(rig.connect_errors(ConnectError::kRefused), 2u);
  rig.expect_ended(HttpEnd::kOk, 7);
}

TEST_P(HttpUpstreamTest, AttemptsAreUsedUp) {
  rig.upstream().connect_attempts = 3;
  rig.upstream().max_fails = 0;
  const ClosedPort closed[4];
  for (const ClosedPort& port : closed) rig.add_endpoint(port.port());
  rig.start();
  rig.expect_response(rig.connect().send_request(), 503, "no endpoint can be reached\n");
  rig.expect_ended(HttpEnd::kNoEndpoint);
  uint64_t errors = 0;
  for (size_t i = 0; i < 4; ++i) errors += rig.connect_errors(ConnectError::kRefused, i);
  EXPECT_EQ(errors, 3u);
}

// An endpoint may close an idle connection just when a request is in flight: the request is retried on a new
// connection, if it may be.
TEST_P(HttpUpstreamTest, ConnectionIsLostBeforeTheResponse) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  serve(origin);
  PeerStream& stream = rig.connect().send_request("GET", "/again");
  next_request(origin).connection->break_off();
  PeerStream& again = next_request(origin);
  EXPECT_EQ(again.head.path(), "/again");
  again.respond(200, "again");
  rig.expect_response(stream, 200, "again");
  EXPECT_EQ(rig.http().retries.value(), 1u);
  EXPECT_EQ(opened(), 2u);
  // A second loss is not a coincidence: the new connection was not used before.
  PeerStream& hopeless = rig.connect().send_request("GET", "/hopeless");
  next_request(origin).connection->break_off();
  next_request(origin).connection->break_off();
  rig.expect_response(hopeless, 502, "the upstream failed before it responded\n");
  EXPECT_EQ(rig.http().retries.value(), 2u);
  rig.expect_ended(HttpEnd::kUpstreamReset);
}

// A request that must not be retried first checks whether the connection is still open: an end may have arrived for
// which there was no completion yet.
TEST_P(HttpUpstreamTest, EndedConnectionsAreDetectedBeforeAPost) {
  if (upstream_http2()) return;  // There, GOAWAY says what was processed.
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request();
  next_request(origin).respond(200, "fine");
  rig.expect_response(first, 200, "fine");
  rig.settle();
  // The end arrives after the client's request in the same batch, and so is unknown when the request is to be sent.
  PeerStream& stream = client.send_request("POST");
  client.turn();
  origin.connections[0]->close();
  PeerStream& request = next_request(origin);
  request.respond(200, "done");
  rig.expect_response(stream, 200, "done");
  EXPECT_EQ(rig.http().retries.value(), 0u);
  EXPECT_LE(rig.upstream_counters().connections_stale.value(), 1u);
  EXPECT_EQ(opened(), 2u);
}

// Defect: a connection was given to the next request while the rest of a request that got an early response was still
// to be sent on it.
TEST_P(HttpUpstreamTest, ConnectionsWithUnsentBytesAreNotReused) {
  if (upstream_http2()) return;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request("POST", "/", {}, /*end=*/false);
  PeerStream& request = next_request(origin);
  origin.connections[0]->reads = false;
  // Until the socket takes no more, and then the end: the proxy has all of it.
  for (bool moves = true; moves;) {
    const uint64_t before = rig.endpoint().bytes_out.value();
    stream.send(std::string(32 * 1024, 'x'));
    rig.until([&] { return !client.has_unsent(); });
    rig.settle(4);
    moves = rig.endpoint().bytes_out.value() != before;
  }
  stream.send("", /*end=*/true);
  rig.settle(10);
  // A response of a server that reads no more, while the proxy still has a part of the request.
  origin.connections[0]->socket.send_some("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  rig.until([&] { return stream.has_head; });
  EXPECT_FALSE(request.ended);
  rig.settle(20);
  PeerStream& other = rig.connect().send_request("GET", "/other");
  PeerStream& forwarded = next_request(origin);
  EXPECT_EQ(forwarded.head.path(), "/other");
  EXPECT_NE(forwarded.connection, request.connection);
  forwarded.respond(200, "fine");
  rig.expect_response(other, 200, "fine");
}

// A request is not retried if the endpoint may have processed it, or if the proxy no longer has it.
TEST_P(HttpUpstreamTest, RequestsThatAreNotRetried) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  PeerStream& first = rig.connect().send_request("GET", "/fresh");  // On a connection that was never idle.
  next_request(origin).connection->break_off();
  rig.expect_response(first, 502, "the upstream failed before it responded\n");
  serve(origin);
  PeerStream& post = rig.connect().send_request("POST");  // It must not be done twice.
  next_request(origin).connection->break_off();
  rig.expect_response(post, 502, "the upstream failed before it responded\n");
  serve(origin);
  PeerStream& put = rig.connect().send_request("PUT", "/", {{"content-length", "4"}}, /*end=*/false);
  put.send("body", /*end=*/true);
  PeerStream& request = next_request(origin);
  rig.wait_over(request);
  request.connection->break_off();
  rig.expect_response(put, 502, "the upstream failed before it responded\n");
  serve(origin);
  PeerStream& begun = rig.connect().send_request();
  PeerStream& responding = next_request(origin);
  responding.respond(200, {}, false);
  rig.until([&] { return begun.has_head; });
  responding.connection->break_off();
  rig.until([&] { return begun.reset; });
  rig.expect_ended(HttpEnd::kUpstreamReset, 4);
  EXPECT_EQ(rig.http().retries.value(), 0u);
}

// REFUSED_STREAM says that the endpoint has not processed the request: any request may be retried of which no body was
// sent, as often as there are attempts.
TEST(HttpUpstreamStreams, RefusedStreams) {
  for (const bool client_http2 : {false, true}) {
    HttpRig rig({.client_http2 = client_http2, .upstream_http2 = true});
    rig.upstream().connect_attempts = 3;
    HttpOrigin& origin = rig.add_origin();
    rig.start();
    PeerStream& stream = rig.connect().send_request("POST");
    for (size_t i = 0; i < 2; ++i) rig.request_at(origin, i).cancel(ResetReason::kRefused);
    rig.request_at(origin, 2).respond(200, "at last");
    rig.expect_response(stream, 200, "at last");
    EXPECT_EQ(rig.http().retries.value(), 2u);

    PeerStream& hopeless = rig.connect().send_request();
    for (size_t i = 3; i < 6; ++i) rig.request_at(origin, i).cancel(ResetReason::kRefused);
    rig.expect_response(hopeless, 502, "the upstream failed before it responded\n");
    EXPECT_EQ(rig.http().retries.value(), 4u);

    PeerStream& passed = rig.connect().post("body", /*end=*/false);
    PeerStream& request = rig.request_at(origin, 6);
    rig.until([&] { return request.body == "body"; });
    request.cancel(ResetReason::kRefused);
    rig.until([&] { return passed.ended; });
    EXPECT_EQ(passed.head.status, 502);
    if (passed.codec_stream) passed.release();
    EXPECT_EQ(rig.http().retries.value(), 4u);
    rig.expect_ended(HttpEnd::kUpstreamReset, 2);
  }
}

// An endpoint of HTTP/2 is connected when its SETTINGS have arrived; one that never sends them is not.
TEST_P(HttpUpstreamTest, ConnectTimeout) {
  rig.upstream().connect_timeout = 100s;
  HttpOrigin& origin = rig.add_origin();
  origin.silent = true;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.until([&] { return rig.http().requests.value() == 1; });
  rig.pass(60s);
  EXPECT_FALSE(stream.over());
  rig.pass(60s);
  if (upstream_http2()) {
    rig.expect_response(stream, 503, "no endpoint can be reached\n");
    rig.expect_ended(HttpEnd::kNoEndpoint);
    EXPECT_EQ(rig.connect_errors(ConnectError::kTimeout), 1u);
  } else {  // It was connected: the timeout of a response is another.
    EXPECT_FALSE(stream.over());
    EXPECT_EQ(rig.endpoint().connected.value(), 1u);
  }
}

// The connect timeout begins with each attempt. The timeout of the response does not begin before there is a stream.
TEST(HttpUpstreamStreams, ConnectTimeoutBeginsWithTheAttempt) {
  HttpRig rig({.client_http2 = false, .upstream_http2 = true});
  rig.config().idle_timeout = rig.config().stream_idle_timeout = 100h;
  rig.upstream().connect_timeout = 100s;
  rig.upstream().response_timeout = 50s;
  for (int i = 0; i < 2; ++i) rig.add_origin().silent = true;
  rig.start();
  HttpPeer& client = rig.connect();
  rig.pass(110s);
  PeerStream& stream = client.send_request();
  rig.until([&] { return rig.http().requests.value() == 1; });
  for (uint64_t failed = 0; failed < 2; ++failed) {
    rig.pass(90s);
    EXPECT_EQ(rig.connect_errors(ConnectError::kTimeout, 0) + rig.connect_errors(ConnectError::kTimeout, 1), failed);
    EXPECT_FALSE(stream.over());
    rig.pass(20s);
  }
  rig.expect_response(stream, 503, "no endpoint can be reached\n");
  rig.expect_ended(HttpEnd::kNoEndpoint);
}

SLUICE_EACH_VERSION(HttpUpstreamTest);

}  // namespace
}  // namespace sluice
