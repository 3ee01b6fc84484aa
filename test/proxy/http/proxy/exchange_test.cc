// One request and its response through the proxy: forwarding, back-pressure, and ends, in each phase and between any
// two versions of HTTP.

#include "proxy/http/proxy/exchange.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

constexpr size_t kMiB = size_t{1} << 20;

/// Bytes in which a missing, doubled or misplaced piece is found.
std::string pattern(size_t bytes) {
  const std::string piece = test::stream_bytes(7, 0, 65'537);
  std::string all;
  while (all.size() < bytes) all += piece;
  all.resize(bytes);
  return all;
}

class HttpExchangeTest : public test::HttpRigTest {
 protected:
  HttpExchangeTest() : origin(rig.add_origin()) {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = config.tunnel_timeout = 100h;
    config.body_timeout = config.stuck_timeout = config.header_timeout = 100h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
  }
  PeerStream& next_request() { return rig.request_at(origin, requests_++); }
  // The client's connection, or a new one, works as before.
  void expect_works() {
    PeerStream& stream = rig.connect().send_request();
    next_request().respond(200, "works");
    rig.expect_response(stream, 200, "works");
  }

  HttpOrigin& origin;

 private:
  size_t requests_ = 0;
};

// ---- Forwarding ----

TEST_P(HttpExchangeTest, Messages) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& get = client.send_request("GET", "/a/../b?c", {{"x-own", "1"}, {"x-own", "2"}});
  PeerStream& got = next_request();
  EXPECT_EQ(got.head.method(), "GET");
  EXPECT_EQ(got.head.path(), "/b?c");
  EXPECT_EQ(got.head.authority(), "a.test");
  EXPECT_EQ(got.field("x-own"), "1");
  EXPECT_EQ(got.field("x-forwarded-for"), "127.0.0.1");
  EXPECT_EQ(got.field("via"), client_http2() ? "2 sluice" : "1.1 sluice");
  EXPECT_TRUE(got.ended);
  got.respond(200, {{"content-length", "5"}, {"x-back", "3"}}, false);
  got.send("hello", /*end=*/true);
  rig.expect_response(get, 200, "hello");
  EXPECT_EQ(get.field("x-back"), "3");
  EXPECT_EQ(get.field("via"), upstream_http2() ? "2 sluice" : "1.1 sluice");

  const std::string body = pattern(300'000);
  PeerStream& post = client.post(body);
  PeerStream& posted = next_request();
  rig.wait_over(posted);
  EXPECT_TRUE(posted.body == body);
  posted.respond(201, body);
  rig.expect_response(post, 201, body);

  PeerStream& put = client.send_request("PUT", "/", {{"content-length", "7"}}, /*end=*/false);
  put.send("written", /*end=*/true);
  PeerStream& written = next_request();
  rig.wait_over(written);
  EXPECT_EQ(written.body, "written");
  EXPECT_EQ(written.field("content-length"), "7");
  written.respond(204, {}, /*end=*/true);
  rig.expect_response(put, 204, "");

  PeerStream& head = client.send_request("HEAD");
  next_request().respond(200, {{"content-length", "1000"}}, /*end=*/true);
  rig.expect_response(head, 200, "");
  EXPECT_EQ(head.field("content-length"), "1000");

  rig.expect_ended(HttpEnd::kOk, 4);
  EXPECT_EQ(rig.http().request_bytes.value(), body.size() + 7);
  EXPECT_EQ(rig.http().response_bytes.value(), body.size() + 5);
  EXPECT_EQ(rig.upstream_counters().connections_opened.value(), 1u);
  EXPECT_EQ(rig.upstream_counters().connections_reused.value(), 3u);
}

TEST_P(HttpExchangeTest, InterimResponses) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {{"expect", "100-continue"}}, /*end=*/false);
  PeerStream& request = next_request();
  request.respond(100, {}, false);
  rig.until([&] { return !stream.interim.empty(); });
  stream.send("body", /*end=*/true);
  rig.wait_over(request);
  EXPECT_EQ(request.body, "body");
  for (int i = 0; i < 2; ++i) request.respond(103, {{"link", "</a>"}}, false);
  request.respond(200, "whole");
  rig.expect_response(stream, 200, "whole");
  EXPECT_EQ(stream.interim, (std::vector<uint16_t>{100, 103, 103}));
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpExchangeTest, Trailers) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {{"te", "trailers"}}, /*end=*/false);
  stream.send("body");
  stream.send_trailers({{"x-sum", "4"}});
  PeerStream& request = next_request();
  rig.wait_over(request);
  EXPECT_EQ(request.body, "body");
  EXPECT_EQ(request.trailers.value("x-sum"), "4");
  request.respond(200, {}, false);
  request.send("back");
  request.send_trailers({{"x-result", "fine"}});
  rig.expect_response(stream, 200, "back");
  EXPECT_EQ(stream.trailers.value("x-result"), "fine");
  rig.expect_ended(HttpEnd::kOk);
}

// A response that is complete before its request: the client gets it, and the rest of the request is dropped.
TEST_P(HttpExchangeTest, EarlyResponse) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.post("the beginning", /*end=*/false);
  PeerStream& request = next_request();
  rig.until([&] { return !request.body.empty(); });
  request.respond(413, "too much");
  rig.until([&] { return stream.ended; });
  EXPECT_EQ(stream.head.status, 413);
  EXPECT_EQ(stream.body, "too much");
  rig.expect_ended(HttpEnd::kOk);
  rig.wait_cancelled(request);
  if (stream.codec_stream) stream.release();
  expect_works();
}

// ---- Back-pressure ----

// An origin that does not read stops the client near the mark; afterwards all of it arrives.
TEST_P(HttpExchangeTest, SlowOriginStopsTheClient) {
  rig.config().buffer_high = {128 * config::kKiB};
  rig.start();
  const std::string body = pattern(24 * kMiB);
  PeerStream& stream = rig.connect().post(body);
  PeerStream& request = next_request();
  request.codec_stream->set_reading(false);
  for (uint64_t came = 1; came != rig.counters().bytes_in.value();) {
    came = rig.counters().bytes_in.value();
    rig.settle(30);
  }
  EXPECT_LT(rig.counters().bytes_in.value(), body.size() - 4 * kMiB);
  EXPECT_TRUE(rig.holds_at_most((128 << 10) + kMiB)) << rig.loop()->pool().out_bytes();
  request.codec_stream->set_reading(true);
  rig.wait_over(request);
  EXPECT_TRUE(request.body == body) << request.body.size();
  request.respond(200, "all of it");
  rig.expect_response(stream, 200, "all of it");
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpExchangeTest, SlowClientStopsTheOrigin) {
  rig.config().buffer_high = {128 * config::kKiB};
  rig.start();
  const std::string body = pattern(24 * kMiB);
  PeerStream& stream = rig.connect().send_request();
  stream.codec_stream->set_reading(false);
  next_request().respond(200, body);
  for (uint64_t came = 1; came != rig.endpoint().bytes_in.value();) {
    came = rig.endpoint().bytes_in.value();
    rig.settle(30);
  }
  EXPECT_LT(rig.endpoint().bytes_in.value(), body.size() - 4 * kMiB);
  EXPECT_TRUE(rig.holds_at_most((128 << 10) + kMiB)) << rig.loop()->pool().out_bytes();
  stream.codec_stream->set_reading(true);
  rig.expect_response(stream, 200, body);
  rig.expect_ended(HttpEnd::kOk);
}

// ---- Broken connections ----

// The client disconnects before there is a connection, while it uploads, while it waits, and during the response. The
// origin sees it each time, and each request ends once.
TEST_P(HttpExchangeTest, ClientBreaksOff) {
  rig.start();
  for (const bool politely : {false, true}) {
    const auto break_off = [&](HttpPeer& client, PeerStream& stream) {
      if (!politely) return client.break_off();
      if (client_http2()) return stream.cancel();
      client.close();
      rig.pass(2s);  // It could still wait for its response, so time passes.
    };
    const uint64_t before = rig.sum_of_ends();
    origin.silent = true;
    HttpPeer& early = rig.connect();
    PeerStream& never = early.send_request();
    rig.until([&] { return rig.http().requests.value() == before + 1; });
    break_off(early, never);
    rig.until([&] { return rig.sum_of_ends() == before + 1; });
    origin.silent = false;
    for (int phase = 0; phase < 3; ++phase) {
      const std::string path = "/" + std::to_string(phase) + (politely ? "p" : "");
      HttpPeer& client = rig.connect();
      PeerStream& stream = client.send_request("POST", path, {}, /*end=*/phase > 0);
      PeerStream* request = nullptr;
      rig.until([&] {
        for (PeerStream* const came : origin.requests) {
          if (came->has_head && came->head.path() == path) request = came;
        }
        return request != nullptr;
      });
      if (phase == 0) {
        stream.send("a part");
        rig.until([&] { return request->body == "a part"; });
      } else if (phase == 2) {
        request->respond(200, {}, false);
        request->send("a part");
        rig.until([&] { return stream.body == "a part"; });
      }
      break_off(client, stream);
      rig.wait_cancelled(*request);
      EXPECT_FALSE(phase == 0 && request->ended) << "half a request looks whole";
      rig.until([&] { return rig.sum_of_ends() == before + 2 + static_cast<uint64_t>(phase); });
    }
  }
  rig.expect_ended(HttpEnd::kClientReset, 8);
}

// The origin breaks off before its response, during the request, and during the response: the client gets a 502, or a
// response that does not look complete.
TEST_P(HttpExchangeTest, OriginBreaksOff) {
  rig.start();
  for (int phase = 0; phase < 3; ++phase) {
    for (const bool lost : {false, true}) {  // Only the stream, or the whole connection.
      HttpPeer& client = rig.connect();
      PeerStream& stream = phase == 1 ? client.post("a part", /*end=*/false) : client.send_request("POST");
      PeerStream& request = next_request();
      if (phase == 1) rig.until([&] { return request.body == "a part"; });
      if (phase == 2) {
        request.respond(200, {}, false);
        request.send("a part");
        rig.until([&] { return stream.body == "a part"; });
      }
      lost ? origin.connections.back()->break_off() : request.cancel(ResetReason::kInternal);
      rig.until([&] { return stream.over(); });
      if (phase < 2) {
        EXPECT_EQ(stream.head.status, 502);
        EXPECT_EQ(stream.body, "the upstream failed before it responded\n");
      } else {
        EXPECT_EQ(stream.head.status, 200);
        EXPECT_TRUE(stream.reset) << "half a response looks whole";
      }
      if (stream.codec_stream && !stream.reset) stream.release();
    }
  }
  rig.expect_ended(HttpEnd::kUpstreamReset, 6);
  EXPECT_EQ(rig.http().retries.value(), 0u);
  expect_works();
}

// A response that HTTP does not allow is not forwarded.
TEST_P(HttpExchangeTest, MalformedResponse) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& request = next_request();
  for (auto& connection : origin.connections) {
    EXPECT_GT(connection->socket.send_some(upstream_http2() ? std::string("\0\0\0\0\0\0\0\0\1", 9)  // DATA, no head.
                                                            : "HTTP/1.1 2000 OK\r\n\r\n"),
              0u);
  }
  rig.expect_response(stream, 502, "the upstream's response is malformed\n");
  rig.wait_cancelled(request);
  rig.expect_ended(HttpEnd::kUpstreamMalformed);
}

// ---- Timeouts ----

TEST_P(HttpExchangeTest, ResponseTimeout) {
  rig.upstream().response_timeout = 100s;
  rig.start();
  PeerStream& stream = rig.connect().post("up", /*end=*/false);
  PeerStream& request = next_request();
  rig.pass(60s);
  stream.send("load", /*end=*/true);
  rig.wait_over(request);
  rig.pass(60s);  // It begins with the end of the request.
  EXPECT_FALSE(stream.over());
  rig.pass(60s);
  rig.expect_response(stream, 504, "the upstream did not respond in time\n");
  rig.expect_ended(HttpEnd::kResponseTimeout);
  rig.wait_cancelled(request);
}

TEST_P(HttpExchangeTest, BodyTimeout) {
  rig.config().body_timeout = 100s;
  rig.start();
  PeerStream& stream = rig.connect().post("a", /*end=*/false);
  PeerStream& request = next_request();
  for (int i = 0; i < 3; ++i) {  // Any data restarts it.
    rig.pass(60s);
    stream.send("b");
    rig.until([&] { return request.body.size() == 2 + static_cast<size_t>(i); });
  }
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  rig.pass(60s);
  rig.pass(60s);
  rig.until([&] { return stream.over(); });
  EXPECT_EQ(stream.head.status, 408);
  EXPECT_EQ(stream.body, "the request body did not arrive in time\n");
  rig.expect_ended(HttpEnd::kBodyTimeout);
  rig.wait_cancelled(request);
  EXPECT_FALSE(request.ended);
  if (stream.codec_stream) stream.release();
}

// Defect: a stream of gRPC whose client was silent for body_timeout (1 m) was reset.
TEST_P(HttpExchangeTest, NoBodyTimeoutOnceTheResponseHasBegun) {
  rig.config().body_timeout = 100s;
  rig.start();
  PeerStream& stream = rig.connect().post("a", /*end=*/false);
  PeerStream& request = next_request();
  request.respond(200, {}, false);
  rig.until([&] { return stream.head.status == 200; });
  for (int i = 0; i < 4; ++i) rig.pass(60s);
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  stream.send("b");
  rig.until([&] { return request.body.size() == 2; });
  request.send("x");
  rig.until([&] { return stream.body == "x"; });
  EXPECT_FALSE(stream.over());
}

// For requests without another timeout: bytes in either direction restart it.
TEST_P(HttpExchangeTest, StreamIdleTimeout) {
  rig.config().stream_idle_timeout = 100s;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& request = next_request();
  request.respond(200, {}, false);
  for (size_t i = 1; i <= 3; ++i) {
    rig.pass(60s);
    request.send("x");
    rig.until([&] { return stream.body.size() == i; });
  }
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  rig.pass(60s);
  rig.pass(60s);
  rig.until([&] { return stream.reset; });
  rig.expect_ended(HttpEnd::kIdleTimeout);
  rig.wait_cancelled(request);
}

// It ends busy requests too.
TEST_P(HttpExchangeTest, RequestTimeout) {
  rig.config().request_timeout = 100s;
  rig.start();
  HttpPeer &one = rig.connect(), &two = rig.connect();
  PeerStream& begun = one.send_request();
  PeerStream& request = next_request();
  request.respond(200, {}, false);
  rig.pass(60s);
  request.send("busy");
  PeerStream& silent = two.send_request();
  PeerStream& other = next_request();
  rig.until([&] { return begun.body == "busy"; });
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  rig.pass(60s);
  rig.until([&] { return begun.reset; });
  EXPECT_FALSE(silent.over());
  rig.pass(60s);
  rig.expect_response(silent, 504, "the request timed out\n");
  rig.expect_ended(HttpEnd::kRequestTimeout, 2);
  rig.wait_cancelled(request);
  rig.wait_cancelled(other);
}

// Each timeout begins with the request or with a later event of it, not with the connection or with the previous
// request: before it, the connection was silent for as long as the timeout.
TEST_P(HttpExchangeTest, TimeoutsBeginWithTheRequest) {
  config::Http& config = rig.config();
  config.body_timeout = config.stream_idle_timeout = config.request_timeout = config.send_timeout = 100s;
  config.header_timeout = rig.upstream().response_timeout = 100s;
  rig.start();
  HttpPeer& client = rig.connect_greeted();
  for (int i = 0; i < 2; ++i) {
    rig.pass(110s);
    PeerStream& stream = client.post("a", /*end=*/false);
    PeerStream& request = next_request();
    rig.pass(45s);
    EXPECT_EQ(rig.sum_of_ends(), static_cast<uint64_t>(i));
    stream.send("b", /*end=*/true);
    rig.wait_over(request);
    rig.pass(45s);
    EXPECT_EQ(rig.sum_of_ends(), static_cast<uint64_t>(i));
    request.respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
    rig.expect_ended(HttpEnd::kOk, static_cast<uint64_t>(i) + 1);
  }
}

// The timeout of a tunnel begins when it is accepted, or with the last data in it.
TEST_P(HttpExchangeTest, TunnelTimeoutBeginsWithTheTunnel) {
  rig.config().tunnel_timeout = 100s;
  rig.start();
  HttpPeer& client = rig.connect_greeted();
  rig.pass(110s);
  PeerStream& stream = client.websocket();
  PeerStream& request = next_request();
  rig.pass(110s);
  request.respond(200, {}, false);
  rig.until([&] { return stream.has_head; });
  rig.pass(90s);
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  rig.pass(20s);
  rig.expect_ended(HttpEnd::kIdleTimeout);
  rig.until([&] { return stream.over() && request.over(); });
}

// ---- Tunnels ----

TEST_P(HttpExchangeTest, Tunnel) {
  rig.start();
  for (const bool client_first : {true, false}) {  // Which half ends first.
    PeerStream& stream = rig.connect_greeted().websocket();
    PeerStream& request = next_request();
    EXPECT_EQ(request.head.protocol(), "websocket");
    EXPECT_FALSE(request.ended);
    request.respond(200, {}, false);
    rig.until([&] { return stream.has_head; });
    EXPECT_EQ(stream.head.status, 200);
    stream.send("question");
    rig.until([&] { return request.body == "question"; });
    request.send("answer");
    rig.until([&] { return stream.body == "answer"; });
    // One half ends, the other continues.
    PeerStream &first = client_first ? stream : request, &last = client_first ? request : stream;
    first.send("!", /*end=*/true);
    rig.wait_over(last);
    EXPECT_TRUE(last.ended && last.body.ends_with("!"));
    EXPECT_FALSE(first.over());
    last.send("?", /*end=*/true);
    rig.wait_over(first);
    EXPECT_TRUE(first.ended && first.body.ends_with("?"));
  }
  rig.expect_ended(HttpEnd::kOk, 2);
  EXPECT_EQ(rig.http().tunnels.value(), 2u);
}

// Only the tunnel's own timeout applies, not those of requests.
TEST_P(HttpExchangeTest, TunnelTimeout) {
  rig.config().tunnel_timeout = 100s;
  rig.config().stream_idle_timeout = rig.config().request_timeout = rig.config().idle_timeout = 20s;
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  PeerStream& request = next_request();
  request.respond(200, {}, false);
  rig.until([&] { return stream.has_head; });
  for (size_t i = 1; i <= 4; ++i) {
    rig.pass(60s);
    PeerStream &from = i % 2 ? stream : request, &to = i % 2 ? request : stream;
    from.send("x");
    rig.until([&] { return to.body.size() == (i + 1) / 2; });
  }
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  rig.pass(60s);
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  rig.pass(60s);
  rig.expect_ended(HttpEnd::kIdleTimeout);
  rig.until([&] { return stream.over() && request.over(); });
}

TEST_P(HttpExchangeTest, TunnelIsRefusedByTheOrigin) {
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  next_request().respond(403, "not for you");
  rig.until([&] { return stream.ended; });
  EXPECT_EQ(stream.head.status, 403);
  EXPECT_EQ(stream.body, "not for you");
  if (stream.codec_stream) stream.release();
  rig.expect_ended(HttpEnd::kOk);
  EXPECT_EQ(rig.http().tunnels.value(), 0u);
}

TEST_P(HttpExchangeTest, TunnelIsNotAllowed) {
  rig.config().websocket = false;
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  rig.until([&] { return stream.ended; });
  EXPECT_EQ(stream.head.status, 501);
  if (stream.codec_stream) stream.release();
  rig.expect_ended(HttpEnd::kNotAllowed);
  EXPECT_EQ(rig.upstream_counters().connections_opened.value(), 0u);
}

SLUICE_EACH_VERSION(HttpExchangeTest);

}  // namespace
}  // namespace sluice
