// Checks of the HTTP keys beyond their types: in the order of a file, and with the position of each finding.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"

namespace sluice::config {
namespace {

struct Case {
  std::string text;
  std::string errors;
};

void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const absl::StatusOr<Config> config = load_text(c.text, "f");
    EXPECT_EQ(config.ok() ? "" : config.status().message(), c.errors) << c.text;
  }
}

constexpr std::string_view kUpstreams = "upstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] } ]\n";

// `fields` begin at column 54 of line 1.
std::string with_http(std::string_view fields, std::string_view upstreams = kUpstreams) {
  return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { ", fields, " } } ]\n", upstreams);
}

// `route` begins at column 66 of line 1.
std::string with_route(std::string_view route) { return with_http(absl::StrCat("routes: [ { ", route, " } ]")); }

// `path` begins at column 83 of line 1.
std::string with_path(std::string_view path, std::string_view rest = "") {
  return with_http(absl::StrCat("routes: [ { match: { path: { ", path, " } }, forward: web } ]", rest));
}

// `fields` begin at column 55 of line 2.
std::string with_upstream(std::string_view fields, std::string_view listener = "http: { forward: web }") {
  return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, ", listener, " } ]\n",
                      "upstreams: [ { name: web, endpoints: [ 127.0.0.1:9 ], ", fields, " } ]\n");
}

TEST(LoaderHttp, TcpOrHttp) {
  expect_errors({
      {with_http("forward: web"), ""},
      {absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, tcp: { forward: web }, http: { forward: web } } ]\n",
                    kUpstreams),
       "f:1:14: listeners[0]: `tcp` and `http` exclude each other: what is done with a connection depends on its "
       "listener"},
      {absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80 } ]\n", kUpstreams),
       "f:1:14: missing key \"tcp\" or \"http\" in listeners[0]"},
  });
}

TEST(LoaderHttp, Forwards) {
  expect_errors({
      {with_http("via: x"), "f:1:52: listeners[0].http: expected `forward: NAME` or `routes: [ ... ]`"},
      {with_http("forward: web, routes: [ { forward: web } ]"),
       "f:1:52: listeners[0].http: `forward` and `routes` exclude each other: make it the last of the routes, without "
       "`match`"},
      {with_http("routes: []"), "f:1:62: listeners[0].http.routes: expected at least one item, got an empty list"},
      {with_http("forward: wbe"),
       "f:1:63: listeners[0].http.forward: there is no upstream \"wbe\"; did you mean \"web\"?"},
      {with_route("match: { host: a.b }"),
       "f:1:64: listeners[0].http.routes[0]: expected `forward: NAME`, `respond: { status: 404 }` or `redirect: { "
       "scheme: https }`"},
      {with_route("forward: web, respond: { status: 404 }"),
       "f:1:64: listeners[0].http.routes[0]: `forward`, `split`, `respond`, `redirect` and `readiness` exclude each "
       "other"},
      {with_route("redirect: { path: / }, respond: { status: 404 }"),
       "f:1:64: listeners[0].http.routes[0]: `forward`, `split`, `respond`, `redirect` and `readiness` exclude each "
       "other"},
      {with_upstream("protocol: tcp"),
       "f:1:63: listeners[0].http.forward: upstream \"web\" has `protocol: tcp`: give it http1 or http2 to send it "
       "requests"},
      {with_upstream("protocol: http1", "tcp: { forward: web }"), ""},
      {with_upstream("protocol: http2", "tcp: { forward: web }"), ""},
      {with_upstream("send_proxy_protocol: v2", "tcp: { forward: web }"), ""},
      {with_upstream("send_proxy_protocol: v2"),
       "f:2:76: upstreams[0].send_proxy_protocol: requests of different clients share a connection, and "
       "listeners[0].http.forward (1:63) sends requests; X-Forwarded-For carries their addresses"},
  });
}

TEST(LoaderHttp, Retries) {
  expect_errors({
      {with_route("forward: web, retry: { retriable_status_codes: [ 400, 429, 599 ] }"), ""},
      {with_route("forward: web, retry: { retriable_status_codes: 302 }"),
       "f:1:113: listeners[0].http.routes[0].retry.retriable_status_codes[0]: expected a status from 400 to 599, got "
       "302"},
      {with_route("forward: web, retry: { retriable_status_codes: 600 }"),
       "f:1:113: listeners[0].http.routes[0].retry.retriable_status_codes[0]: expected a status from 400 to 599, got "
       "600"},
  });
}

TEST(LoaderHttp, Mirrors) {
  expect_errors({
      {with_route("forward: web, mirror: { to: web }"), ""},
      {with_route("forward: web, mirror: [ { to: web }, { to: web, percent: 3 } ]"), ""},
      {with_route("forward: web, mirror: [ { to: web }, { to: wbe } ]"),
       "f:1:109: listeners[0].http.routes[0].mirror[1].to: there is no upstream \"wbe\"; did you mean \"web\"?"},
      {with_route("respond: {}, mirror: { to: web }"),
       "f:1:87: listeners[0].http.routes[0].mirror: needs `forward`: otherwise no request is forwarded"},
  });
}

TEST(LoaderHttp, Hedges) {
  expect_errors({
      {with_route("forward: web, retry: { hedge_after: 100ms }"), ""},
      {with_route("forward: web, retry: { hedge_after: 100ms, attempts: 1 }"),
       "f:1:102: listeners[0].http.routes[0].retry.hedge_after: needs `attempts` of 2 or more: the second endpoint is "
       "one of them"},
      {with_route("forward: web, retry: { hedge_after: 2s, on: timeout, try_timeout: 1s }"),
       "f:1:102: listeners[0].http.routes[0].retry.hedge_after: must be below try_timeout (1s), got 2s"},
  });
}

TEST(LoaderHttp, Buffers) {
  expect_errors({
      {with_route("forward: web, buffer: { responses: 1MiB }"), ""},
      {with_route("forward: web, buffer: {}"),
       "f:1:88: listeners[0].http.routes[0].buffer: expected `requests` or `responses`, with a size"},
      {with_route("respond: {}, buffer: { requests: 1MiB }"),
       "f:1:87: listeners[0].http.routes[0].buffer: needs `forward`: otherwise no request is forwarded"},
  });
}

TEST(LoaderHttp, Matches) {
  expect_errors({
      {with_route("match: {}, forward: web"),
       "f:1:73: listeners[0].http.routes[0].match: expected `host`, `path`, `method`, `headers`, `query`, `source` or "
       "`peer`; for a route that takes everything leave `match` out"},
      {with_route("match: { host: a.b:80 }, forward: web"),
       "f:1:81: listeners[0].http.routes[0].match.host[0]: expected a server name such as a.example.com, "
       "\"*.example.com\" or \"**.example.com\", got \"a.b:80\""},
      {with_route("match: { host: [ a.b, { } ] }, forward: web"),
       "f:1:88: listeners[0].http.routes[0].match.host[1]: expected host name, got a map"},
      {with_route("match: { host: [] }, forward: web"),
       "f:1:81: listeners[0].http.routes[0].match.host: expected at least one item, got an empty list"},
      {with_route("match: { path: /v1 }, forward: web"),
       "f:1:81: listeners[0].http.routes[0].match.path: expected a map, got \"/v1\"; write { prefix: PATH }, { exact: "
       "PATH } or { regex: REGEX }"},
      {with_route("match: { peer: a }, forward: web"),
       "f:1:81: listeners[0].http.routes[0].match.peer: needs `alts`, or `tls` with `client_certificate`: otherwise "
       "clients are not authenticated"},
  });
}

TEST(LoaderHttp, MoreMatches) {
  const std::string at = "listeners[0].http.routes[0].match.";
  expect_errors({
      {with_route("match: { method: GET, source: 10.0.0.0/8 }, forward: web"), ""},
      {with_route("match: { headers: [ { name: X-A }, { name: x-b, exact: c, not: true } ] }, forward: web"), ""},
      {with_route("match: { query: [ { name: a, prefix: b, suffix: c, contains: d } ] }, forward: web"), ""},
      {with_route("match: { method: get }, forward: web"),
       "f:1:83: " + at + "method[0]: expected a method such as GET, in capitals, got \"get\""},
      {with_route("match: { method: [ GET, \"A B\" ] }, forward: web"),
       "f:1:90: " + at + "method[1]: expected a method such as GET, in capitals, got \"A B\""},
      {with_route("match: { headers: [ x-a ] }, forward: web"),
       "f:1:86: " + at + "headers[0]: expected a map, got \"x-a\"; write { name: FIELD, exact: VALUE }"},
      {with_route("match: { headers: [ { exact: a } ] }, forward: web"),
       "f:1:86: missing key \"name\" in " + at + "headers[0]"},
      {with_route("match: { headers: [ { name: \"a b\" } ] }, forward: web"),
       "f:1:94: " + at + "headers[0].name: expected the name of a header field such as x-env, got \"a b\""},
      {with_route("match: { headers: [ { name: Host, exact: a } ] }, forward: web"),
       "f:1:94: " + at + "headers[0].name: Host is no field here: write `match: { host: NAME }`"},
      {with_route("match: { query: [ { name: \"\" } ] }, forward: web"),
       "f:1:92: " + at + "query[0].name: expected the name of a parameter"},
      {with_route("match: { source: 10.0.0.1/8 }, forward: web"),
       "f:1:83: " + at +
           "source[0]: expected an address range such as 10.0.0.0/8 or \"2001:db8::/32\", got \"10.0.0.1/8\"; bits "
           "are set beyond the prefix, did you mean 10.0.0.0/8?"},
  });
}

TEST(LoaderHttp, Redirects) {
  const std::string at = "listeners[0].http.routes[0].redirect";
  const std::string prefix = "match: { path: { prefix: /a } }, ";
  expect_errors({
      {with_route("redirect: { scheme: https }"), ""},
      {with_route("redirect: { status: 308, scheme: https, host: \"[::1]\", port: 8443, path: /a }"), ""},
      {with_route(prefix + "redirect: { prefix: /b, drop_query: true }"), ""},
      {with_route("redirect: {}"),
       "f:1:76: " + at +
           ": expected `scheme`, `host`, `port`, `path`, `prefix` or `regex`: it redirects to the same URL"},
      {with_route("redirect: { status: 200, path: / }"),
       "f:1:86: " + at + ".status: must be from 301 to 308, got \"200\""},
      {with_route("redirect: { status: 304, path: / }"),
       "f:1:86: " + at + ".status: expected 301, 302, 303, 307 or 308, got \"304\""},
      {with_route("redirect: { scheme: ftp }"), "f:1:86: " + at + ".scheme: expected http or https, got \"ftp\""},
      {with_route("redirect: { host: a.b:80 }"),
       "f:1:84: " + at + ".host: expected a host such as a.example.com, got \"a.b:80\"; its port is `port`"},
      {with_route("redirect: { port: 65536 }"), "f:1:84: " + at + ".port: must be from 0 to 65535, got \"65536\""},
      {with_route("redirect: { path: a }"), "f:1:84: " + at + ".path: expected a path such as /v1, got \"a\""},
      {with_route("redirect: { prefix: /b }"),
       "f:1:86: " + at + ".prefix: needs `match: { path: { prefix: PATH } }`, which it replaces"},
      {with_route(prefix + "redirect: { prefix: /b, path: /c }"),
       "f:1:109: " + at + ": `path`, `prefix` and `regex` exclude each other"},
  });
}

TEST(LoaderHttp, Rewrites) {
  const std::string at = "listeners[0].http.routes[0].rewrite";
  expect_errors({
      {with_route("match: { path: { prefix: /a } }, forward: web, rewrite: { prefix: / }"), ""},
      {with_route("forward: web, rewrite: { host: a.b:8080 }"), ""},
      {with_route("forward: web, rewrite: { host: \"[::1]:8080\", path: /b }"), ""},
      {with_route("forward: web, rewrite: {}"), "f:1:89: " + at + ": expected `path`, `prefix`, `regex` or `host`"},
      {with_route("respond: {}, rewrite: { path: /b }"),
       "f:1:88: " + at + ": needs `forward`: otherwise no request is forwarded"},
      {with_route("forward: web, rewrite: { host: \"*.b\" }"),
       "f:1:97: " + at + ".host: expected a host such as a.example.com, or a.example.com:8080, got \"*.b\""},
      {with_route("forward: web, rewrite: { host: \"a.b:99999\" }"),
       "f:1:97: " + at + ".host: expected a host such as a.example.com, or a.example.com:8080, got \"a.b:99999\""},
      {with_route("forward: web, rewrite: { path: /a/../b }"),
       "f:1:97: " + at + ".path: paths are compared in their canonical form: for \"/a/../b\" write \"/b\""},
  });
}

TEST(LoaderHttp, FieldChanges) {
  const std::string at = "listeners[0].http.routes[0].";
  expect_errors({
      {with_route("forward: web, request_headers: [ { name: X-A, set: \"%{client_ip}\" }, { name: b, add: c }, "
                  "{ name: d, remove: true } ]"),
       ""},
      {with_route("respond: {}, response_headers: [ { name: a, set: 100%% } ]"), ""},
      {with_http("forward: web, request_headers: [ { name: a, set: b } ], response_headers: [ { name: a, set: b } ]"),
       ""},
      {with_route("respond: {}, request_headers: [ { name: a, set: b } ]"),
       "f:1:96: " + at + "request_headers: needs `forward`: otherwise no request is forwarded"},
      {with_route("forward: web, request_headers: [ { name: a } ]"),
       "f:1:99: " + at + "request_headers[0]: expected `set: VALUE`, `add: VALUE` or `remove: true`"},
      {with_route("forward: web, request_headers: [ { name: a, set: b, add: c } ]"),
       "f:1:99: " + at + "request_headers[0]: `set`, `add` and `remove` exclude each other"},
      {with_route("forward: web, request_headers: [ { name: Host, set: b } ]"),
       "f:1:107: " + at + "request_headers[0].name: Host is no field here: write `rewrite: { host: NAME }`"},
      {with_route("forward: web, request_headers: [ { name: Transfer-Encoding, remove: true } ]"),
       "f:1:107: " + at +
           "request_headers[0].name: \"transfer-encoding\" is the proxy's own affair: it belongs to one connection, or "
           "says how long a message is"},
      {with_route("split: [ { forward: web, request_headers: [ { name: a } ] }, { forward: web } ]"),
       "f:1:110: " + at + "split[0].request_headers[0]: expected `set: VALUE`, `add: VALUE` or `remove: true`"},
      {with_http("forward: web, response_headers: [ { name: upgrade, set: b } ]"),
       "f:1:96: listeners[0].http.response_headers[0].name: \"upgrade\" is the proxy's own affair: it belongs to one "
       "connection, or says how long a message is"},
      {with_route("forward: web, request_headers: [ { name: a, set: \"%{clientip}\" } ]"),
       "f:1:115: " + at + "request_headers[0].set: there is no variable \"clientip\"; did you mean %{client_ip}?"},
  });
}

TEST(LoaderHttp, PathsAreCanonical) {
  const std::string exact = "f:1:90: listeners[0].http.routes[0].match.path.exact: ";
  const std::string prefix = "f:1:91: listeners[0].http.routes[0].match.path.prefix: ";
  expect_errors({
      {with_path(""),
       "f:1:81: listeners[0].http.routes[0].match.path: expected `prefix: PATH`, `exact: PATH` or `regex: REGEX`"},
      {with_path("exact: /, prefix: /"),
       "f:1:81: listeners[0].http.routes[0].match.path: `prefix`, `exact` and `regex` exclude each other"},
      {with_path("exact: v1"), exact + "expected a path such as /v1, got \"v1\""},
      {with_path("exact: \"*\""), exact + "expected a path such as /v1, got \"*\""},
      {with_path("exact: /a/../b"), exact + "paths are compared in their canonical form: for \"/a/../b\" write \"/b\""},
      {with_path("prefix: /%7ea%c3%a9/"),
       prefix + "paths are compared in their canonical form: for \"/%7ea%c3%a9/\" write \"/~a%C3%A9/\""},
      {with_path("prefix: '/a?b'"), prefix + "the query does not count: write \"/a\""},
      {with_path("exact: /\xc3\xa9"),
       exact + "no request has such a path: \"/\xc3\xa9\" has a character that must be escaped"},
      {with_path("exact: /a%2Fb"), exact + "no request has such a path: \"/a%2Fb\" has an escaped slash or backslash"},
      {with_path("exact: /a%2Fb", ", paths: { escaped_slashes: keep }"), ""},
      {with_path("exact: /a%2Fb", ", paths: { escaped_slashes: decode }"),
       exact + "paths are compared in their canonical form: for \"/a%2Fb\" write \"/a/b\""},
      {with_path("prefix: /a//b"), ""},
      {with_path("prefix: /a//b", ", paths: { merge_slashes: true }"),
       prefix + "paths are compared in their canonical form: for \"/a//b\" write \"/a/b\""},
      {with_path("exact: \"/a b\""),
       exact + "no request has such a path: \"/a b\" has a character that must be escaped"},
      {with_path("exact: /a#b"), exact + "no request has such a path: \"/a#b\" has a fragment"},
  });
}

TEST(LoaderHttp, Responses) {
  const std::string at = "listeners[0].http.routes[0].respond";
  expect_errors({
      {with_route("respond: {}"), ""},
      {with_route("respond: 404"), "f:1:75: " + at + ": expected a map, got \"404\""},
      {with_route("respond: { status: 100 }"), "f:1:85: " + at + ".status: must be from 200 to 599, got \"100\""},
      {with_route("respond: { status: 600 }"), "f:1:85: " + at + ".status: must be from 200 to 599, got \"600\""},
      {with_route("respond: { status: 204, body: x }"),
       "f:1:96: " + at + ".body: a response of 204 has no body: leave it out"},
      {with_route("respond: { status: 304, body: x }"),
       "f:1:96: " + at + ".body: a response of 304 has no body: leave it out"},
      {with_route("respond: { status: 204 }"), ""},
      {with_route("respond: { content_type: \"a\\r\\nb: c\" }"),
       "f:1:91: " + at + ".content_type: expected a type such as text/html; charset=utf-8, got \"a\\r\\nb: c\""},
      {with_route("respond: { content_type: \"a \" }"),
       "f:1:91: " + at + ".content_type: expected a type such as text/html; charset=utf-8, got \"a \""},
      {with_route("respond: { content_type: \"\" }"),
       "f:1:91: " + at + ".content_type: expected a type such as text/html; charset=utf-8, got \"\""},
  });
}

TEST(LoaderHttp, RoutesThatAreNeverTaken) {
  const auto with_routes = [](const std::vector<std::string>& matches) {
    std::string text = "listeners:\n- name: a\n  address: 0.0.0.0:80\n  http:\n    routes:\n";
    for (const std::string& match : matches) {
      absl::StrAppend(&text, "    - { ", match.empty() ? "" : absl::StrCat("match: { ", match, " }, "),
                      "forward: web }\n");
    }
    return absl::StrCat(text, kUpstreams);
  };
  const auto never = [](int route, int by, std::string_view others = "") {
    return absl::StrCat("f:", 6 + route, ":7: listeners[0].http.routes[", route,
                        "]: never taken: its requests go to listeners[0].http.routes[", by, "] (", 6 + by, ":7)",
                        others);
  };
  const std::string v1 = "path: { prefix: /v1 }", v1_x = "path: { prefix: /v1/x }", host = "host: a.example.com";
  expect_errors({
      {with_routes({"", v1}),
       "f:6:7: listeners[0].http.routes[0]: a route without `match` takes every request: it must be the last one"},
      {with_routes({v1_x, v1, ""}), ""},
      {with_routes({v1, v1_x}), never(1, 0)},
      {with_routes({v1, v1}), never(1, 0)},
      {with_routes({v1, "path: { prefix: /v10 }", "path: { prefix: /v1/ }"}), never(2, 0)},
      {with_routes({"path: { prefix: /v1/ }", v1}), ""},
      {with_routes({"path: { prefix: /v1/ }", "path: { exact: /v1 }", v1}), never(2, 0, " and others before it")},
      {with_routes({"path: { prefix: / }", host}), ""},  // OPTIONS * is left.
      {with_routes({"path: { prefix: / }", host + ", " + v1}), never(1, 0)},
      {with_routes({host, v1}), ""},
      {with_routes({host, host + ", " + v1}), never(1, 0)},
      {with_routes({"host: \"*.example.com\"", host + ", " + v1}), never(1, 0)},
      {with_routes({host, "host: \"*.example.com\""}), ""},
      {with_routes({"host: \"**.example.com\"", "host: \"*.example.com\""}), never(1, 0)},
      {with_routes({"host: \"*.example.com\"", "host: \"**.example.com\""}), ""},
      {with_routes({"host: \"**.com\"", "host: \"**.example.com\""}), never(1, 0)},
      {with_routes({"host: \"**.example.com\"", "host: \"**.com\""}), ""},
      {with_routes({host, "host: [ a.example.com, b.example.com ]"}), ""},
      {with_routes({host, "host: b.example.com", "host: [ a.example.com, b.example.com ]"}),
       never(2, 0, " and others before it")},
  });
}

TEST(LoaderHttp, Bounds) {
  const auto with = [](std::string_view fields) { return with_http(absl::StrCat("forward: web, ", fields)); };
  const std::string at = "listeners[0].http.";
  expect_errors({
      {with("header_timeout: 0"), "f:1:84: " + at + "header_timeout: must not be 0, got \"0\""},
      {with("max_head: 65KiB"), "f:1:78: " + at + "max_head: must be from 1KiB to 64KiB, got \"65KiB\""},
      {with("max_head: 4KiB"), "f:1:52: " + at + "max_start_line: must not be above max_head (4KiB), got 8KiB"},
      {with("http2: { connection_window: 65535 }"),
       "f:1:96: " + at + "http2.connection_window: must be from 64KiB to 1GiB, got \"65535\""},
      {with("http2: { stream_window: 2MiB }"),
       "f:1:92: " + at + "http2.stream_window: must not be above connection_window (1MiB), got 2MiB"},
      {with("via: \"a b\""),
       "f:1:73: " + at + "via: expected a name such as sluice or edge.example.com:443, got \"a b\""},
      {with("via: \"\""), ""},
      {with("access_log: off"), "f:1:80: " + at +
                                    "access_log: expected a file, stdout, stderr, syslog or otlp:UPSTREAM, got "
                                    "\"off\"; for no log leave the key out"},
      {with("forwarded_for: on"), "f:1:83: " + at + "forwarded_for: expected one of append, replace, off, got \"on\""},
      {with("paths: { escaped_slashes: allow }"),
       "f:1:94: " + at + "paths.escaped_slashes: expected one of reject, keep, decode, got \"allow\""},
      {with_upstream("pool: { max_pending: 0 }"), "f:2:76: upstreams[0].pool.max_pending: must not be 0, got \"0\""},
  });
}

TEST(LoaderHttp, Alpn) {
  const auto listener = [](std::string_view alpn) {
    return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { forward: web }, tls: { ", alpn,
                        "certificates: [ { chain: a, key: b } ] } } ]\n", kUpstreams);
  };
  const auto upstream = [](std::string_view protocol, std::string_view alpn, std::string_view forward = "http") {
    return with_upstream(absl::StrCat("protocol: ", protocol, ", tls: { verify: false, ", alpn, " }"),
                         absl::StrCat(forward, ": { forward: web }"));
  };
  const std::string http1 =
      "expected http/1.1 only, since the endpoints are to speak HTTP/1.1 (for HTTP/2: "
      "`protocol: http2`)";
  expect_errors({
      {listener("alpn: [ http/1.1 ], "), ""},
      {listener("alpn: [ h2, http/1.0 ], "),
       "f:1:89: listeners[0].tls.alpn[1]: `http` speaks h2 and http/1.1, got \"http/1.0\""},
      {upstream("http2", "alpn: [ h2 ]"), ""},
      {upstream("http2", "alpn: [ h2, http/1.1 ]"),
       "f:2:100: upstreams[0].tls.alpn: expected h2 only, since the endpoints are to speak HTTP/2"},
      {upstream("http1", "alpn: [ http/1.1 ]"), ""},
      {upstream("http1", "alpn: [ h2, http/1.1 ]"), "f:2:100: upstreams[0].tls.alpn: " + http1},
      {upstream("auto", "alpn: [ h2 ]"), "f:2:99: upstreams[0].tls.alpn: " + http1},
      {upstream("auto", "alpn: [ h2 ]", "tcp"), ""},
  });

  const auto alpn_of = [](std::string_view text) {
    const absl::StatusOr<Config> config = load_text(text, "f");
    EXPECT_TRUE(config.ok()) << config.status();
    const absl::StatusOr<Config> again = load_text(print_config(*config), "printed");
    EXPECT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *config);
    return config->listeners[0].tls ? config->listeners[0].tls->alpn : config->upstreams[0].tls->alpn;
  };
  EXPECT_EQ(alpn_of(listener("")), (std::vector<std::string>{"h2", "http/1.1"}));
  EXPECT_EQ(alpn_of(upstream("http2", "")), std::vector<std::string>{"h2"});
  EXPECT_EQ(alpn_of(upstream("http1", "")), std::vector<std::string>{});
}

TEST(LoaderHttp, ForwardIsARouteWithoutConditions) {
  const std::vector<HttpRoute> routes = routes_of(Http{.forward = "web", .routes = {}});
  ASSERT_EQ(routes.size(), 1);
  EXPECT_EQ(routes[0], (HttpRoute{.match = std::nullopt, .forward = "web", .respond = std::nullopt}));
  EXPECT_EQ(routes_of(Http{.forward = "", .routes = {{.match = std::nullopt, .forward = "x", .respond = std::nullopt}}})
                .front()
                .forward,
            "x");
}

}  // namespace
}  // namespace sluice::config
