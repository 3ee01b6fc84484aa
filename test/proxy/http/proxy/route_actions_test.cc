// What a route does to a request and to its response, between any two versions of HTTP.
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
using test::PeerStream;

config::FieldChange set(std::string_view name, std::string_view value) {
  return {.name = config::FieldName::parse(name).value(), .set = config::TextTemplate::parse(value).value()};
}

class HttpRouteActions : public test::HttpRigTest {
 protected:
  HttpRouteActions() : origin(rig.add_origin()) { rig.config().forward.clear(); }

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
  PeerStream& next_request() { return rig.request_at(origin, requests_++); }

  HttpOrigin& origin;

 private:
  size_t requests_ = 0;
};

// Defect: on a route without the change, a client could set its own identity in the field that another route sets.
TEST_P(HttpRouteActions, ClientsCannotSetIdentityFields) {
  forward("/told").request_headers = {set("x-who", "%{peer}")};
  forward("/").request_headers = {set("x-mine", "%{method}")};
  rig.start();
  for (const char* path : {"/told", "/else"}) {
    rig.connect().send_request("GET", path, {{"x-who", "admin"}, {"x-else", "kept"}});
    PeerStream& got = next_request();
    EXPECT_EQ(got.field("x-who"), "") << path;
    EXPECT_EQ(got.field("x-else"), "kept");
  }
}

TEST_P(HttpRouteActions, Redirects) {
  config::Redirect& redirect = route("/old").redirect.emplace();
  redirect.status = 308;
  redirect.scheme = "https";
  redirect.prefix = "/new";
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request("GET", "/old/x?y=1");
  rig.expect_response(stream, 308, "");
  EXPECT_EQ(stream.field("location"), "https://a.test/new/x?y=1");
  EXPECT_EQ(stream.field("content-length"), "0");
  // After a body that is not used, the connection continues.
  PeerStream& post = client.send_request("POST", "/old", {{"content-length", "5"}}, /*end=*/false);
  post.send("hello", true);
  rig.expect_response(post, 308, "");
  EXPECT_EQ(post.field("location"), "https://a.test/new");
  rig.expect_ended(HttpEnd::kOk, 2);
  EXPECT_EQ(origin.requests.size(), 0u);
}

// A Location that is longer than a head can be cannot be sent.
TEST_P(HttpRouteActions, RedirectWithoutRoom) {
  rig.config().max_head = rig.config().max_start_line = config::Size{64 * 1024};
  config::Redirect& redirect = route("/").redirect.emplace();
  redirect.prefix = "/" + std::string(60'000, 'a');
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/" + std::string(10'000, 'x'));
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 400);
  rig.expect_ended(HttpEnd::kBadRequest);
}

TEST_P(HttpRouteActions, Rewrites) {
  config::Rewrite& rewrite = forward("/api").rewrite.emplace();
  rewrite.prefix = "/";
  rewrite.host = "inner.test:8080";
  forward("/other").rewrite.emplace().path = "/one";
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request("GET", "/api/%7Ex?q=/api");
  PeerStream& got = next_request();
  EXPECT_EQ(got.head.path(), "/~x?q=/api");
  EXPECT_EQ(got.head.authority(), "inner.test:8080");
  got.respond(200, "fine");
  rig.expect_response(first, 200, "fine");
  PeerStream& second = client.send_request("GET", "/other/x?q");
  PeerStream& other = next_request();
  EXPECT_EQ(other.head.path(), "/one?q");
  EXPECT_EQ(other.head.authority(), "a.test");
  other.respond(200, "fine");
  rig.expect_response(second, 200, "fine");
}

TEST_P(HttpRouteActions, BodiesTooLarge) {
  rig.config().max_body = config::Size{1000};
  forward("/a").max_body = config::Size{2000};
  forward("/b").max_body = config::Size{0};
  forward("/");
  rig.start();
  const auto post = [&](std::string_view path, size_t bytes, bool with_length) -> PeerStream& {
    const std::string length = std::to_string(bytes);
    PeerStream& stream = with_length ? rig.connect().send_request("POST", path, {{"content-length", length}}, false)
                                     : rig.connect().send_request("POST", path, {}, false);
    stream.send(std::string(bytes, 'x'), true);
    return stream;
  };
  const auto expect_served = [&](PeerStream& stream, size_t bytes) {
    PeerStream& got = next_request();
    rig.wait_over(got);
    EXPECT_EQ(got.body.size(), bytes);
    got.respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  };
  for (const bool with_length : {true, false}) {
    expect_served(post("/", 1000, with_length), 1000);
    expect_served(post("/a", 2000, with_length), 2000);
    expect_served(post("/b", 100'000, with_length), 100'000);
  }
  // The length is known to be too large before the body arrives: the request is not sent upstream.
  const size_t requests = origin.requests.size();
  PeerStream& declared = post("/", 1001, true);
  rig.wait_over(declared);
  EXPECT_EQ(declared.head.status, 413);
  rig.settle();
  EXPECT_EQ(origin.requests.size(), requests);
  // Or the limit is exceeded by its last byte.
  PeerStream& found = post("/a", 2001, false);
  rig.wait_over(found);
  EXPECT_EQ(found.head.status, 413);
  rig.expect_ended(HttpEnd::kBodyTooLarge, 2);
}

TEST_P(HttpRouteActions, ChangesForwardedRequests) {
  rig.config().request_headers = {set("x-listener", "%{listener}"), set("x-both", "listener")};
  config::HttpRoute& changing = forward("/a");
  changing.request_headers = {set("x-both", "route"),
                              set("x-path", "%{path}?%{query}"),
                              set("x-client", "%{client_ip}"),
                              set("x-agent", "%{header:user-agent}"),
                              {.name = config::FieldName::parse("user-agent").value(), .remove = true}};
  changing.rewrite.emplace().path = "/rewritten";
  forward("/");
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request("GET", "/a/b?c", {{"user-agent", "test"}, {"x-client", "spoofed"}});
  PeerStream& got = next_request();
  EXPECT_EQ(got.field("x-listener"), "edge");
  EXPECT_EQ(got.field("x-both"), "route");
  EXPECT_EQ(got.field("x-path"), "/a/b?c");  // The path of the client's request.
  EXPECT_EQ(got.field("x-client"), "127.0.0.1");
  EXPECT_EQ(got.field("x-agent"), "test");
  EXPECT_EQ(got.field("user-agent"), "");
  got.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
  client.send_request("GET", "/");
  PeerStream& plain = next_request();
  EXPECT_EQ(plain.field("x-both"), "listener");
  plain.respond(200, "fine");
  rig.expect_ended(HttpEnd::kOk, 2);
}

TEST_P(HttpRouteActions, ChangesEveryResponse) {
  rig.config().response_headers = {set("x-served", "%{listener} %{method} %{path}"),
                                   {.name = config::FieldName::parse("server").value(), .remove = true}};
  forward("/a").response_headers = {set("x-route", "a")};
  route("/b").respond.emplace().status = 418;
  rig.config().routes.back().response_headers = {set("x-route", "b")};
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& forwarded = client.send_request("GET", "/a");
  next_request().respond(200, {{"server", "origin"}}, true);
  rig.expect_response(forwarded, 200, "");
  EXPECT_EQ(forwarded.field("x-served"), "edge GET /a");
  EXPECT_EQ(forwarded.field("x-route"), "a");
  EXPECT_EQ(forwarded.field("server"), "");
  PeerStream& own = client.send_request("GET", "/b");
  rig.expect_response(own, 418, "");
  EXPECT_EQ(own.field("x-served"), "edge GET /b");
  EXPECT_EQ(own.field("x-route"), "b");
  PeerStream& none = client.send_request("GET", "/c");
  rig.wait_over(none);
  EXPECT_EQ(none.head.status, 404);
  EXPECT_EQ(none.field("x-served"), "edge GET /c");
  PeerStream& failed = client.send_request("POST", "/a");  // It is not retried.
  next_request().cancel();
  rig.wait_over(failed);
  EXPECT_EQ(failed.head.status, 502);
  EXPECT_EQ(failed.field("x-route"), "a");
}

// An interim response is not changed.
TEST_P(HttpRouteActions, DoesNotChangeInterimResponses) {
  forward("/").response_headers = {set("x-route", "a")};
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& got = next_request();
  got.respond(103, {{"link", "</a>"}}, false);
  got.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
  ASSERT_EQ(stream.interim.size(), 1u);
  EXPECT_EQ(stream.field("x-route"), "a");
}

TEST_P(HttpRouteActions, ChoosesByMethodAndFields) {
  config::HttpRoute& reads = forward("/");
  reads.match->method = {"GET", "HEAD"};
  reads.request_headers = {set("x-took", "reads")};
  config::HttpRoute& beta = forward("/");
  beta.match->headers.push_back({{.exact = "yes"}, config::FieldName::parse("x-beta").value()});
  beta.request_headers = {set("x-took", "beta")};
  config::HttpRoute& local = forward("/");
  local.match->source = {config::Cidr::parse("127.0.0.0/8").value()};
  local.match->query.push_back({{.contains = "b"}, "a"});
  local.request_headers = {set("x-took", "local")};
  rig.start();
  HttpPeer& client = rig.connect();
  const auto took = [&](std::string_view method, std::string_view path, test::FieldList fields) {
    PeerStream& stream = client.send_request(method, path, fields);
    PeerStream& got = next_request();
    got.respond(204, {}, true);
    rig.wait_over(stream);
    return got.field("x-took");
  };
  EXPECT_EQ(took("GET", "/", {}), "reads");
  EXPECT_EQ(took("GET", "/?a=abc", {{"x-beta", "yes"}}), "reads");
  EXPECT_EQ(took("DELETE", "/?a=abc", {{"x-beta", "yes"}}), "beta");
  EXPECT_EQ(took("DELETE", "/?a=abc", {{"x-beta", "no"}}), "local");
  PeerStream& none = client.send_request("DELETE", "/?a=xyz");
  rig.wait_over(none);
  EXPECT_EQ(none.head.status, 404);
}

SLUICE_EACH_VERSION(HttpRouteActions);

}  // namespace
}  // namespace sluice
