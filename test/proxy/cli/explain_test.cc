#include "proxy/cli/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"

namespace sluice {
namespace {

constexpr std::string_view kConfig = R"(
listeners:
  - name: plain
    address: 0.0.0.0:80
    http:
      via: ""
      forwarded_for: "off"
      routes:
        - match: { host: [ a.test, "*.b.test" ], path: { exact: /one } }
          forward: api
        - match: { method: [ PUT, POST ] }
          respond: { status: 405 }
        - match: { headers: [ { name: x-a, prefix: b, suffix: c } ] }
          respond: { status: 201, body: "four" }
        - match: { headers: [ { name: x-gone, not: true } ], query: [ { name: q, contains: d } ] }
          redirect: { status: 307, path: /else }
        - match: { source: [ 10.0.0.0/8, "::1" ] }
          respond: { status: 204 }
        - match: { path: { prefix: /api/ } }
          forward: api
          rewrite: { prefix: /, host: "inner:81" }
          request_headers: [ { name: x-from, set: "%{client_ip}" } ]
  - name: other
    address: 0.0.0.0:8080
    http: { forward: api }
  - name: db
    address: 0.0.0.0:5432
    tcp: { forward: api }
upstreams:
  - name: api
    protocol: http2
    balance: random
    endpoints: [ 10.0.0.1:1, { address: 10.0.0.2:2, weight: 3 } ]
)";

std::string explained(ExplainedRequest request, std::string_view text = kConfig) {
  const absl::StatusOr<config::Config> config = config::load_text(text, "f");
  EXPECT_TRUE(config.ok()) << config.status();
  const absl::StatusOr<std::string> result = explain(*config, request);
  return result.ok() ? *result : absl::StrCat("error: ", result.status().message());
}

TEST(Explain, EachFailingCondition) {
  EXPECT_EQ(explained({.url = "http://a.test/api/./x?y=z", .fields = {{"X-A", "bd"}, {"x-gone", "no"}}}),
            R"(request     GET http://a.test/api/./x?y=z
listener    plain (0.0.0.0:80, plain)
path        /api/x, in its canonical form; query y=z
routes      routes[0]: no: the path is not /one
            routes[1]: no: the method is not PUT, POST
            routes[2]: no: the field x-a must begin with "b" and end with "c"
            routes[3]: no: the field x-gone must not be there
            routes[4]: no: 127.0.0.1 is not in 10.0.0.0/8, ::1/128
            routes[5]: taken
upstream    api: random over 10.0.0.1:1, 10.0.0.2:2 (weight 3)
times       connect 5s, response 1m, idle 5m, whole request unlimited
limits      3 connections tried, 1024 requests waiting for one, retries 20 %, or 100 in ten seconds
sends       GET /x?y=z HTTP/2
            host: inner:81
            x-a: bd
            x-gone: no
            x-from: 127.0.0.1
)");
}

// Defect: explain printed that a request is forwarded which the proxy refuses: too long a body, CONNECT, a websocket.
TEST(Explain, TooLargeOrNotAllowed) {
  const auto outcome = [](ExplainedRequest request, std::string_view keys) {
    request.url = "http://a.test/";
    const std::string text =
        explained(std::move(request), absl::StrCat(R"(
listeners:
  - name: a
    address: 0.0.0.0:80
    http: { )",
                                                   keys, R"(, routes: [ { forward: u, max_body: 1KiB } ] }
upstreams: [ { name: u, endpoints: [ 1.2.3.4:5 ], max_connections_per_endpoint: 7 } ]
)"));
    const size_t at = std::min(text.find("response    "), text.find("limits      "));
    return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
  };
  const std::string limits =
      "limits      body 1KiB, 7 requests to one endpoint, 3 connections tried, 1024 requests waiting for one, "
      "retries 20 %, or 100 in ten seconds";
  EXPECT_EQ(outcome({.method = "PUT", .fields = {{"content-length", "1024"}}}, "via: a"), limits);
  EXPECT_EQ(outcome({.method = "PUT", .fields = {{"content-length", "1025"}}}, "via: a"),
            "response    413, a body of 1025 bytes, where 1024 are allowed");
  EXPECT_EQ(outcome({.method = "CONNECT"}, "via: a"), "response    501, because allow_connect is off");
  EXPECT_EQ(outcome({.method = "CONNECT"}, "allow_connect: true"), limits);
  EXPECT_EQ(outcome({.method = "GET", .fields = {{"upgrade", "WebSocket"}}}, "websocket: false"),
            "response    501, because websocket is off");
  EXPECT_EQ(outcome({.method = "GET", .fields = {{"upgrade", "websocket"}}}, "via: a"), limits);
}

// Defect: only the first upstream of a split was printed.
TEST(Explain, EachUpstreamOfASplit) {
  const std::string text = explained({.url = "http://a.test/"}, R"(
listeners:
  - name: a
    address: 0.0.0.0:80
    http: { routes: [ { split: [ { forward: u, weight: 3 }, { forward: v } ] } ] }
upstreams: [ { name: u, endpoints: [ 1.2.3.4:5 ] }, { name: v, endpoints: [ 1.2.3.5:5 ] } ]
)");
  for (const char* line :
       {"split       u (weight 3), v (weight 1)\n", "upstream    u: 1.2.3.4:5\n", "upstream    v: 1.2.3.5:5\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST(Explain, Authorizers) {
  const std::string text = explained({.url = "http://a.test/", .fields = {{"x-user", "me"}, {"cookie", "a=b"}}}, R"(
listeners:
  - name: a
    address: 0.0.0.0:80
    http:
      routes: [ { forward: u, forward_auth: { to: v, path: /verify, response_headers: [ X-User, cookie ] } } ]
upstreams: [ { name: u, endpoints: [ 1.2.3.4:5 ] }, { name: v, endpoints: [ 1.2.3.5:5 ] } ]
)");
  for (const char* const line :
       {"access      asks v for /verify; assumed allowed here\n", " x-user: (from v)\n", " cookie: (from v)\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_EQ(text.find("x-user: me"), std::string::npos) << text;
}

TEST(Explain, AuthorizersByGrpc) {
  const std::string text = explained({.url = "http://a.test/"}, R"(
listeners:
  - name: a
    address: 0.0.0.0:80
    http:
      routes: [ { forward: u, ext_authz: { to: v } } ]
upstreams: [ { name: u, endpoints: [ 1.2.3.4:5 ] }, { name: v, protocol: http2, endpoints: [ 1.2.3.5:5 ] } ]
)");
  EXPECT_NE(text.find("access      asks v by ext_authz; assumed allowed here\n"), std::string::npos) << text;
}

// Defect: a client's field was shown as forwarded where another route makes it from the peer.
TEST(Explain, FieldsThatClientsMayNotSet) {
  const std::string text = explained({.url = "http://a.test/", .fields = {{"x-who", "me"}, {"x-else", "kept"}}}, R"(
listeners:
  - name: a
    address: 0.0.0.0:80
    http:
      routes:
        - match: { path: { exact: /a } }
          forward: u
          request_headers: [ { name: x-who, set: "%{peer}" } ]
        - forward: u
upstreams: [ { name: u, endpoints: [ 1.2.3.4:5 ] } ]
)");
  EXPECT_EQ(text.find("x-who"), std::string::npos) << text;
  EXPECT_NE(text.find("x-else: kept"), std::string::npos) << text;
}

TEST(Explain, HealthOfAnUpstream) {
  const auto health = [](std::string_view keys) {
    const std::string text =
        explained({.url = "http://a.test/"},
                  absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { forward: u } } ]\n",
                               "upstreams: [ { name: u, protocol: http2, endpoints: [ 1.2.3.4:5 ], ", keys, " } ]\n"));
    const size_t at = text.find("health      ");
    return at == std::string::npos ? "" : text.substr(at + 12, text.find('\n', at) - at - 12);
  };
  EXPECT_EQ(health("nodelay: true"), "");
  EXPECT_EQ(health("health_check: {}"), "checked every 5s by a connection");
  EXPECT_EQ(health("health_check: { port: 81, http: { path: /up } }, ejection: {}"),
            "checked every 5s by GET /up at port 81; ejected for 30s after 5 errors in a row");
  EXPECT_EQ(health("health_check: { grpc: { service: a.B } }, ejection: { gateway_errors: 2 }"),
            "checked every 5s by grpc.health.v1 of \"a.B\"; ejected for 30s after 5 errors in a row or after 2 gateway "
            "errors in a row");
}

TEST(Explain, Retries) {
  const auto retry = [](std::string method) {
    const std::string text = explained({.method = std::move(method), .url = "http://a.test/"}, R"(
listeners:
  - name: a
    address: 0.0.0.0:80
    http:
      routes:
        - forward: u
          retry: { on: [ 5xx, grpc_unavailable ], attempts: 3, hedge_after: 200ms }
upstreams: [ { name: u, endpoints: [ 1.2.3.4:5, 1.2.3.5:5 ] } ]
)");
    const size_t at = text.find("retry  ");
    return at == std::string::npos ? text : text.substr(at, text.find("\nsends", at) - at);
  };
  EXPECT_EQ(retry("GET"),
            "retry       3 attempts in all, for 5xx, grpc_unavailable\n"
            "hedge       another endpoint after 200ms without a response, as one of the attempts");
  EXPECT_EQ(retry("POST"),
            "retry       3 attempts in all, for 5xx, grpc_unavailable\n"
            "hedge       none: POST is not idempotent");
}

TEST(Explain, BufferedBodies) {
  const std::string text = explained({.url = "http://a.test/"}, R"(
body_file: { directory: /srv/bodies }
listeners:
  - name: a
    address: 0.0.0.0:80
    http: { routes: [ { forward: u, buffer: { requests: 1MiB, responses: 8MiB } } ] }
upstreams: [ { name: u, endpoints: [ 1.2.3.4:5 ] } ]
)");
  const size_t at = text.find("buffer  ");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.substr(at, text.find("\nsends", at) - at),
            "buffer      the request is sent when it is complete, or after 1MiB of its body; not for gRPC\n"
            "buffer      up to 8MiB of the response wait for the client in /srv/bodies");
}

TEST(Explain, Responses) {
  const auto last = [](const ExplainedRequest& request) {
    const std::string text = explained(request);
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  EXPECT_EQ(last({.method = "PUT", .url = "http://a.test/"}),
            "response    405, 0 bytes of text/plain; charset=utf-8\n");
  EXPECT_EQ(last({.url = "http://a.test/", .fields = {{"x-a", "bc"}}}),
            "response    201, 4 bytes of text/plain; charset=utf-8\n");
  EXPECT_EQ(last({.url = "http://a.test/?q=d"}), "response    307, Location: /else?q=d\n");
  EXPECT_EQ(last({.url = "http://a.test/", .from = "::1"}), "response    204, 0 bytes of text/plain; charset=utf-8\n");
  EXPECT_EQ(last({.url = "http://a.test"}), "response    404, no route\n");
  EXPECT_EQ(last({.url = "http://a.test/%2F"}), "response    400, the path is not allowed\n");
}

TEST(Explain, Hosts) {
  const auto first_route = [](std::string url, std::string host = "") {
    ExplainedRequest request{.url = std::move(url)};
    if (!host.empty()) request.fields = {{"Host", std::move(host)}};
    const std::string text = explained(request);
    const size_t at = text.find("routes[0]: ") + 11;
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(first_route("http://A.test:80/one#fragment"), "taken");
  EXPECT_EQ(first_route("http://x.b.test/one"), "taken");
  EXPECT_EQ(first_route("http://b.test/one"), "no: the host is not a.test, *.b.test");
  EXPECT_EQ(first_route("http://b.test/one", "a.test"), "taken");
}

TEST(Explain, Listeners) {
  const auto listener = [](const ExplainedRequest& request) {
    const std::string text = explained(request);
    const size_t at = text.find("listener    ");
    return at == std::string::npos ? text : text.substr(at + 12, text.find(' ', at + 12) - at - 12);
  };
  EXPECT_EQ(listener({.url = "http://a.test/"}), "plain");
  EXPECT_EQ(listener({.url = "http://a.test:8080/"}), "other");
  EXPECT_EQ(listener({.url = "https://a.test/", .listener = "other"}), "other");
  EXPECT_EQ(listener({.url = "http://a.test:81/"}),
            "error: no listener has no TLS and port 81; name one of plain (0.0.0.0:80, plain), other (0.0.0.0:8080, "
            "plain)");
  EXPECT_EQ(listener({.url = "http://a.test/", .listener = "db"}),
            "error: there is no listener \"db\" with `http` of plain (0.0.0.0:80, plain), other (0.0.0.0:8080, plain)");
  // The only listener is meant, whatever the port.
  EXPECT_NE(explained({.url = "http://a.test:81/"},
                      "listeners: [ { name: a, address: \"0.0.0.0:8080\", http: { forward: web } } ]\n"
                      "upstreams: [ { name: web, endpoints: [ 127.0.0.1:9 ] } ]\n")
                .find("routes      taken\nupstream    web: 127.0.0.1:9\n"),
            std::string::npos);
}

// The endpoint for the request, where it is not random.
TEST(Explain, Endpoints) {
  const auto lines = [](std::string_view balancing, const ExplainedRequest& request = {.url = "http://a/p?id=7"}) {
    const std::string text =
        explained(request, absl::StrCat("listeners: [ { name: a, address: \"0.0.0.0:80\", http: { forward: web } } ]\n"
                                        "upstreams: [ { name: web, endpoints: [ 10.0.0.1:80, { address: 10.0.0.2:80, "
                                        "weight: 2 }, { address: 10.0.0.3:80, weight: 2, priority: 1 } ]",
                                        balancing, " } ]\n"));
    const size_t begin = text.find("upstream    "), end = text.find("times       ");
    return begin == std::string::npos ? text : text.substr(begin, end - begin);
  };
  const std::string all = "10.0.0.1:80, 10.0.0.2:80 (weight 2), 10.0.0.3:80 (weight 2, priority 1)\n";
  EXPECT_EQ(lines(""), "upstream    web: round_robin over " + all);
  EXPECT_EQ(lines(", sticky: {}"),
            "upstream    web: round_robin over " + all + "endpoint    the response sets the cookie sluice\n");
  const std::string maglev = "upstream    web: maglev over " + all;
  const auto endpoint_of = [](const std::string& text) { return text.substr(text.find("endpoint    ") + 12); };
  EXPECT_EQ(endpoint_of(lines(", balance: maglev, hash: { path: true }")), "10.0.0.2:80, by the path\n");
  EXPECT_EQ(endpoint_of(lines(", balance: maglev, hash: { query: id }")), "10.0.0.1:80, by the parameter id\n");
  EXPECT_EQ(endpoint_of(lines(", balance: ring_hash")), "10.0.0.2:80, by the client's address\n");
  EXPECT_EQ(lines(", balance: maglev, hash: { header: x-user }"),
            maglev + "endpoint    10.0.0.2:80, by the client's address, without the field x-user\n");
  EXPECT_EQ(lines(", balance: maglev, hash: { cookie: sid }, sticky: {}",
                  {.url = "http://a/", .fields = {{"cookie", "sid=1"}}}),
            maglev + "endpoint    10.0.0.1:80, by the cookie sid; the response sets the cookie sluice\n");
}

TEST(Explain, InvalidRequests) {
  EXPECT_EQ(explained({.url = "a.test/"}), "error: expected a URL such as https://a.example.com/path, got \"a.test/\"");
  EXPECT_EQ(explained({.url = "http:///x"}),
            "error: expected a URL such as https://a.example.com/path, got \"http:///x\"");
  EXPECT_EQ(
      explained({.url = "http://a:b/x"}),
      "error: expected a URL such as https://a.example.com/path, got \"http://a:b/x\": the port must be a number up to "
      "65535");
  EXPECT_EQ(explained({.method = "G T", .url = "http://a/"}), "error: expected a method such as GET, got \"G T\"");
  EXPECT_EQ(explained({.url = "http://a/", .from = "nobody"}), "error: expected an IP address, got \"nobody\"");
  EXPECT_EQ(explained({.url = "http://a/", .fields = {{"a b", "c"}}}),
            "error: expected the name of a header field, got \"a b\"");
}

TEST(Explain, ClientAddress) {
  constexpr std::string_view kMutual = R"(
listeners:
  - name: edge
    address: 0.0.0.0:443
    alts: { handshaker: "127.0.0.1:1" }
    http:
      routes:
        - match: { peer: [ a@b, c@d ] }
          forward: web
          request_headers: [ { name: x-who, set: "%{peer}" } ]
upstreams: [ { name: web, endpoints: [ 127.0.0.1:9 ] } ]
)";
  EXPECT_NE(explained({.url = "https://x/"}, kMutual).find("no: the client has not proven to be a@b, c@d\n"),
            std::string::npos);
  EXPECT_NE(explained({.url = "https://x/", .peer = {"c@d"}}, kMutual).find("x-who: c@d\n"), std::string::npos);
}

// explain() checks its result against the router's: whatever the routes are, they agree.
TEST(Explain, AgreesWithTheRouter) {
  std::mt19937 random(7);
  const auto one_of = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  int taken = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text = "listeners:\n  - name: a\n    address: 0.0.0.0:80\n    http:\n      routes:\n";
    const size_t count = 1 + random() % 8;
    for (size_t i = 0; i < count; ++i) {
      std::vector<std::string> conditions;
      if (random() % 2) conditions.push_back(absl::StrCat("host: \"", one_of({"a.x", "*.x", "b.x", "x"}), "\""));
      if (random() % 2)
        conditions.push_back(
            absl::StrCat("path: { ", one_of({"prefix", "exact"}), ": ", one_of({"/", "/a", "/a/", "/a/b"}), " }"));
      if (random() % 4 == 0) conditions.push_back(absl::StrCat("method: ", one_of({"GET", "PUT"})));
      if (conditions.empty() || random() % 4 == 0) {
        conditions.push_back(absl::StrCat("headers: [ { name: ", one_of({"x-a", "x-b"}), one_of({"", ", exact: c"}),
                                          one_of({"", ", not: true"}), " } ]"));
      }
      std::string match;
      for (const std::string& each : conditions) absl::StrAppend(&match, match.empty() ? "" : ", ", each);
      absl::StrAppend(&text, "        - { match: { ", match, " }, forward: web }\n");
    }
    text += "upstreams: [ { name: web, endpoints: [ 127.0.0.1:9 ] } ]\n";
    const absl::StatusOr<config::Config> config = config::load_text(text, "f");
    if (!config.ok()) continue;  // A route that is never taken.
    for (int i = 0; i < 20; ++i) {
      ExplainedRequest request{.method = one_of({"GET", "PUT", "HEAD"}),
                               .url = absl::StrCat("http://", one_of({"a.x", "c.x", "x", "y"}),
                                                   one_of({"/", "/a", "/a/", "/ab", "/a/b", "/a/b/c"}))};
      if (random() % 2) request.fields = {{one_of({"x-a", "x-b"}), one_of({"c", "d"})}};
      const absl::StatusOr<std::string> result = explain(*config, request);
      ASSERT_TRUE(result.ok()) << text << result.status();
      taken += result->find(": taken\n") != std::string::npos;
    }
  }
  EXPECT_GT(taken, 500);
}

TEST(Explain, AccessControl) {
  constexpr std::string_view kAccess = R"(
listeners:
  - name: plain
    address: 0.0.0.0:80
    http:
      deny: 10.66.0.0/16
      routes:
        - match: { path: { regex: "/v[0-9]+/.*" } }
          forward: api
          allow: [ 127.0.0.0/8 ]
          cors: { origins: "https://a.example" }
          auth: { jwt: { jwks_file: keys.json, issuer: me, audience: [ a, b ], claims: [ { claim: sub, header: x-user } ] } }
upstreams: [ { name: api, endpoints: [ 10.0.0.1:1 ] } ]
)";
  const auto last_lines = [&](ExplainedRequest request) {
    const std::string text = explained(std::move(request), kAccess);
    return text.substr(text.find("routes "));
  };
  EXPECT_EQ(last_lines({.url = "http://a.test/v1/x"}), R"(routes      routes[0]: taken
cors        not a cross-origin request
access      needs a token, by keys.json, of me, for a or b
response    401, with WWW-Authenticate
)");
  EXPECT_EQ(last_lines({.url = "http://a.test/v1/x", .from = "10.1.0.0"}), R"(routes      routes[0]: taken
cors        not a cross-origin request
access      10.1.0.0 is not in `allow` of the route
response    403, forbidden
)");
  EXPECT_EQ(last_lines({.url = "http://a.test/x", .from = "10.66.0.1"}),
            R"(routes      routes[0]: no: the path does not fit /v[0-9]+/.*
access      10.66.0.1 is in `deny` of the listener
response    403, forbidden
)");
  EXPECT_EQ(last_lines({.method = "OPTIONS",
                        .url = "http://a.test/v1/x",
                        .fields = {{"origin", "https://b.example"}, {"access-control-request-method", "GET"}}}),
            R"(routes      routes[0]: taken
cors        a preflight of https://b.example may not
response    403, forbidden
)");
  const std::string sent =
      last_lines({.url = "http://a.test/v1/x", .fields = {{"authorization", "Bearer x"}, {"x-user", "me"}}});
  EXPECT_NE(sent.find("for a or b; assumed valid here\n"), std::string::npos) << sent;
  EXPECT_NE(sent.find("            x-user: (the claim sub)\n"), std::string::npos) << sent;
  EXPECT_EQ(sent.find("authorization"), std::string::npos) << sent;
}

TEST(Explain, Maintenance) {
  const auto last_lines = [](std::string_view file) {
    const std::string text = explained({.url = "http://a.test/"}, absl::StrCat(R"(
listeners:
  - name: plain
    address: 0.0.0.0:80
    http:
      routes:
        - forward: api
          maintenance: { file: )",
                                                                               file, R"( }
          auth: { basic: { users_file: users } }
upstreams: [ { name: api, endpoints: [ 10.0.0.1:1 ] } ]
)"));
    return text.substr(text.find("maintenance"));
  };
  EXPECT_EQ(last_lines("/dev/null"), "maintenance /dev/null exists\nresponse    503, down for maintenance\n");
  EXPECT_TRUE(last_lines("/nowhere/down").starts_with("maintenance /nowhere/down does not exist\naccess "));
}

}  // namespace
}  // namespace sluice
