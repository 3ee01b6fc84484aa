// HTTP's rules for intermediaries, between any two versions.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "proxy/http/proxy/exchange.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using test::HttpOrigin;
using test::HttpPeer;
using test::Peer;
using test::PeerStream;

config::FieldName name(std::string_view text) { return config::FieldName::parse(text).value(); }
config::FieldChange set(std::string_view field, std::string_view value) {
  return {.name = name(field), .set = config::TextTemplate::parse(value).value()};
}

class HttpRules : public test::HttpRigTest {
 protected:
  HttpRules() : origin(rig.add_origin()) { rig.config().forward.clear(); }

  config::HttpRoute& route(std::string prefix) {
    config::HttpRoute& made = rig.config().routes.emplace_back();
    made.match.emplace().path.emplace().prefix = std::move(prefix);
    return made;
  }
  config::HttpRoute& forward(std::string prefix) {
    config::HttpRoute& made = route(std::move(prefix));
    made.forward = "origin";
    return made;
  }
  void respond(std::string prefix, uint16_t status, std::string_view body) {
    auto& response = route(std::move(prefix)).respond.emplace();
    response.status = status;
    response.body = body;
  }
  PeerStream& next_request() { return rig.request_at(origin, requests_++); }
  /// Sends these bytes on a connection of their own. Returns what comes back once it contains `text`.
  std::string raw(std::string_view bytes, std::string_view text) {
    Peer client = rig.connect_raw();
    client.send(bytes);
    rig.until([&] {
      client.read();
      return client.received.find(text) != std::string::npos || client.ended || client.error != 0;
    });
    std::string received = client.received;
    client.close();
    return received;
  }

  HttpOrigin& origin;

 private:
  size_t requests_ = 0;
};

// ---- Shares ----

TEST_P(HttpRules, SharesHaveChangesOfTheirOwn) {
  config::HttpRoute& split = route("/split");
  split.split = {{.forward = "origin", .weight = 0, .request_headers = {set("x-share", "never")}},
                 {.forward = "origin",
                  .request_headers = {set("x-share", "second"), set("x-both", "share")},
                  .response_headers = {set("x-came", "second"), {.name = name("x-gone"), .remove = true}}}};
  split.request_headers = {set("x-both", "route")};
  forward("/");
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/split");
  PeerStream& got = next_request();
  EXPECT_EQ(got.field("x-share"), "second");
  EXPECT_EQ(got.field("x-both"), "share");
  got.respond(200, {{"x-gone", "1"}}, false);
  got.send("fine", true);
  rig.expect_response(stream, 200, "fine");
  EXPECT_EQ(stream.field("x-came"), "second");
  EXPECT_EQ(stream.field("x-gone"), "");
  PeerStream& other = rig.connect().send_request("GET", "/");
  PeerStream& plain = next_request();
  EXPECT_EQ(plain.field("x-share"), "");
  plain.respond(200, "fine");
  rig.expect_response(other, 200, "fine");
  EXPECT_EQ(other.field("x-came"), "");
}

// ---- Trailers ----

// Defect: fields that no client may send in a head were accepted in trailers; a server that merges trailers into the
// head trusted them.
TEST_P(HttpRules, TrailersHaveNoReservedFields) {
  rig.config().request_id.emplace().header = name("x-request-id");
  rig.config().trace_context = config::TraceContext::kPass;
  forward("/told").request_headers = {set("x-client-identity", "%{peer}")};
  forward("/").request_headers = {set("x-set", "here"), {.name = name("x-internal"), .remove = true}};
  rig.start();
  uint64_t dropped = 0;
  for (const char* const path : {"/told", "/else"}) {
    PeerStream& stream = rig.connect().send_request("POST", path, {}, /*end=*/false);
    stream.send("body");
    stream.send_trailers({{"x-client-identity", "admin"},
                          {"x-set", "there"},
                          {"x-internal", "1"},
                          {"x-request-id", "mine"},
                          {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                          {"tracestate", "a=b"},
                          {"x-forwarded-for", "1.2.3.4"},
                          {"authorization", "Bearer x"},
                          {"x-sum", "4"}});
    PeerStream& got = next_request();
    rig.wait_over(got);
    EXPECT_EQ(got.body, "body");
    EXPECT_EQ(got.trailers.size(), 1u) << path;
    EXPECT_EQ(got.trailers.value("x-sum"), "4");
    got.respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
    dropped += 6;
    EXPECT_EQ(rig.http().trailer_fields_dropped.value(), dropped);
  }
  // If no trailers are left, the body ends without trailers.
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, /*end=*/false);
  stream.send("body");
  stream.send_trailers({{"x-client-identity", "admin"}});
  PeerStream& got = next_request();
  rig.wait_over(got);
  EXPECT_TRUE(got.ended && got.trailers.empty());
  got.respond(204, {}, /*end=*/true);
  rig.expect_response(stream, 204, "");
  rig.expect_ended(HttpEnd::kOk, 3);
}

// Defect: the rule for underscores did not apply to trailers of HTTP/2.
TEST_P(HttpRules, TrailersHaveNoUnderscores) {
  forward("/");
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, /*end=*/false);
  stream.send("body");
  stream.send_trailers({{"x_client_identity", "admin"}});
  rig.wait_over(stream);
  EXPECT_TRUE(stream.reset || stream.head.status == 400) << stream.head.status;
  for (const PeerStream* const request : origin.requests) EXPECT_FALSE(request->ended);
  rig.until([&] { return rig.sum_of_ends() == 1; });
  EXPECT_EQ(rig.ended(HttpEnd::kBadRequest), 1u);
}

TEST_P(HttpRules, TrailersHaveUnderscoresIfAllowed) {
  rig.config().http1.allow_underscores = true;
  forward("/");
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/", {}, /*end=*/false);
  stream.send("body");
  stream.send_trailers({{"x_sum", "4"}});
  PeerStream& got = next_request();
  // Whether the origin accepts them does not matter here.
  rig.until([&] { return got.over(); });
  if (!got.reset) got.respond(200, "fine");
  rig.wait_over(stream);
}

// Defect: a complete response was reset for its trailers, when they had more than 16 fields in HTTP/1.1.
TEST_P(HttpRules, ManyResponseTrailers) {
  forward("/");
  rig.start();
  for (const size_t count : {20u, 250u}) {
    PeerStream& stream = rig.connect().send_request("GET", "/", {{"te", "trailers"}});
    PeerStream& got = next_request();
    got.respond(200, {}, false);
    got.send("body");
    Fields trailers;
    ChunkPool& pool = *ChunkPool::current();
    for (size_t i = 0; i < count; ++i) EXPECT_TRUE(trailers.add(pool, "x-sum", std::to_string(i)));
    got.sent_end = true;
    got.codec_stream->send_trailers(trailers);
    rig.expect_response(stream, 200, "body");
    // The client of the test accepts at most 200 in HTTP/1.1 and 100 in HTTP/2, like the proxy.
    if (count == 20) {
      EXPECT_EQ(stream.trailers.size(), count);
    }
    if (count == 250) {
      EXPECT_EQ(stream.trailers.size(), 0u);
    }
  }
  rig.expect_ended(HttpEnd::kOk, 2);
}

// ---- Expect, Max-Forwards, Host, Date ----

// Defect: fields of HTTP/2 were forwarded unchanged if there were two, or in another spelling.
TEST_P(HttpRules, ExpectationsAreMerged) {
  forward("/");
  rig.start();
  PeerStream& stream =
      rig.connect().send_request("POST", "/", {{"expect", "100-Continue"}, {"expect", "100-continue"}}, /*end=*/false);
  PeerStream& got = next_request();
  EXPECT_EQ(got.head.fields.find("expect", got.head.fields.find("expect") + 1), Fields::npos);
  EXPECT_EQ(got.field("expect"), "100-continue");
  stream.send("body", true);
  rig.wait_over(got);
  got.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");

  PeerStream& get = rig.connect().send_request("GET", "/", {{"expect", "100-continue"}});
  PeerStream& without = next_request();
  EXPECT_EQ(without.field("expect"), "") << "there is nothing to expect";
  without.respond(200, "fine");
  rig.expect_response(get, 200, "fine");

  PeerStream& other =
      rig.connect().send_request("POST", "/", {{"expect", "100-continue"}, {"expect", "x"}}, /*end=*/false);
  rig.until([&] { return other.has_head; });
  EXPECT_EQ(other.head.status, 417);
}

// Defect: which methods were forwarded depended on the version of the client.
TEST_P(HttpRules, Methods) {
  forward("/");
  rig.start();
  for (const char* const method : {"LABEL", "BAN", "X-1"}) {
    PeerStream& stream = rig.connect().send_request(method);
    PeerStream& got = next_request();
    EXPECT_EQ(got.head.method(), method);
    got.respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  }
  for (const char* const method : {"get", "xGET", "Head", "connect", "PRI"}) {
    PeerStream& stream = rig.connect().send_request(method);
    rig.wait_over(stream);
    EXPECT_EQ(stream.head.status, 501) << method;
  }
  EXPECT_EQ(origin.requests.size(), 3u);
}

// Defect: Max-Forwards was forwarded unchanged (RFC 9110 section 7.6.2).
TEST_P(HttpRules, MaxForwards) {
  forward("/");
  rig.start();
  HttpPeer& client = rig.connect();
  for (const char* const method : {"OPTIONS", "TRACE"}) {
    PeerStream& last = client.send_request(method, "/a?b", {{"max-forwards", "0"}, {"cookie", "secret"}});
    rig.expect_response(last, 200, method[0] == 'T' ? "TRACE /a?b HTTP/1.1\r\n\r\n" : "");
    EXPECT_EQ(last.field("content-type"), method[0] == 'T' ? "message/http" : "");
    PeerStream& on = client.send_request(method, "/", {{"max-forwards", "10"}});
    PeerStream& got = next_request();
    EXPECT_EQ(got.field("max-forwards"), "9");
    got.respond(200, "fine");
    rig.expect_response(on, 200, "fine");
  }
  PeerStream& get = client.send_request("GET", "/", {{"max-forwards", "0"}});
  PeerStream& got = next_request();
  EXPECT_EQ(got.field("max-forwards"), "0") << "it does not apply to other methods";
  got.respond(200, "fine");
  rig.expect_response(get, 200, "fine");
  EXPECT_EQ(origin.requests.size(), 3u);
  PeerStream& bad = rig.connect().send_request("OPTIONS", "/", {{"max-forwards", "+1"}});
  rig.wait_over(bad);
  EXPECT_EQ(bad.head.status, 400);
}

// Defect: a request of HTTP/1.0 without Host, as old health checks send it, was refused.
TEST_P(HttpRules, RequestsWithoutAHost) {
  if (client_http2()) GTEST_SKIP() << "HTTP/2 has no such requests";
  config::HttpRoute& named = forward("/");
  named.match->host = {config::HostPattern::parse("a.test").value()};
  route("/https").redirect.emplace().scheme = "https";
  route("/there").redirect.emplace().prefix = "/here";
  forward("/").request_headers = {set("x-host", "%{host}"), set("x-authority", "%{authority}")};
  rig.config().forwarded = config::ForwardedFor::kAppend;
  rig.start();
  Peer client = rig.connect_raw();
  client.send("GET /health HTTP/1.0\r\n\r\n");
  PeerStream& got = next_request();
  EXPECT_EQ(got.head.authority(), "origin") << "the upstream's name";
  EXPECT_EQ(got.field("x-host") + got.field("x-authority"), "");
  EXPECT_EQ(got.field("forwarded").find("host"), std::string::npos) << got.field("forwarded");
  got.respond(200, "fine");
  rig.until([&] {
    client.read();
    return client.ended;
  });
  EXPECT_TRUE(client.received.starts_with("HTTP/1.1 200 OK\r\n") && client.received.ends_with("\r\n\r\nfine"));
  client.close();
  EXPECT_TRUE(raw("GET /https HTTP/1.0\r\n\r\n", "\r\n\r\n").starts_with("HTTP/1.1 400 ")) << "there is no URL for it";
  EXPECT_NE(raw("GET /there/x HTTP/1.0\r\n\r\n", "\r\n\r\n").find("\r\nlocation: /here/x\r\n"), std::string::npos);
  EXPECT_TRUE(raw("GET / HTTP/1.1\r\n\r\n", "\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

// Defect: a response without Date was forwarded without one (RFC 9110 section 6.6.1), and our own 400 had none.
TEST_P(HttpRules, ResponsesHaveADate) {
  forward("/");
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& without = client.send_request();
  next_request().respond(200, "fine");
  rig.expect_response(without, 200, "fine");
  EXPECT_EQ(without.field("date").size(), 29u);
  PeerStream& with = client.send_request();
  next_request().respond(200, {{"date", "Sun, 06 Nov 1994 08:49:37 GMT"}}, true);
  rig.expect_response(with, 200, "");
  EXPECT_EQ(with.field("date"), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(with.head.fields.find("date", with.head.fields.find("date") + 1), Fields::npos);
  if (client_http2()) return;
  const std::string refused = raw("GET x HTTP/1.1\r\n\r\n", "\n\n");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 400 ") && refused.find("\r\ndate: ") != std::string::npos) << refused;
}

// Defect: in a response `host` is an ordinary field, but it was left out towards clients of HTTP/2.
TEST_P(HttpRules, HostInAResponse) {
  forward("/");
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  next_request().respond(200, {{"host", "b"}}, true);
  rig.expect_response(stream, 200, "");
  EXPECT_EQ(stream.field("host"), "b");
}

// ---- Responses of our own ----

// Defect: a 2xx response by a route accepted a tunnel.
TEST_P(HttpRules, OwnResponseDoesNotAcceptATunnel) {
  respond("/", 200, "plain");
  rig.config().allow_connect = true;
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  rig.until([&] { return stream.over(); });
  if (client_http2()) {
    EXPECT_EQ(stream.head.status, 501) << "any 2xx would agree";
  } else {
    // The codec of the test accepts no response but 101 as an accepted upgrade.
    const std::string response =
        raw("GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n",
            "plain");
    EXPECT_TRUE(response.starts_with("HTTP/1.1 200 OK\r\n")) << response;
    EXPECT_NE(response.find("\r\nconnection: close\r\n"), std::string::npos) << response;
    EXPECT_TRUE(raw("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", "\r\n\r\n").starts_with("HTTP/1.1 404 "));
  }
  EXPECT_EQ(rig.http().tunnels.value(), 0u);
}

// Defect: four chunked POSTs in one packet got one response, and then the connection ended without `Connection: close`.
TEST_P(HttpRules, ChunkedRequestsToRoutesThatRespond) {
  if (client_http2()) GTEST_SKIP() << "there are no chunks";
  respond("/", 200, "own");
  rig.start();
  const std::string post = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
  const std::string last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
  const std::string received = raw(post + post + post + post + last, "connection: close\r\n\r\nown");
  size_t responses = 0;
  for (size_t at = 0; (at = received.find("HTTP/1.1 200 OK\r\n", at)) != std::string::npos; ++at) ++responses;
  EXPECT_EQ(responses, 5u) << received;
  EXPECT_EQ(received.find("connection: close"), received.rfind("connection: close"));
}

// Defect: a GET with gRPC's type and an expired deadline got 200 and no body, and caches kept it.
TEST_P(HttpRules, GetIsNoGrpcCall) {
  forward("/");
  rig.start();
  PeerStream& stream =
      rig.connect().send_request("GET", "/", {{"content-type", "application/grpc"}, {"grpc-timeout", "1n"}});
  next_request().respond(200, "the file");
  rig.expect_response(stream, 200, "the file");
}

// Defect: an endpoint that cancelled a gRPC call at its deadline, before the timer of the proxy expired, made the
// client get CANCELLED, not DEADLINE_EXCEEDED.
TEST_P(HttpRules, EndpointCancelsAtDeadline) {
  if (!upstream_http2()) GTEST_SKIP() << "there is no CANCEL";
  forward("/");
  rig.start();
  PeerStream& stream =
      rig.connect().send_request("POST", "/a.b/C", {{"content-type", "application/grpc"}, {"grpc-timeout", "1S"}});
  PeerStream& request = next_request();
  request.cancel();
  test::Loop::jump(990);  // The endpoint's clock is a little ahead.
  rig.until([&] { return stream.over(); });
  EXPECT_EQ(stream.head.fields.value("grpc-status"), "4");
  rig.expect_ended(HttpEnd::kDeadline, 1);
}

SLUICE_EACH_VERSION(HttpRules);

}  // namespace
}  // namespace sluice
