// The connections that requests share: which one a request gets, when it is sent again, and how many there may be.

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
using test::Talk;

class HttpUpstreamTest : public test::HttpRigTest {
 protected:
  HttpUpstreamTest() {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = config.body_timeout = 100h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
  }
  // A request by a client of its own, and its response.
  void serve(HttpOrigin& origin) {
    Talk& talk = rig.connect().ask();
    rig.request_at(origin, origin.requests.size()).respond(200, "fine");
    rig.expect_response(talk, 200, "fine");
  }
  Talk& next_request(HttpOrigin& origin) { return rig.request_at(origin, origin.requests.size()); }
  // Connections of the origin that the proxy has not left.
  static size_t open(const HttpOrigin& origin) {
    size_t count = 0;
    for (auto& connection : origin.connections) count += connection->gone() ? 0 : 1;
    return count;
  }
  // Waits until all that was asked has come to the origin.
  void expect_requests(HttpOrigin& origin, size_t count) {
    rig.until([&] { return origin.requests.size() == count; });
    rig.settle();
    EXPECT_EQ(origin.requests.size(), count);
  }
  uint64_t opened() { return rig.upstream_counters().connections_opened.value(); }
};

// ---- Connections that are shared ----

TEST_P(HttpUpstreamTest, ConnectionIsUsedAgain) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  for (int i = 0; i < 5; ++i) serve(origin);
  EXPECT_EQ(opened(), 1u);
  EXPECT_EQ(rig.upstream_counters().connections_reused.value(), 4u);
  EXPECT_EQ(rig.endpoint().connected.value(), 1u);
  EXPECT_EQ(open(origin), 1u);
}

// Many at once: a connection each in HTTP/1.1, of which so many stay as may; one for all in HTTP/2.
TEST_P(HttpUpstreamTest, ManyAtOnceAndMaxIdle) {
  rig.upstream().pool.max_idle = 2;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  constexpr size_t kCount = 6;
  std::vector<Talk*> talks;
  for (size_t i = 0; i < kCount; ++i) talks.push_back(&rig.connect().ask());
  expect_requests(origin, kCount);
  EXPECT_EQ(opened(), upstream_http2() ? 1u : kCount);
  for (Talk* const request : origin.requests) request->respond(200, "fine");
  for (Talk* const talk : talks) rig.expect_response(*talk, 200, "fine");
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

// Defect: each frame that an endpoint of HTTP/2 sent began pool.idle_timeout anew, so that one that sends a PING now
// and then kept connections that nobody used for ever.
TEST(HttpUpstreamStreams, PingsDoNotPutOffThePoolIdleTimeout) {
  for (const auto step : {500ms, 3000ms}) {
    HttpRig rig({.client_http2 = false, .upstream_http2 = true});
    rig.config().idle_timeout = rig.config().stream_idle_timeout = 100h;
    rig.upstream().pool.idle_timeout = 10s;
    HttpOrigin& origin = rig.add_origin();
    rig.start();
    Talk& talk = rig.connect().ask();
    rig.request_at(origin).respond(200, "fine");
    rig.expect_response(talk, 200, "fine");
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

// Streams over what we, or the endpoint, allow on a connection of HTTP/2 go by another.
TEST(HttpUpstreamStreams, MaxStreams) {
  for (const bool ours : {true, false}) {
    HttpRig rig({.client_http2 = false, .upstream_http2 = true});
    rig.upstream().pool.max_streams = ours ? 2 : 100;
    HttpOrigin& origin = rig.add_origin();
    origin.options.streams = ours ? 100 : 2;
    rig.start();
    std::vector<Talk*> talks;
    for (int i = 0; i < 5; ++i) talks.push_back(&rig.connect().ask());
    rig.until([&] { return origin.requests.size() == 5; });
    EXPECT_EQ(rig.upstream_counters().connections_opened.value(), 3u);
    for (auto& connection : origin.connections) EXPECT_LE(connection->talks.size(), 2u);
    for (Talk* const request : origin.requests) request->respond(200, "fine");
    for (Talk* const talk : talks) rig.expect_response(*talk, 200, "fine");
    rig.expect_ended(HttpEnd::kOk, 5);
  }
}

// An endpoint that says that it goes gets nothing new, and what it has is finished.
TEST_P(HttpUpstreamTest, EndpointDrains) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  serve(origin);
  Talk& talk = rig.connect().ask();
  Talk& request = next_request(origin);
  origin.connections[0]->codec->drain();
  origin.connections[0]->codec->drain();
  rig.settle();
  serve(origin);
  EXPECT_EQ(opened(), 2u);
  request.respond(200, "the last one");
  rig.expect_response(talk, 200, "the last one");
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
  std::vector<Talk*> talks;
  for (int i = 0; i < 2; ++i) talks.push_back(&rig.connect().ask());
  expect_requests(origin, 2);
  rig.expect_response(rig.connect().ask(), 503, "no endpoint can be reached\n");
  for (size_t i = 0; i < 2; ++i) origin.requests[i]->respond(200, "fine");
  for (Talk* const talk : talks) rig.expect_response(*talk, 200, "fine");
  rig.expect_ended(HttpEnd::kNoEndpoint);
  serve(origin);
}

/// An endpoint to which connections are not made: its queue is full, and stays so.
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
  std::vector<Talk*> talks;
  for (int i = 0; i < 2; ++i) talks.push_back(&rig.connect().ask());
  rig.until([&] { return rig.http().requests.value() == 2; });
  rig.expect_response(rig.connect().ask(), 503, "too many requests wait for a connection\n");
  EXPECT_EQ(rig.upstream_counters().pending_refused.value(), 1u);
  rig.until([&] { return rig.ended(HttpEnd::kTooManyPending) == 1; });
  // Those who wait are told when it does not come.
  rig.pass(60s);
  EXPECT_FALSE(talks[0]->over());
  rig.pass(60s);
  for (Talk* const talk : talks) rig.expect_response(*talk, 503, "no endpoint can be reached\n");
  rig.until([&] { return rig.ended(HttpEnd::kNoEndpoint) == 2; });
  EXPECT_GT(rig.connect_errors(ConnectError::kTimeout), 0u);
}

// ---- What is tried again ----

TEST_P(HttpUpstreamTest, NextEndpointWhereOneRefuses) {
  rig.upstream().fail_timeout = 100s;
  const ClosedPort closed;
  rig.add_endpoint(closed.port());
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  // A body that has come meanwhile goes with it.
  Talk& talk = rig.connect().post("all of it");
  Talk& request = next_request(origin);
  rig.wait_over(request);
  EXPECT_EQ(request.body, "all of it");
  request.respond(200, "fine");
  rig.expect_response(talk, 200, "fine");
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
  rig.expect_response(rig.connect().ask(), 503, "no endpoint can be reached\n");
  rig.expect_ended(HttpEnd::kNoEndpoint);
  uint64_t errors = 0;
  for (size_t i = 0; i < 4; ++i) errors += rig.connect_errors(ConnectError::kRefused, i);
  EXPECT_EQ(errors, 3u);
}

// A connection that has waited may be closed by the endpoint just when a request is on its way: that one is sent again,
// if it may be, on a new connection.
TEST_P(HttpUpstreamTest, ConnectionIsLostBeforeTheResponse) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  serve(origin);
  Talk& talk = rig.connect().ask("GET", "/again");
  next_request(origin).connection->break_off();
  Talk& again = next_request(origin);
  EXPECT_EQ(again.head.path(), "/again");
  again.respond(200, "again");
  rig.expect_response(talk, 200, "again");
  EXPECT_EQ(rig.http().retries.value(), 1u);
  EXPECT_EQ(opened(), 2u);
  // Again and again is no accident any more: the new connection was not used before.
  Talk& hopeless = rig.connect().ask("GET", "/hopeless");
  next_request(origin).connection->break_off();
  next_request(origin).connection->break_off();
  rig.expect_response(hopeless, 502, "the upstream failed before it responded\n");
  EXPECT_EQ(rig.http().retries.value(), 2u);
  rig.expect_ended(HttpEnd::kUpstreamReset);
}

// A request that must not be repeated looks first whether the connection is still there: an end may have come that no
// completion has told yet.
TEST_P(HttpUpstreamTest, ConnectionsThatEndedAreSeenBeforeAPost) {
  if (upstream_http2()) return;  // Where a GOAWAY says what was processed.
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  Talk& first = client.ask();
  next_request(origin).respond(200, "fine");
  rig.expect_response(first, 200, "fine");
  rig.settle();
  // The end comes behind the client's request in the same batch, and so is not known when it is to be sent on.
  Talk& talk = client.ask("POST");
  client.turn();
  origin.connections[0]->close();
  Talk& request = next_request(origin);
  request.respond(200, "done");
  rig.expect_response(talk, 200, "done");
  EXPECT_EQ(rig.http().retries.value(), 0u);
  EXPECT_LE(rig.upstream_counters().connections_stale.value(), 1u);
  EXPECT_EQ(opened(), 2u);
}

// Defect: a connection was given to the next request while the rest of one that was answered early still waited to be
// sent on it.
TEST_P(HttpUpstreamTest, ConnectionsWithUnsentBytesAreNotUsedAgain) {
  if (upstream_http2()) return;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  Talk& talk = client.ask("POST", "/", {}, /*end=*/false);
  Talk& request = next_request(origin);
  origin.connections[0]->reads = false;
  // Until the socket takes no more, and then the end: all of it is with the proxy.
  for (bool moves = true; moves;) {
    const uint64_t before = rig.endpoint().bytes_out.value();
    talk.send(std::string(32 * 1024, 'x'));
    rig.until([&] { return !client.has_unsent(); });
    rig.settle(4);
    moves = rig.endpoint().bytes_out.value() != before;
  }
  talk.send("", /*end=*/true);
  rig.settle(10);
  // An answer of a server that reads no more, while the proxy still has some of the request.
  origin.connections[0]->socket.send_some("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  rig.until([&] { return talk.has_head; });
  EXPECT_FALSE(request.ended);
  rig.settle(20);
  Talk& other = rig.connect().ask("GET", "/other");
  Talk& forwarded = next_request(origin);
  EXPECT_EQ(forwarded.head.path(), "/other");
  EXPECT_NE(forwarded.connection, request.connection);
  forwarded.respond(200, "fine");
  rig.expect_response(other, 200, "fine");
}

// ... but not where the endpoint may have done already what was asked, or the request is not here any more.
TEST_P(HttpUpstreamTest, WhatIsNotSentAgain) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  Talk& first = rig.connect().ask("GET", "/fresh");  // On a connection that never waited.
  next_request(origin).connection->break_off();
  rig.expect_response(first, 502, "the upstream failed before it responded\n");
  serve(origin);
  Talk& post = rig.connect().ask("POST");  // Not to be done twice.
  next_request(origin).connection->break_off();
  rig.expect_response(post, 502, "the upstream failed before it responded\n");
  serve(origin);
  Talk& put = rig.connect().ask("PUT", "/", {{"content-length", "4"}}, /*end=*/false);
  put.send("body", /*end=*/true);
  Talk& request = next_request(origin);
  rig.wait_over(request);
  request.connection->break_off();
  rig.expect_response(put, 502, "the upstream failed before it responded\n");
  serve(origin);
  Talk& begun = rig.connect().ask();
  Talk& responding = next_request(origin);
  responding.respond(200, {}, false);
  rig.until([&] { return begun.has_head; });
  responding.connection->break_off();
  rig.until([&] { return begun.reset; });
  rig.expect_ended(HttpEnd::kUpstreamReset, 4);
  EXPECT_EQ(rig.http().retries.value(), 0u);
}

// REFUSED_STREAM says that the endpoint has not looked at it: anything may be sent again of which no body has gone, as
// often as there are attempts.
TEST(HttpUpstreamStreams, RefusedStreams) {
  for (const bool client_http2 : {false, true}) {
    HttpRig rig({.client_http2 = client_http2, .upstream_http2 = true});
    rig.upstream().connect_attempts = 3;
    HttpOrigin& origin = rig.add_origin();
    rig.start();
    Talk& talk = rig.connect().ask("POST");
    for (size_t i = 0; i < 2; ++i) rig.request_at(origin, i).cancel(ResetReason::kRefused);
    rig.request_at(origin, 2).respond(200, "at last");
    rig.expect_response(talk, 200, "at last");
    EXPECT_EQ(rig.http().retries.value(), 2u);

    Talk& hopeless = rig.connect().ask();
    for (size_t i = 3; i < 6; ++i) rig.request_at(origin, i).cancel(ResetReason::kRefused);
    rig.expect_response(hopeless, 502, "the upstream failed before it responded\n");
    EXPECT_EQ(rig.http().retries.value(), 4u);

    Talk& passed = rig.connect().post("body", /*end=*/false);
    Talk& request = rig.request_at(origin, 6);
    rig.until([&] { return request.body == "body"; });
    request.cancel(ResetReason::kRefused);
    rig.until([&] { return passed.ended; });
    EXPECT_EQ(passed.head.status, 502);
    if (passed.stream) passed.release();
    EXPECT_EQ(rig.http().retries.value(), 4u);
    rig.expect_ended(HttpEnd::kUpstreamReset, 2);
  }
}

// An endpoint of HTTP/2 is there when it has said its SETTINGS; one that never does is not.
TEST_P(HttpUpstreamTest, ConnectTimeout) {
  rig.upstream().connect_timeout = 100s;
  HttpOrigin& origin = rig.add_origin();
  origin.silent = true;
  rig.start();
  Talk& talk = rig.connect().ask();
  rig.until([&] { return rig.http().requests.value() == 1; });
  rig.pass(60s);
  EXPECT_FALSE(talk.over());
  rig.pass(60s);
  if (upstream_http2()) {
    rig.expect_response(talk, 503, "no endpoint can be reached\n");
    rig.expect_ended(HttpEnd::kNoEndpoint);
    EXPECT_EQ(rig.connect_errors(ConnectError::kTimeout), 1u);
  } else {  // It was connected: the time of a response is another.
    EXPECT_FALSE(talk.over());
    EXPECT_EQ(rig.endpoint().connected.value(), 1u);
  }
}

// The time to connect begins with each attempt. So long as no stream is there, that of the response does not run.
TEST(HttpUpstreamStreams, ConnectTimeoutBeginsWithTheAttempt) {
  HttpRig rig({.client_http2 = false, .upstream_http2 = true});
  rig.config().idle_timeout = rig.config().stream_idle_timeout = 100h;
  rig.upstream().connect_timeout = 100s;
  rig.upstream().response_timeout = 50s;
  for (int i = 0; i < 2; ++i) rig.add_origin().silent = true;
  rig.start();
  HttpPeer& client = rig.connect();
  rig.pass(110s);
  Talk& talk = client.ask();
  rig.until([&] { return rig.http().requests.value() == 1; });
  for (uint64_t failed = 0; failed < 2; ++failed) {
    rig.pass(90s);
    EXPECT_EQ(rig.connect_errors(ConnectError::kTimeout, 0) + rig.connect_errors(ConnectError::kTimeout, 1), failed);
    EXPECT_FALSE(talk.over());
    rig.pass(20s);
  }
  rig.expect_response(talk, 503, "no endpoint can be reached\n");
  rig.expect_ended(HttpEnd::kNoEndpoint);
}

SLUICE_EACH_VERSION(HttpUpstreamTest);

}  // namespace
}  // namespace sluice
