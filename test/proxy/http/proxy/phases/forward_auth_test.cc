// A server outside decides about each request (`forward_auth`): what it is asked, what becomes of its response, what
// happens when there is none, and that the client's body waits. At the end of each test the rig checks that nothing is
// left of the questions.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::FieldList;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

class HttpForwardAuth : public test::HttpRigTest {
 protected:
  HttpForwardAuth() {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = config.header_timeout = 100h;
    config.body_timeout = 10s;
    config.forward.clear();
    route.forward = "origin";
    rule.to = "auth";
    rule.path = "/verify?a=b";
    rule.response_headers = {name("x-user"), name("authorization")};
    authorizers.response_timeout = rig.upstream().response_timeout = 100h;
  }

  static config::FieldName name(std::string_view text) { return config::FieldName::parse(text).value(); }
  /// The `n`-th question.
  PeerStream& question(size_t n = 0) { return rig.request_at(authorizer, n); }
  PeerStream& allow(size_t n = 0, FieldList fields = {}) {
    PeerStream& asked = question(n);
    asked.respond(200, fields, true);
    return asked;
  }
  void expect_served(PeerStream& stream, size_t n = 0) {
    PeerStream& got = rig.request_at(origin, n);
    rig.wait_over(got);
    got.respond(200, "served");
    rig.expect_response(stream, 200, "served");
  }
  /// A response to a request whose rest is not needed, which HTTP/2 says with a reset.
  void expect_early(PeerStream& stream, uint16_t status, std::string_view body) {
    rig.until([&] { return stream.ended; });
    EXPECT_EQ(stream.head.status, status);
    EXPECT_EQ(stream.body, body);
    stream.release();
  }
  uint64_t count(ForwardAuthResult result) { return rig.http().forward_auth[static_cast<size_t>(result)].value(); }
  void expect_counted(ForwardAuthResult result, uint64_t times = 1) {
    rig.until([&] { return count(result) >= times; });
    for (int i = 0; i < kForwardAuthResultCount; ++i) {
      const auto which = static_cast<ForwardAuthResult>(i);
      EXPECT_EQ(count(which), which == result ? times : 0u) << forward_auth_result_name(which);
    }
  }

  config::Upstream& authorizers =
      rig.upstreams.emplace_back(config::Upstream{.name = "auth", .protocol = rig.upstreams.front().protocol});
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& authorizer = rig.add_origin_of(1);
  config::HttpRoute& route = rig.config().routes.emplace_back();
  config::ForwardAuth& rule = route.forward_auth.emplace();
};

TEST_P(HttpForwardAuth, AsksAboutTheRequest) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("DELETE", "/a/../b?c=d",
                                                  {{"cookie", "s=1"},
                                                   {"authorization", "Basic Zg=="},
                                                   {"x-own", "1"},
                                                   {"content-type", "text/x"},
                                                   {"range", "bytes=0-1"},
                                                   {"if-none-match", "\"e\""},
                                                   {"x-forwarded-uri", "/public"},
                                                   {"x-forwarded-for", "192.0.2.1"},
                                                   {"x-forwarded-user", "root"},
                                                   {"x-original-url", "/public"},
                                                   {"forwarded", "for=192.0.2.1"}});
  PeerStream& asked = question();
  rig.wait_over(asked);
  EXPECT_EQ(asked.head.method(), "GET");
  EXPECT_EQ(asked.head.path(), "/verify?a=b");
  EXPECT_EQ(asked.head.authority(), "auth");
  EXPECT_EQ(asked.body, "");
  for (const auto& [field, value] : {std::pair{"x-forwarded-method", "DELETE"},
                                     {"x-forwarded-proto", "http"},
                                     {"x-forwarded-host", "a.test"},
                                     {"x-forwarded-uri", "/b?c=d"},
                                     {"x-forwarded-for", "127.0.0.1"},
                                     {"cookie", "s=1"},
                                     {"x-own", "1"},
                                     {"authorization", "Basic Zg=="}}) {
    EXPECT_EQ(asked.field(field), value) << field;
    EXPECT_EQ(asked.head.fields.find(field, asked.head.fields.find(field) + 1), Fields::npos) << field;
  }
  for (const char* const field : {"content-type", "content-length", "range", "if-none-match", "x-forwarded-user",
                                  "x-original-url", "forwarded"}) {
    EXPECT_EQ(asked.head.fields.find(field), Fields::npos) << field;
  }
  EXPECT_TRUE(origin.requests.empty());
  asked.respond(204, {}, true);
  expect_served(stream);
  EXPECT_EQ(origin.requests[0]->head.method(), "DELETE");
  expect_counted(ForwardAuthResult::kAllowed);
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpForwardAuth, OnlyTheListedFieldsGo) {
  rule.request_headers = {name("cookie"), name("x-real-ip")};
  rule.host = "auth.test:81";
  rig.start();
  PeerStream& stream =
      rig.connect().send_request("GET", "/", {{"cookie", "s=1"}, {"x-own", "1"}, {"x-real-ip", "192.0.2.1"}});
  PeerStream& asked = allow();
  EXPECT_EQ(asked.head.authority(), "auth.test:81");
  EXPECT_EQ(asked.field("cookie"), "s=1");
  EXPECT_EQ(asked.field("x-real-ip"), "192.0.2.1");
  EXPECT_EQ(asked.field("x-own"), "");
  EXPECT_EQ(asked.field("x-forwarded-uri"), "/");
  expect_served(stream);
}

// What the client claims to be never arrives, neither in the head nor behind the body.
TEST_P(HttpForwardAuth, CopiesFieldsOfTheResponse) {
  rig.start();
  HttpPeer& client = rig.connect();
  for (size_t i = 0; i < 2; ++i) {
    PeerStream& stream = client.send_request(
        "POST", "/", {{"x-user", "root"}, {"authorization", "Basic Zg=="}, {"trailer", "x-user"}}, false);
    PeerStream& asked = question(i);
    EXPECT_EQ(asked.field("x-user"), "");
    i == 0 ? asked.respond(200, {{"x-user", "ann"}, {"x-user", "bob"}, {"x-other", "1"}}, true)
           : asked.respond(200, "a body that nobody needs");
    PeerStream& got = rig.request_at(origin, i);
    stream.send("x");
    stream.send_trailers({{"x-user", "root"}, {"authorization", "x"}, {"x-sum", "7"}});
    expect_served(stream, i);
    EXPECT_EQ(got.field("x-user"), i == 0 ? "ann" : "");
    EXPECT_EQ(got.head.fields.find("x-user", got.head.fields.find("x-user") + 1) != Fields::npos, i == 0);
    EXPECT_EQ(got.field("authorization"), "");
    EXPECT_EQ(got.field("x-other"), "");
    EXPECT_EQ(got.trailers.value("x-user"), "");
    EXPECT_EQ(got.trailers.value("authorization"), "");
    EXPECT_EQ(got.trailers.value("x-sum"), "7");
  }
  expect_counted(ForwardAuthResult::kAllowed, 2);
  EXPECT_EQ(authorizer.connections.size(), 1u);  // It was used again.
}

// Routes that nobody guards do not pass forged identities on either, but they have credentials of their own.
TEST_P(HttpForwardAuth, OtherRoutes) {
  route.match.emplace().path.emplace().prefix = "/guarded";
  rig.config().routes.emplace_back().forward = "origin";
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/", {{"x-user", "root"}, {"authorization", "Basic Zg=="}});
  expect_served(stream);
  EXPECT_EQ(origin.requests[0]->field("x-user"), "");
  EXPECT_EQ(origin.requests[0]->field("authorization"), "Basic Zg==");
  EXPECT_TRUE(authorizer.connections.empty());
}

TEST_P(HttpForwardAuth, RefusalsReachTheClient) {
  rig.config().response_headers.push_back({.name = name("x-edge"), .set = config::TextTemplate::parse("1").value()});
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& redirected = client.send_request();
  question().respond(302, {{"location", "https://login.test/"}, {"set-cookie", "a=1"}, {"set-cookie", "b=2"}}, true);
  rig.expect_response(redirected, 302, "");
  EXPECT_EQ(redirected.field("location"), "https://login.test/");
  EXPECT_EQ(redirected.field("set-cookie"), "a=1");
  EXPECT_NE(redirected.head.fields.find("set-cookie", redirected.head.fields.find("set-cookie") + 1), Fields::npos);
  EXPECT_EQ(redirected.field("x-edge"), "1");
  EXPECT_NE(redirected.field("date"), "");
  PeerStream& refused = client.send_request();
  const std::string page(64 * 1024, 'p');
  question(1).respond(401, {{"www-authenticate", "Basic"}, {"content-type", "text/html"}}, false);
  question(1).send(page.substr(0, 100));
  rig.settle();
  EXPECT_FALSE(refused.has_head);
  question(1).send(page.substr(100), true);
  rig.expect_response(refused, 401, page);
  EXPECT_EQ(refused.field("www-authenticate"), "Basic");
  EXPECT_EQ(refused.field("content-length"), "65536");
  PeerStream& head = client.send_request("HEAD");
  question(2).respond(403, "why");
  rig.expect_response(head, 403, "");
  EXPECT_EQ(head.field("content-length"), "3");
  EXPECT_TRUE(origin.connections.empty());
  expect_counted(ForwardAuthResult::kRefused, 3);
  rig.expect_ended(HttpEnd::kAuthRefused, 3);
}

TEST_P(HttpForwardAuth, RefusedBodies) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request("POST", "/", {}, false);
  question().respond(401, "no");
  expect_early(stream, 401, "no");
  rig.expect_ended(HttpEnd::kAuthRefused);
}

TEST_P(HttpForwardAuth, TooLargeRefusals) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  question().respond(403, std::string(65 * 1024, 'p'));
  rig.expect_response(stream, 503, "the authorization server did not respond as it should\n");
  expect_counted(ForwardAuthResult::kFailed);
  rig.expect_ended(HttpEnd::kAuthFailed);
}

// The rest of a response that allows is read for a while, and then given up.
TEST_P(HttpForwardAuth, EndlessAdmission) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& asked = question();
  asked.respond(200, {{"x-user", "ann"}}, false);
  PeerStream& got = rig.request_at(origin);
  EXPECT_EQ(got.field("x-user"), "ann");
  expect_served(stream);
  EXPECT_FALSE(asked.reset);
  rig.pass(5s);
  rig.wait_cancelled(asked);
  expect_counted(ForwardAuthResult::kAllowed);
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpForwardAuth, BodiesWaitAtTheClient) {
  rig.start();
  HttpPeer& client = rig.connect();
  constexpr size_t kBytes = size_t{32} << 20;
  PeerStream& stream = client.send_request("POST", "/", {}, false);
  stream.send(std::string(kBytes, 'b'), true);
  PeerStream& asked = question();
  rig.settle(100);
  EXPECT_TRUE(client.has_unsent() || stream.codec_stream->queued() > 0);
  EXPECT_TRUE(rig.holds_at_most(size_t{512} << 10));
  rig.pass(4s);  // Of the timeout of 5 s; the body's counts from now on.
  EXPECT_TRUE(origin.requests.empty());
  asked.respond(200, {}, true);
  PeerStream& got = rig.request_at(origin);
  rig.wait_over(got);
  EXPECT_EQ(got.body.size(), kBytes);
  got.respond(200, "served");
  rig.expect_response(stream, 200, "served");
}

// The body's timeout begins when it is read.
TEST_P(HttpForwardAuth, WaitingIsNoSlowBody) {
  rule.timeout = 60s;
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, false);
  PeerStream& asked = question();
  rig.pass(30s);
  asked.respond(200, {}, true);
  PeerStream& got = rig.request_at(origin);
  rig.pass(9s);
  EXPECT_FALSE(stream.over());
  stream.send("b", true);
  expect_served(stream);
  EXPECT_EQ(got.body, "b");
}

TEST_P(HttpForwardAuth, Expect100Continue) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {{"expect", "100-continue"}}, false);
  PeerStream& asked = question();
  EXPECT_EQ(asked.field("expect"), "");
  rig.settle();
  EXPECT_TRUE(stream.interim.empty());
  asked.respond(200, {}, true);
  PeerStream& got = rig.request_at(origin);
  got.respond(100, {}, false);
  rig.until([&] { return !stream.interim.empty(); });
  stream.send("b", true);
  expect_served(stream);
  EXPECT_EQ(got.body, "b");
}

TEST_P(HttpForwardAuth, Timeout) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, false);
  PeerStream& asked = question();
  rig.pass(4s);
  EXPECT_FALSE(stream.over());
  rig.pass(1s);
  expect_early(stream, 503, "the authorization server did not respond as it should\n");
  rig.wait_cancelled(asked);
  expect_counted(ForwardAuthResult::kTimeout);
  rig.expect_ended(HttpEnd::kAuthFailed);
  EXPECT_TRUE(origin.connections.empty());
}

TEST_P(HttpForwardAuth, NobodyThere) {
  authorizer.stop();
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.expect_response(stream, 503, "the authorization server did not respond as it should\n");
  expect_counted(ForwardAuthResult::kFailed);
  rig.expect_ended(HttpEnd::kAuthFailed);
}

TEST_P(HttpForwardAuth, CallsOfGrpc) {
  authorizer.stop();
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/s/m", {{"content-type", "application/grpc"}}, true);
  rig.wait_over(stream);
  EXPECT_EQ(stream.field("grpc-status"), "14");
}

TEST_P(HttpForwardAuth, FailuresMayBeAllowed) {
  rule.on_failure = config::OnFailure::kAllow;
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request("GET", "/", {{"x-user", "root"}, {"authorization", "Basic Zg=="}});
  question().cancel(ResetReason::kInternal);
  expect_served(first);
  authorizer.stop();
  for (auto& connection : authorizer.connections) connection->close();
  PeerStream& second = client.post("body");
  expect_served(second, 1);
  EXPECT_EQ(origin.requests[0]->field("authorization"), "");
  EXPECT_EQ(origin.requests[0]->field("x-user"), "");
  EXPECT_EQ(origin.requests[1]->body, "body");
  EXPECT_EQ(rig.http().forward_auth_unchecked.value(), 2u);
  expect_counted(ForwardAuthResult::kFailed, 2);
  rig.expect_ended(HttpEnd::kOk, 2);
}

// An idle connection that the authorizer has closed costs nobody a request.
TEST_P(HttpForwardAuth, StaleConnections) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request();
  allow();
  expect_served(first);
  rig.settle();
  PeerStream& second = client.send_request();
  PeerStream& lost = question(1);
  EXPECT_EQ(lost.connection, authorizer.connections[0].get());
  lost.connection->break_off();
  allow(2);
  expect_served(second, 1);
  expect_counted(ForwardAuthResult::kAllowed, 2);
}

TEST_P(HttpForwardAuth, ClientsThatLeave) {
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request();
  PeerStream& asked = question();
  client.break_off();
  rig.wait_cancelled(asked);
  expect_counted(ForwardAuthResult::kCancelled);
  rig.expect_ended(HttpEnd::kClientReset);
  EXPECT_TRUE(origin.connections.empty());
}

// Also before there is a connection to the authorizer.
TEST_P(HttpForwardAuth, ClientsThatLeaveEarly) {
  authorizer.silent = true;
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request();
  rig.until([&] { return rig.http().requests.value() == 1; });
  client.break_off();
  expect_counted(ForwardAuthResult::kCancelled);
  rig.expect_ended(HttpEnd::kClientReset);
}

TEST_P(HttpForwardAuth, ShutDownDuringTheQuestion) {
  rig.start();
  rig.connect().send_request();
  question();
  rig.shut_down();
  expect_counted(ForwardAuthResult::kCancelled);
  rig.expect_ended(HttpEnd::kShutdown);
}

TEST_P(HttpForwardAuth, DrainDuringTheQuestion) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& asked = question();
  rig.drain();
  rig.settle();
  asked.respond(200, {}, true);
  expect_served(stream);
}

TEST_P(HttpForwardAuth, OneQuestionPerRequest) {
  route.retry.emplace() = {.on = {config::RetryOn::k5xx}, .attempts = 3};
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  allow(0, {{"x-user", "ann"}});
  rig.request_at(origin).respond(500, "");
  PeerStream& again = rig.request_at(origin, 1);
  EXPECT_EQ(again.field("x-user"), "ann");
  expect_served(stream, 1);
  expect_counted(ForwardAuthResult::kAllowed);
}

TEST_P(HttpForwardAuth, Websockets) {
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  PeerStream& asked = question();
  EXPECT_EQ(asked.head.method(), "GET");
  EXPECT_EQ(asked.head.protocol(), "");
  EXPECT_EQ(asked.field("x-forwarded-method"), "GET");
  EXPECT_EQ(asked.field("sec-websocket-version"), "");
  asked.respond(401, "no");
  expect_early(stream, 401, "no");
  rig.expect_ended(HttpEnd::kAuthRefused);
}

TEST_P(HttpForwardAuth, AdmittedWebsockets) {
  if (upstream_http2()) GTEST_SKIP() << "the rig's origins of HTTP/2 take no tunnels";
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  allow();
  PeerStream& got = rig.request_at(origin);
  EXPECT_EQ(got.head.protocol(), "websocket");
  got.respond(200, {}, false);
  rig.until([&] { return stream.has_head; });
  EXPECT_EQ(stream.head.status / 100, 2);
  stream.send("ping");
  rig.until([&] { return got.body == "ping"; });
  stream.send("", true);
  got.send("", true);
  rig.wait_over(stream);
}

TEST_P(HttpForwardAuth, BufferedBodies) {
  route.buffer.emplace().requests = {1 << 20};
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, false);
  stream.send("be");
  PeerStream& asked = question();
  rig.settle();
  asked.respond(200, {}, true);
  rig.settle();
  stream.send("hind", true);
  expect_served(stream);
  EXPECT_EQ(origin.requests[0]->body, "behind");
}

// The upstream is asked itself.
TEST_P(HttpForwardAuth, OneUpstreamForBoth) {
  rule.to = "origin";
  rig.start();
  PeerStream& stream = rig.connect().post("body");
  PeerStream& asked = rig.request_at(origin);
  EXPECT_EQ(asked.head.path(), "/verify?a=b");
  asked.respond(200, {{"x-user", "ann"}}, true);
  expect_served(stream, 1);
  EXPECT_EQ(origin.requests[1]->field("x-user"), "ann");
  EXPECT_EQ(origin.requests[1]->body, "body");
}

// A route that responds itself is guarded too.
TEST_P(HttpForwardAuth, FixedResponses) {
  route.forward.clear();
  route.respond.emplace().body = "secret";
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request();
  allow();
  rig.expect_response(first, 200, "secret");
  PeerStream& second = client.send_request();
  question(1).respond(403, "no");
  rig.expect_response(second, 403, "no");
  PeerStream& third = client.post(std::string(100'000, 'b'));
  allow(2);
  expect_early(third, 200, "secret");
}

SLUICE_EACH_VERSION(HttpForwardAuth);

}  // namespace
}  // namespace sluice
