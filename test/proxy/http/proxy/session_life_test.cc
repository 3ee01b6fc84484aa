// A client's connection from its first byte to its end: its timeouts, its age, and how it ends when the proxy does.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "proxy/http/proxy/http_session.h"
#include "test/proxy/http/h2/rig.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::HttpOrigin;
using test::HttpPeer;
using test::HttpRig;
using test::Peer;
using test::PeerStream;

constexpr size_t kMiB = size_t{1} << 20;

class HttpSessionLifeTest : public test::HttpRigTest {
 protected:
  HttpSessionLifeTest() {
    // Only the timeouts of the test apply.
    config::Http& config = rig.config();
    config.header_timeout = config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
    config.body_timeout = config.stuck_timeout = config.http2.preface_timeout = 100h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
  }
  // A request and its response, on a connection that continues.
  void serve(HttpPeer& client, HttpOrigin& origin) {
    PeerStream& stream = client.send_request();
    rig.request_at(origin, served_++).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  }
  void expect_end(HttpPeer& client) {
    rig.until([&] { return client.gone(); });
    EXPECT_FALSE(client.was_reset());
  }

  size_t served_ = 0;
};

void read_to_end(HttpRig& rig, Peer& client) {
  rig.until([&] {
    client.read();
    return client.ended || client.error != 0;
  });
}

// ---- Timeouts ----

// From the head's first byte on, however slowly it arrives.
TEST_P(HttpSessionLifeTest, HeadTimeout) {
  rig.config().header_timeout = 100s;
  rig.add_origin();
  rig.start();
  using namespace test::http2;  // NOLINT(google-build-using-namespace)
  const std::string fields = block(get_fields());
  std::string head = "GET / HTTP/1.1\r\nhost: a.test\r\nx-a";
  if (client_http2()) head = std::string(kHttp2Preface) + settings() + frame(Http2FrameType::kHeaders, 1, 1, fields);
  Peer client = rig.connect_raw();
  client.send(head.substr(0, head.size() - 3));
  rig.pass(60s);
  client.send(head.substr(head.size() - 3));
  rig.settle();
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
  rig.pass(60s);
  read_to_end(rig, client);
  EXPECT_EQ(client.received.starts_with("HTTP/1.1 408 "), !client_http2()) << client.received;
  client.close();
  rig.expect_session_ended(SessionEnd::kIdleTimeout);
  EXPECT_EQ(rig.http().header_timeouts.value(), 1u);
  EXPECT_EQ(rig.http().requests.value(), 0u);
}

// Defect: the timer of a head used the state of the previous batch. A head whose last bytes arrived in the batch in
// which its timeout expired ended the connection under the request that had just begun: a use after free that a client
// could cause.
TEST_P(HttpSessionLifeTest, HeadThatIsCompleteWhenItsTimeoutExpires) {
  rig.config().header_timeout = 1s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  using namespace test::http2;  // NOLINT(google-build-using-namespace)
  const std::string fields = block(get_fields());
  std::string head = "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";
  if (client_http2()) head = std::string(kHttp2Preface) + settings() + frame(Http2FrameType::kHeaders, 5, 1, fields);
  Peer client = rig.connect_raw();
  client.send(head.substr(0, head.size() - 2));
  rig.settle();
  test::skip_time(1500ms);
  client.send(head.substr(head.size() - 2));
  rig.request_at(origin).respond(200, "fine");
  rig.until([&] {
    client.read();
    return client.received.find("fine") != std::string::npos || client.ended || client.error != 0;
  });
  EXPECT_NE(client.received.find("fine"), std::string::npos) << client.received;
  EXPECT_EQ(rig.http().header_timeouts.value(), 0u);
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
  client.close();
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpSessionLifeTest, ClientThatNeverSends) {
  rig.config().idle_timeout = 100s;
  rig.add_origin();
  rig.start();
  Peer client = rig.connect_raw();
  rig.pass(60s);
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
  rig.pass(60s);
  rig.expect_session_ended(SessionEnd::kIdleTimeout);
  EXPECT_EQ(rig.http().header_timeouts.value(), 0u);
}

// In HTTP/2, SETTINGS must follow the preface.
TEST(HttpSessionLife, PrefaceTimeout) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.config().http2.preface_timeout = 100s;
  rig.config().header_timeout = 50s;
  rig.add_origin();
  rig.start();
  Peer half = rig.connect_raw(), whole = rig.connect_raw();
  half.send(kHttp2Preface.substr(0, 10));
  whole.send(kHttp2Preface);
  rig.pass(60s);
  EXPECT_EQ(rig.sum_of_session_ends(), 1u);
  read_to_end(rig, half);
  rig.pass(60s);
  rig.expect_session_ended(SessionEnd::kIdleTimeout, 2);
  EXPECT_EQ(rig.http().header_timeouts.value(), 2u);
}

// After a late preface there is all of preface_timeout, and after its first byte all of header_timeout.
TEST(HttpSessionLife, PrefaceTimeoutBeginsWithThePreface) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.config().http2.preface_timeout = rig.config().header_timeout = 100s;
  rig.config().idle_timeout = 100h;
  rig.add_origin();
  rig.start();
  Peer client = rig.connect_raw();
  rig.pass(110s);
  client.send(kHttp2Preface.substr(0, 10));
  rig.pass(90s);
  client.send(kHttp2Preface.substr(10));
  rig.pass(90s);
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
  rig.pass(20s);
  rig.expect_session_ended(SessionEnd::kIdleTimeout);
  EXPECT_EQ(rig.http().header_timeouts.value(), 1u);
}

// It runs only between requests, and restarts after each.
TEST_P(HttpSessionLifeTest, IdleTimeout) {
  rig.config().idle_timeout = 100s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  for (int i = 0; i < 4; ++i) {
    serve(client, origin);
    rig.pass(60s);
  }
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
  rig.pass(60s);
  expect_end(client);
  rig.expect_session_ended(SessionEnd::kIdleTimeout);
  rig.expect_ended(HttpEnd::kOk, 4);
}

// Defect: it counted from the request if nothing was transferred between the request and its response, so that a
// connection whose response took longer than idle_timeout was closed a second after it.
TEST_P(HttpSessionLifeTest, IdleTimeoutRunsFromTheResponseOn) {
  rig.config().idle_timeout = 100s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  PeerStream& request = rig.request_at(origin, served_++);
  rig.pass(200s);
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
  request.respond(200, "late");
  rig.expect_response(stream, 200, "late");
  rig.pass(60s);
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
}

// Defect: each frame delayed the end of idle_timeout by a second, so a client of HTTP/2 without a request kept its
// connection forever by a PING in each second.
TEST(HttpSessionLife, PingsDoNotDelayTheIdleTimeout) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.config().idle_timeout = 10s;
  rig.add_origin();
  rig.start();
  using namespace test::http2;  // NOLINT(google-build-using-namespace)
  Peer client = rig.connect_raw();
  client.send(std::string(kHttp2Preface) + settings());
  rig.settle();
  for (int i = 0; i < 16 && rig.sum_of_session_ends() == 0; ++i) {
    rig.pass(800ms);
    client.send_some(ping());
    client.read();
    if (i < 12) {  // Up to 9.6 s.
      EXPECT_EQ(rig.sum_of_session_ends(), 0u);
    }
  }
  EXPECT_EQ(rig.session_ends(SessionEnd::kIdleTimeout), 1u);  // At once: it must not have to wait for silence.
  read_to_end(rig, client);
  EXPECT_TRUE(client.ended);
  client.close();
}

// Each head has its whole timeout, however long the connection was silent: from the head's first byte on, not from the
// connection's beginning or the last response.
TEST_P(HttpSessionLifeTest, HeadTimeoutBeginsWithTheHead) {
  rig.config().header_timeout = 100s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  using namespace test::http2;  // NOLINT(google-build-using-namespace)
  const auto head_of = [&](uint32_t stream) {
    if (!client_http2()) return std::string("GET / HTTP/1.1\r\nhost: a.test\r\n\r\n");
    const std::string head = frame(Http2FrameType::kHeaders, 5, stream, block(get_fields()));
    return stream == 1 ? std::string(kHttp2Preface) + settings() + head : head;
  };
  Peer client = rig.connect_raw();
  rig.pass(90s);
  for (const uint32_t stream : {1, 3}) {
    const std::string head = head_of(stream);
    client.send(head.substr(0, head.size() - 2));
    rig.pass(90s);
    EXPECT_EQ(rig.sum_of_session_ends(), 0u);
    client.send(head.substr(head.size() - 2));
    rig.request_at(origin, served_++).respond(200, "fine");
    rig.expect_ended(HttpEnd::kOk, served_);
    rig.pass(90s);
    client.read();
  }
  const std::string head = head_of(5);
  client.send(head.substr(0, head.size() - 2));
  rig.pass(110s);
  client.close();
  rig.expect_session_ended(SessionEnd::kIdleTimeout);
  EXPECT_EQ(rig.http().header_timeouts.value(), 1u);
}

// An old connection accepts no more requests; the one in progress gets its response.
TEST_P(HttpSessionLifeTest, MaxConnectionAge) {
  rig.config().max_connection_age = 100s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& idle = rig.connect();
  serve(idle, origin);
  HttpPeer& busy = rig.connect();
  PeerStream& stream = busy.send_request();
  PeerStream& request = rig.request_at(origin, served_++);
  rig.pass(60s);
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
  rig.pass(60s);
  expect_end(idle);
  EXPECT_FALSE(stream.over());
  request.respond(200, "late");
  rig.expect_response(stream, 200, "late");
  expect_end(busy);
  rig.expect_session_ended(SessionEnd::kFinished, 2);
  rig.expect_ended(HttpEnd::kOk, 2);
}

// A client whose socket takes nothing ends with its connection.
TEST_P(HttpSessionLifeTest, MaxConnectionAgeBeginsWithTheConnection) {
  rig.config().max_connection_age = 100s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  rig.pass(60s);
  serve(client, origin);
  rig.pass(60s);
  expect_end(client);
  rig.expect_session_ended(SessionEnd::kFinished);
}

TEST_P(HttpSessionLifeTest, SendTimeoutOfAConnection) {
  rig.config().send_timeout = 100s;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request();
  PeerStream& request = rig.request_at(origin);
  client.reads = false;
  request.respond(200, {}, false);
  // Until nothing moves: sockets take more than one would expect.
  uint64_t sent = 0;
  do {
    sent = rig.counters().bytes_out.value();
    if (request.codec_stream->queued() < kMiB) request.send(std::string(kMiB, 'x'));
    rig.settle(20);
  } while (rig.counters().bytes_out.value() != sent);
  rig.pass(60s);
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  for (int i = 0; i < 4 && rig.sum_of_ends() == 0; ++i) rig.pass(60s);
  // The windows of HTTP/2 stop a stream before the socket is full.
  rig.expect_ended(client_http2() ? HttpEnd::kSendTimeout : HttpEnd::kClientReset);
  if (!client_http2()) rig.expect_session_ended(SessionEnd::kStuck);
  rig.wait_cancelled(request);
}

// A client that gives a stream of HTTP/2 no window loses only this stream.
TEST(HttpSessionLife, SendTimeoutOfAStream) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.config().send_timeout = 100s;
  rig.config().idle_timeout = 100h;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  stream.codec_stream->set_reading(false);
  rig.request_at(origin).respond(200, std::string(kMiB, 'x'));
  rig.until([&] { return stream.body.size() >= 60'000; });
  rig.pass(60s);
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  rig.pass(60s);
  rig.expect_ended(HttpEnd::kSendTimeout);
  rig.until([&] { return stream.reset; });
  PeerStream& next = client.send_request();
  rig.request_at(origin, 1).respond(200, "fine");
  rig.expect_response(next, 200, "fine");
  EXPECT_EQ(rig.sum_of_session_ends(), 0u);
}

// Defect: data that the client took of one stream kept all others to which it gave no window.
TEST(HttpSessionLife, SendTimeoutBesideASlowStream) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.config().send_timeout = 100s;
  rig.config().idle_timeout = rig.config().stream_idle_timeout = 100h;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  using namespace test::http2;  // NOLINT(google-build-using-namespace)
  Peer client = rig.connect_raw();
  client.send(std::string(kHttp2Preface) + settings(setting(4, 10)) + get(1) + get(3) + get(5));
  for (size_t i = 0; i < 3; ++i) rig.request_at(origin, i).respond(200, std::string(1000, 'x'));
  rig.settle();
  for (int i = 0; i < 5; ++i) {
    rig.pass(30s);
    client.send(window_update(1, 1));
    rig.settle();
  }
  EXPECT_EQ(rig.ended(HttpEnd::kSendTimeout), 2u);
  EXPECT_EQ(rig.sum_of_ends(), 2u) << "the one that is taken goes on";
}

// Defect: so did a byte now and then of the window of the connection.
TEST(HttpSessionLife, SendTimeoutOnASlowConnection) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.config().send_timeout = 100s;
  rig.config().idle_timeout = rig.config().stream_idle_timeout = 100h;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  using namespace test::http2;  // NOLINT(google-build-using-namespace)
  Peer client = rig.connect_raw();
  client.send(std::string(kHttp2Preface) + settings(setting(4, 1 << 20)));
  constexpr uint32_t kStreams = 8;
  for (uint32_t i = 0; i < kStreams; ++i) client.send(get(2 * i + 1));
  for (size_t i = 0; i < kStreams; ++i) rig.request_at(origin, i).respond(200, std::string(50'000, 'x'));
  rig.settle(20);
  client.read();
  for (int i = 0; i < 8; ++i) {
    rig.pass(30s);
    client.send(window_update(0, 1));
    rig.settle();
    client.read();
  }
  EXPECT_GE(rig.ended(HttpEnd::kSendTimeout), 3u) << "some get a byte of their own now and then";
}

// Defect: whatever was sent on a connection counted, so a client that took no response but sent a PING now and then
// kept it forever.
TEST(HttpSessionLife, PingAcksAreNoProgress) {
  HttpRig rig({.client_http2 = true, .upstream_http2 = false});
  rig.config().send_timeout = 100s;
  rig.config().stream_idle_timeout = rig.config().idle_timeout = 100h;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  using namespace test::http2;  // NOLINT(google-build-using-namespace)
  Peer client = rig.connect_raw();
  client.send(std::string(kHttp2Preface) + settings(setting(4, 0)) + get(1));
  rig.request_at(origin).respond(200, "never taken");
  rig.settle();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(rig.sum_of_ends(), i < 4 ? 0u : 1u) << i;
    client.send(ping());
    rig.pass(30s);
    client.read();
  }
  rig.expect_ended(HttpEnd::kSendTimeout);
  client.close();
}

// ---- Shutdown of the proxy ----

// Idle connections end at once, requests in progress are finished, and nothing new begins.
TEST_P(HttpSessionLifeTest, Drain) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer &idle = rig.connect(), &silent = rig.connect(), &busy = rig.connect();
  serve(idle, origin);
  PeerStream& stream = busy.post("first, ", /*end=*/false);
  PeerStream& request = rig.request_at(origin, served_++);
  Peer late = rig.connect_raw();
  const std::string head = "GET /late HTTP/1.1\r\nhost: a.test\r\n\r\n";
  if (!client_http2()) late.send(head.substr(0, 20));
  rig.settle();
  rig.drain();
  expect_end(idle);
  expect_end(silent);
  EXPECT_FALSE(stream.over());
  stream.send("second", /*end=*/true);
  rig.until([&] { return request.ended; });
  EXPECT_EQ(request.body, "first, second");
  request.respond(200, "done");
  rig.expect_response(stream, 200, "done");
  expect_end(busy);
  if (!client_http2()) {  // An incomplete request is in progress, too.
    late.send(head.substr(20));
    rig.request_at(origin, served_++).respond(200, "done");
    read_to_end(rig, late);
    EXPECT_TRUE(late.received.starts_with("HTTP/1.1 200 ")) << late.received;
    EXPECT_NE(late.received.find("\r\nconnection: close\r\n"), std::string::npos) << late.received;
  }
  late.close();
  rig.until([&] { return rig.acceptor().idle(); });
  rig.expect_session_ended(SessionEnd::kFinished, 4);
  rig.expect_ended(HttpEnd::kOk, client_http2() ? 2 : 3);
}

// Defect: the response to a client that had just connected did not have Connection: close, and then nothing ended the
// connection before idle_timeout.
TEST(HttpSessionLife, DrainBeforeTheFirstRequest) {
  HttpRig rig({.client_http2 = false, .upstream_http2 = false});
  rig.config().idle_timeout = 100h;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  const std::string head = "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";
  std::array clients = {rig.connect_raw(), rig.connect_raw()};
  clients[1].send(head.substr(0, 20));
  rig.settle();
  rig.drain();
  rig.settle();
  clients[0].send(head);
  clients[1].send(head.substr(20));
  for (size_t i = 0; i < clients.size(); ++i) rig.request_at(origin, i).respond(200, "done");
  for (Peer& client : clients) {
    read_to_end(rig, client);
    EXPECT_NE(client.received.find("\r\nconnection: close\r\n"), std::string::npos) << client.received;
    client.close();
  }
  rig.expect_session_ended(SessionEnd::kFinished, 2);
  rig.expect_ended(HttpEnd::kOk, 2);
}

// The time to drain is over: each request in progress ends once, in whichever phase it is.
TEST_P(HttpSessionLifeTest, ShutDown) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  std::vector<HttpPeer*> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(&rig.connect());
  serve(*clients[0], origin);
  PeerStream& responding = clients[1]->send_request();
  rig.request_at(origin, served_++).respond(200, {}, false);
  PeerStream& uploading = clients[2]->post("part", /*end=*/false);
  PeerStream& uploaded = rig.request_at(origin, served_++);
  PeerStream& tunnel = clients[3]->websocket();
  PeerStream& accepted = rig.request_at(origin, served_++);
  accepted.respond(200, {}, false);
  rig.until([&] { return responding.has_head && tunnel.has_head && uploaded.body == "part"; });
  origin.silent = true;
  PeerStream& waiting = clients[4]->send_request();
  rig.until([&] { return rig.http().requests.value() == 5; });
  rig.shut_down();
  rig.until([&] { return rig.acceptor().idle(); });
  rig.expect_ended(HttpEnd::kShutdown, 4);
  rig.expect_session_ended(SessionEnd::kShutdown, 5);
  for (PeerStream* const stream : {&responding, &uploading, &tunnel, &waiting}) {
    rig.until([&] { return stream->reset; });
    EXPECT_TRUE(stream == &tunnel || !stream->ended);
  }
  origin.silent = false;
  rig.wait_cancelled(uploaded);
  rig.wait_cancelled(accepted);
}

// The ends of many connections with many requests are spread over turns of the loop. Each request still ends once. (How
// long others wait meanwhile is measured by bench/under-attack.)
TEST_P(HttpSessionLifeTest, CrowdThatLeaves) {
  if (!client_http2()) GTEST_SKIP() << "one request at a time";
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  origin.silent = true;
  constexpr size_t kClients = 12, kRequests = 20;
  std::vector<HttpPeer*> clients;
  std::vector<PeerStream*> streams;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(&rig.connect());
    for (size_t j = 0; j < kRequests; ++j) streams.push_back(&clients.back()->send_request());
  }
  rig.until([&] { return rig.http().requests.value() == kClients * kRequests; });
  for (HttpPeer* const client : clients) client->close();
  rig.expect_ended(HttpEnd::kClientReset, kClients * kRequests);
  rig.until([&] { return rig.sum_of_session_ends() == kClients; });
  for (PeerStream* const stream : streams) {
    if (stream->codec_stream) stream->release();
  }
}

SLUICE_EACH_VERSION(HttpSessionLifeTest);

// Defect: pipelined requests beyond the 64 of a turn waited for the next tick of the timers, 4 ms later, while the
// worker slept: a connection had 16,000 responses a second, not 600,000.
TEST(HttpSessionTurns, PipelinedRequestsWaitForNoTick) {
  HttpRig rig({.client_http2 = false, .upstream_http2 = false});
  rig.config().forward.clear();
  rig.config().routes.emplace_back().respond.emplace().status = 204;
  rig.start();
  constexpr size_t kRequests = 512, kTurns = 4 + kRequests / 64;
  Peer client = rig.connect_raw();
  std::string requests;
  for (size_t i = 0; i < kRequests; ++i) requests += "GET / HTTP/1.1\r\nhost: a.test\r\n\r\n";
  client.send(requests);
  for (size_t i = 0; i < kTurns; ++i) {
    rig.settle(1);
    client.read();
  }
  EXPECT_EQ(rig.http().requests.value(), kRequests);
  client.close();
  rig.expect_ended(HttpEnd::kOk, kRequests);
}

}  // namespace
}  // namespace sluice
