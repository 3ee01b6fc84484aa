// Checks of the keys for access control and of regular expressions, beyond their types.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"

namespace sluice::config {
namespace {

// `route` begins at column 66 of line 1.
std::string with_route(std::string_view route, std::string_view before = "") {
  return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { routes: [ { ", before, route,
                      " } ] } } ]\nupstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] } ]\n");
}

std::string errors_of(std::string_view text) {
  const absl::StatusOr<Config> config = load_text(text, "f");
  return config.ok() ? "" : std::string(config.status().message());
}

std::string route_errors(std::string_view route) {
  return errors_of(with_route(absl::StrCat(route, ", forward: web")));
}

TEST(LoaderAccess, RegularExpressions) {
  EXPECT_EQ(route_errors(R"x(match: { path: { regex: "/v[0-9]+/.*" }, headers: [ { name: x, regex: "a|b" } ] })x"), "");
  EXPECT_EQ(route_errors(R"x(match: { path: { regex: "/v(" } })x"),
            "f:1:90: listeners[0].http.routes[0].match.path.regex: expected a regular expression, got \"/v(\": missing "
            "): /v(");
  EXPECT_EQ(route_errors(R"x(match: { path: { regex: "/a", prefix: /a } })x"),
            "f:1:81: listeners[0].http.routes[0].match.path: `prefix`, `exact` and `regex` exclude each other");
  EXPECT_EQ(route_errors("match: { path: {} }"),
            "f:1:81: listeners[0].http.routes[0].match.path: expected `prefix: PATH`, `exact: PATH` or `regex: REGEX`");
  // A regular expression has no prefix that could be replaced.
  EXPECT_EQ(route_errors(R"x(match: { path: { regex: "/a.*" } }, rewrite: { prefix: /b })x"),
            "f:1:121: listeners[0].http.routes[0].rewrite.prefix: needs `match: { path: { prefix: PATH } }`, which it "
            "replaces");
}

TEST(LoaderAccess, Substitutions) {
  const auto rewrite = [](std::string_view keys) { return route_errors(absl::StrCat("rewrite: { ", keys, " }")); };
  const std::string at = "f:1:75: listeners[0].http.routes[0].rewrite";
  EXPECT_EQ(rewrite(R"x(regex: "/a/(.*)", substitution: '/b/\1')x"), "");
  EXPECT_EQ(rewrite(R"x(regex: "/a/(.*)")x"), at + ": `regex` needs `substitution`, the new path");
  EXPECT_EQ(rewrite(R"x(host: x, substitution: "/a")x"),
            at + ": `substitution` needs `regex`, whose groups it may use");
  EXPECT_EQ(rewrite(R"x(regex: "/a", substitution: /b, path: /c)x"),
            at + ": `path`, `prefix` and `regex` exclude each other");
  const std::string behind = "f:1:106: listeners[0].http.routes[0].rewrite.substitution: ";
  EXPECT_EQ(rewrite(R"x(regex: "/(a)", substitution: "/b?c")x"),
            behind + "expected a path without a query, got \"/b?c\"");
  EXPECT_EQ(
      rewrite(R"x(regex: "/(a)", substitution: '/\2')x"),
      behind +
          "\"/\\\\2\": Rewrite schema requests 2 matches, but the regexp only has 1 parenthesized subexpressions.");
}

// A route that earlier routes shadow is an error; whether a regular expression matches all that another matches is
// unknown.
TEST(LoaderAccess, RoutesThatAreNeverTaken) {
  const auto behind = [](std::string_view before, std::string_view route) {
    return errors_of(with_route(route, absl::StrCat(before, ", forward: web }, { ")));
  };
  const std::string_view all = R"x(match: { path: { regex: ".*" } })x";
  EXPECT_EQ(behind(all, "match: { path: { prefix: / } }, forward: web"), "");
  EXPECT_EQ(behind(all, "match: { path: { exact: /a } }, forward: web"), "");
  EXPECT_EQ(behind("match: { path: { prefix: /a } }", R"x(match: { path: { regex: "/b" } }, forward: web)x"), "");
  EXPECT_NE(behind("match: { path: { prefix: / } }", R"x(match: { path: { regex: "/b" } }, forward: web)x"), "");
  EXPECT_EQ(behind("match: { path: { prefix: / } }", R"x(match: { path: { regex: "/b|\\*" } }, forward: web)x"), "");
  EXPECT_NE(behind("match: { host: a.test }", R"x(match: { host: a.test, path: { regex: "/b" } }, forward: web)x"), "");
}

TEST(LoaderAccess, ForwardAuth) {
  const auto asks = [](std::string_view keys) { return route_errors(absl::StrCat("forward_auth: { ", keys, " }")); };
  const std::string at = "listeners[0].http.routes[0].forward_auth";
  EXPECT_EQ(asks("to: web, path: '/a?b=c', host: 'a.test:81', timeout: 1s, request_headers: cookie, on_failure: allow, "
                 "response_headers: [ Remote-User, X-Forwarded-User, authorization ]"),
            "");
  EXPECT_NE(asks("to: web"), "");
  EXPECT_EQ(asks("to: wob, path: /a"),
            absl::StrCat("f:1:86: ", at, R"(.to: there is no upstream "wob"; did you mean "web"?)"));
  EXPECT_EQ(asks("path: 'a', to: web"),
            absl::StrCat("f:1:88: ", at, R"(.path: expected a path such as /oauth2/auth, got "a")"));
  EXPECT_EQ(asks("host: 'a b', to: web, path: /"),
            absl::StrCat("f:1:88: ", at, R"(.host: expected a host such as auth.example.com, got "a b")"));
  for (const char* const list : {"request_headers", "response_headers"}) {
    for (const char* const name : {"host", "content-length", "x-forwarded-for", "upgrade"}) {
      EXPECT_NE(asks(absl::StrCat("to: web, path: /, ", list, ": [ x-a, ", name, " ]"))
                    .find(absl::StrCat(at, ".", list, "[1]: \"", name, "\" cannot be copied")),
                std::string::npos)
          << name;
    }
  }
  EXPECT_NE(asks("to: web, path: /, timeout: 0s"), "");
}

TEST(LoaderAccess, Maintenance) {
  const auto maintenance = [](std::string_view keys) { return route_errors(absl::StrCat("maintenance: ", keys)); };
  EXPECT_EQ(maintenance("{ file: /run/down }"), "");
  EXPECT_EQ(maintenance("{ file: /run/down, retry_after: 0 }"), "");
  EXPECT_NE(maintenance("{ file: '' }").find("maintenance.file: expected the name of a file"), std::string::npos);
  EXPECT_NE(maintenance("{ retry_after: 5s }").find("missing key \"file\""), std::string::npos);
  EXPECT_NE(maintenance("{ file: /run/down, retry_after: 500ms }"), "");
}

TEST(LoaderAccess, Auth) {
  const auto auth = [](std::string_view keys) { return route_errors(absl::StrCat("auth: { ", keys, " }")); };
  const std::string at = "f:1:72: listeners[0].http.routes[0].auth";
  EXPECT_EQ(auth("basic: { users_file: u }"), "");
  EXPECT_EQ(auth("jwt: { jwks_file: k, audience: a, cookie: c, claims: [ { claim: sub, header: x-user } ] }"), "");
  EXPECT_EQ(auth(""), at + ": expected `basic` or `jwt`");
  EXPECT_EQ(auth("basic: { users_file: u }, jwt: { jwks_file: k }"), at + ": `basic` and `jwt` exclude each other");
  EXPECT_EQ(auth("basic: {}"), "f:1:81: missing key \"users_file\" in listeners[0].http.routes[0].auth.basic");
  EXPECT_EQ(auth("basic: { users_file: u, realm: 'a\"b' }"),
            "f:1:105: listeners[0].http.routes[0].auth.basic.realm: expected up to 100 characters of ASCII without "
            "quotes and "
            "backslashes");
  const auto claim = [&](std::string_view header) {
    return auth(absl::StrCat("jwt: { jwks_file: k, claims: [ { claim: sub, header: ", header, " } ] }"));
  };
  EXPECT_EQ(claim("Host"),
            "f:1:127: listeners[0].http.routes[0].auth.jwt.claims[0].header: \"host\" is reserved: expected a "
            "field such as x-user");
  EXPECT_NE(claim("authorization"), "");
  EXPECT_NE(claim("content-length"), "");
  EXPECT_NE(auth("jwt: { jwks_file: k, scheme: 'a b' }"), "");
  EXPECT_NE(auth("jwt: { jwks_file: k, cookie: 'a=' }"), "");
  EXPECT_NE(auth("jwt: { jwks_file: k, leeway: 2h }"), "");
}

TEST(LoaderAccess, Cors) {
  const auto cors = [](std::string_view keys) { return route_errors(absl::StrCat("cors: { ", keys, " }")); };
  EXPECT_EQ(
      cors(
          R"x(origins: [ "https://a.example", "https://*.b.example:8443", "http://[::1]:80", "http://localhost:3000" ])x"),
      "");
  EXPECT_EQ(cors(R"x(origins: "*")x"), "");
  EXPECT_EQ(cors(R"x(origins: "https://a.example", credentials: true)x"), "");
  EXPECT_EQ(cors(R"x(origins: "*", credentials: true)x"),
            "f:1:83: listeners[0].http.routes[0].cors.origins[0]: `*` with `credentials: true` would let every page on "
            "the web "
            "ask in the name of your users: list the origins");
  EXPECT_EQ(cors(R"x(origin_regex: 'https://(.+\.)?a\.example', credentials: true)x"), "");
  EXPECT_NE(cors("origin_regex: '.*', credentials: true"), "");
  EXPECT_NE(cors("origin_regex: 'https://.*', credentials: true"), "");
  EXPECT_EQ(cors("origin_regex: 'https://.*'"), "");
  EXPECT_NE(cors("methods: [ GET ]"), "");
  for (const std::string_view origin : {"a.example", "https://a.example/", "https://A.example", "https://a.example:0",
                                        "https://a.example:x", "ftp://a.example", "null", "https://", "https://*",
                                        "https://a.*.example", "https://**.example", "https://u@a.example"}) {
    EXPECT_NE(cors(absl::StrCat("origins: \"", origin, "\"")), "") << origin;
  }
  EXPECT_NE(cors("origins: https://a.example, methods: get"), "");
  EXPECT_NE(cors("origins: https://a.example, max_age: 1500ms"), "");
}

TEST(LoaderAccess, RoundTrip) {
  const std::string text = with_route(
      R"x(match: { path: { regex: "/a/(.*)" }
}, forward: web, rewrite: { regex: "/a/(.*)", substitution: '/\1' },
         allow: 10.0.0.0/8, deny: [ 10.1.0.0/16 ], auth: { jwt: { jwks_file: k, cookie: c, header: x-t, scheme: "" } },
         cors: { origins: "https://*.b.example", credentials: true })x");
  const absl::StatusOr<Config> config = load_text(text, "f");
  ASSERT_TRUE(config.ok()) << config.status();
  const absl::StatusOr<Config> again = load_text(print_config(*config), "printed");
  ASSERT_TRUE(again.ok()) << again.status() << print_config(*config);
  EXPECT_EQ(*again, *config);
}

TEST(LoaderAccess, ExtAuthz) {
  const auto asks = [](std::string_view keys, std::string_view upstream = "protocol: http2") {
    return errors_of(
        absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { routes: [ { forward: web, ", keys,
                     " } ] } } ]\nupstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] }, { name: authz, ", upstream,
                     ", endpoints: [ 127.0.0.1:9001 ] } ]\n"));
  };
  EXPECT_EQ(asks("ext_authz: { to: authz, timeout: 1s, on_failure: allow }"), "");
  EXPECT_NE(asks("ext_authz: {}"), "");
  EXPECT_NE(asks("ext_authz: { to: authz, timeout: 0s }"), "");
  EXPECT_EQ(asks("ext_authz: { to: authz }", "protocol: http1"),
            "f:1:97: listeners[0].http.routes[0].ext_authz.to: upstream \"authz\" gets calls of gRPC: give it "
            "`protocol: http2`");
  EXPECT_EQ(asks("ext_authz: { to: authz }, forward_auth: { to: web, path: /a }"),
            "f:1:64: listeners[0].http.routes[0]: `forward_auth` and `ext_authz` exclude each other");
}

TEST(LoaderAccess, PrintsExtAuthz) {
  const std::string text = with_route("ext_authz: { to: web, timeout: 3s, on_failure: allow }, forward: web");
  const std::string with_http2 =
      text.substr(0, text.rfind("endpoints")) + "protocol: http2, " + text.substr(text.rfind("endpoints"));
  const absl::StatusOr<Config> config = load_text(with_http2, "f");
  ASSERT_TRUE(config.ok()) << config.status();
  const absl::StatusOr<Config> again = load_text(print_config(*config), "printed");
  ASSERT_TRUE(again.ok()) << again.status() << print_config(*config);
  EXPECT_EQ(*again, *config);
}

}  // namespace
}  // namespace sluice::config
