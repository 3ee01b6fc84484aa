// Routes of Envoy's, one rule of the mapping at a time.
#include <gtest/gtest.h>

#include <string>

#include "test/proxy/envoy/mapped.h"

namespace sluice::envoy {
namespace {

struct Rule {
  std::string name;
  std::string routes;    // Envoy's
  std::string expected;  // A part of the result.
};

class RouteMapping : public testing::TestWithParam<Rule> {};

TEST_P(RouteMapping, IsAsExpected) {
  const Mapped mapped = map_yaml(with_routes(GetParam().routes));
  EXPECT_TRUE(mapped.has(GetParam().expected)) << mapped.text;
  EXPECT_EQ(mapped.error, "") << mapped.text;
  EXPECT_EQ(mapped.refused, 0U) << mapped.findings.front();
}

INSTANTIATE_TEST_SUITE_P(
    Rules, RouteMapping,
    testing::Values(
        Rule{"PrefixOfBytes", "[ { match: { prefix: /api }, route: { cluster: app } } ]",
             R"(path: { regex: "/api.*" })"},
        Rule{"PrefixWithSlash", "[ { match: { prefix: /api/ }, route: { cluster: app } } ]", "path: { prefix: /api/ }"},
        Rule{"PrefixOfSegments", "[ { match: { path_separated_prefix: /api }, route: { cluster: app } } ]",
             "path: { prefix: /api }"},
        Rule{"RetryOfCancelledIsIgnored",
             "[ { match: { prefix: / }, route: { cluster: app, retry_policy: { retry_on: \"connect-failure,cancelled\" "
             "} } } ]",
             "on: [ connect_failure ]"},
        Rule{"Exact", "[ { match: { path: /a }, route: { cluster: app } } ]", "path: { exact: /a }"},
        Rule{"AnyCase", "[ { match: { path: /a.b, caseSensitive: false }, route: { cluster: app } } ]",
             R"(path: { regex: "(?i)/a\\.b" })"},
        Rule{"Regex", R"([ { match: { safe_regex: { regex: "/a[0-9]+" } }, route: { cluster: app } } ])",
             R"(path: { regex: "/a[0-9]+" })"},
        Rule{
            "Method",
            R"([ { match: { prefix: /, headers: [ { name: ":method", string_match: { exact: PUT } } ] }, route: { cluster: app } } ])",
            "match: { method: PUT }"},
        Rule{
            "Header",
            R"([ { match: { prefix: /, headers: [ { name: x, string_match: { suffix: b } } ] }, route: { cluster: app } } ])",
            "headers: [ { name: x, suffix: b } ]"},
        Rule{"HeaderOfOldForm",
             R"([ { match: { prefix: /, headers: [ { name: x, exact_match: b } ] }, route: { cluster: app } } ])",
             "headers: [ { name: x, exact: b } ]"},
        Rule{"HeaderAbsent",
             R"([ { match: { prefix: /, headers: [ { name: x, present_match: false } ] }, route: { cluster: app } } ])",
             "headers: [ { name: x, not: true } ]"},
        Rule{
            "HeaderInverted",
            R"([ { match: { prefix: /, headers: [ { name: x, string_match: { exact: b }, invert_match: true } ] }, route: { cluster: app } } ])",
            "headers: [ { name: x }, { name: x, exact: b, not: true } ]"},
        Rule{
            "HeaderInAnyCase",
            R"([ { match: { prefix: /, headers: [ { name: x, string_match: { prefix: b, ignore_case: true } } ] }, route: { cluster: app } } ])",
            R"(headers: [ { name: x, regex: "(?i)b.*" } ])"},
        Rule{
            "Query",
            R"([ { match: { prefix: /, query_parameters: [ { name: v, string_match: { exact: "2" } } ] }, route: { cluster: app } } ])",
            "query: [ { name: v, exact: 2 } ]"},
        Rule{"Grpc", "[ { match: { prefix: /, grpc: {} }, route: { cluster: app } } ]", "name: content-type"},
        Rule{"Response", R"([ { match: { prefix: / }, direct_response: { status: 204 } } ])",
             "respond: { status: 204 }"},
        Rule{"ResponseWithType",
             R"([ { match: { prefix: / }, direct_response: { status: 200, body: { inline_string: "<p>" } },
                    response_headers_to_add: [ { header: { key: content-type, value: text/html }, append_action: OVERWRITE_IF_EXISTS_OR_ADD } ] } ])",
             R"(respond: { status: 200, body: "<p>", content_type: text/html })"},
        Rule{"RedirectToHttps", "[ { match: { prefix: / }, redirect: { https_redirect: true } } ]",
             "redirect: { scheme: https }"},
        Rule{"RedirectStatus",
             "[ { match: { prefix: / }, redirect: { host_redirect: b.test, response_code: SEE_OTHER } } ]",
             "redirect: { status: 303, host: b.test }"},
        Rule{"RedirectPath", "[ { match: { path: /a }, redirect: { path_redirect: /b, strip_query: true } } ]",
             "redirect: { path: /b, drop_query: true }"},
        Rule{"RewriteOfSlashes", "[ { match: { prefix: /a/ }, route: { cluster: app, prefix_rewrite: /b/ } } ]",
             "rewrite: { prefix: /b/ }"},
        Rule{"RewriteOfBytes", "[ { match: { prefix: /a }, route: { cluster: app, prefix_rewrite: / } } ]",
             R"~(rewrite: { regex: "/a(.*)", substitution: "/\\1" })~"},
        Rule{"RewriteOfExact", "[ { match: { path: /a }, route: { cluster: app, prefix_rewrite: /b } } ]",
             "rewrite: { path: /b }"},
        Rule{"RewriteOfHost", "[ { match: { prefix: / }, route: { cluster: app, host_rewrite_literal: b.test } } ]",
             "rewrite: { host: b.test }"},
        Rule{
            "RewriteByRegex",
            R"~([ { match: { prefix: / }, route: { cluster: app, regex_rewrite: { pattern: { regex: "^/v([0-9])" }, substitution: '/\1' } } } ])~",
            R"~(rewrite: { regex: "(/v([0-9]))(.*)", substitution: "/\\2\\3" })~"},
        Rule{"Weights",
             "[ { match: { prefix: / }, route: { weighted_clusters: { clusters: [ { name: app, weight: 9 }, { name: "
             "other, weight: 1 } ] } } } ]",
             "split: [ { forward: app, weight: 9 }, { forward: other, weight: 1 } ]"},
        Rule{"Mirror",
             "[ { match: { prefix: / }, route: { cluster: app, request_mirror_policies: [ { cluster: other, "
             "runtime_fraction: "
             "{ default_value: { numerator: 10 } } } ] } } ]",
             "mirror: { to: other, percent: 10 }"},
        Rule{"Mirrors",
             "[ { match: { prefix: / }, route: { cluster: app, request_mirror_policies: [ { cluster: other }, { "
             "cluster: "
             "app } ] } } ]",
             "mirror: [ { to: other }, { to: app } ]"},
        Rule{"ChangesOfAWeight",
             "[ { match: { prefix: / }, route: { weighted_clusters: { clusters: [ { name: app, weight: 9, "
             "request_headers_to_add: [ { header: { key: a, value: b }, append_action: OVERWRITE_IF_EXISTS_OR_ADD } ], "
             "response_headers_to_remove: [ c ] } ] } } } ]",
             "request_headers: [ { name: a, set: b } ]"},
        Rule{"ChangesOfOneOfTheWeights",
             "[ { match: { prefix: / }, route: { weighted_clusters: { clusters: [ { name: app, weight: 9, "
             "request_headers_to_add: [ { header: { key: a, value: b }, append_action: OVERWRITE_IF_EXISTS_OR_ADD } ] "
             "}, { "
             "name: other, weight: 1 } ] } } } ]",
             "- forward: app\n              weight: 9\n              request_headers: [ { name: a, set: b } ]"},
        Rule{"RetryOfStatuses",
             "[ { match: { prefix: / }, route: { cluster: app, retry_policy: { retry_on: 'retriable-status-codes', "
             "retriable_status_codes: [ 500, 429 ] } } } ]",
             "retry: { retriable_status_codes: [ 500, 429 ], attempts: 2 }"},
        Rule{"Retry",
             "[ { match: { prefix: / }, route: { cluster: app, retry_policy: { retry_on: 'gateway-error,reset', "
             "num_retries: 2, "
             "per_try_timeout: 0.5s } } } ]",
             "on: [ gateway_error, connect_failure, refused, reset, timeout ]\n            attempts: 3\n            "
             "try_timeout: 500ms"},
        Rule{"Timeouts", "[ { match: { prefix: / }, route: { cluster: app, timeout: 3s, idle_timeout: 90s } } ]",
             "response_timeout: 3s, stream_idle_timeout: 90s"},
        Rule{"NoTimeout", "[ { match: { prefix: / }, route: { cluster: app, timeout: 0s } } ]",
             "response_timeout: 8760h"},
        Rule{
            "Fields",
            R"([ { match: { prefix: / }, route: { cluster: app }, request_headers_to_remove: [ x-a ], request_headers_to_add: [
                  { header: { key: x-b, value: "%REQ(x-c)% 100%%" } } ] } ])",
            R"(request_headers: [ { name: x-a, remove: true }, { name: x-b, add: "%{header:x-c} 100%%" } ])"}),
    [](const testing::TestParamInfo<Rule>& rule) { return rule.param.name; });

// ---- What cannot be said

TEST(RouteMapping, LeavesOutRoutesThatWouldTakeTooMuch) {
  const Mapped mapped =
      map_yaml(with_routes("[ { match: { prefix: /a, dynamic_metadata: [ { filter: x } ] }, route: { cluster: other } "
                           "}, { match: { prefix: / }, route: { cluster: app } } ]"));
  EXPECT_FALSE(mapped.has("forward: other")) << mapped.text;
  EXPECT_TRUE(mapped.says("the route is left out"));
  EXPECT_EQ(mapped.error, "");
}

TEST(RouteMapping, RespondsForClustersWithoutEndpoints) {
  const Mapped mapped =
      map_yaml(with_routes("[ { match: { prefix: / }, route: { cluster: none, prefix_rewrite: /x } } ]"));
  EXPECT_TRUE(mapped.has(R"(respond: { status: 503, body: "no healthy upstream", content_type: text/plain })"))
      << mapped.text;
  EXPECT_TRUE(mapped.says(R"(there is no cluster "none")"));
  EXPECT_EQ(mapped.error, "");
}

TEST(RouteMapping, SaysWhichRoutesAreNeverTaken) {
  const Mapped mapped = map_yaml(with_routes(
      "[ { match: { prefix: / }, route: { cluster: app } }, { match: { prefix: /a }, route: { cluster: other } } ]"));
  EXPECT_TRUE(mapped.says("routes[1]: ignored: it is never taken")) << mapped.text;
  EXPECT_EQ(mapped.error, "");
}

TEST(RouteMapping, ReportsUnknownFieldsAndValues) {
  const Mapped mapped = map_yaml(with_routes(
      "[ { match: { prefix: / }, route: { cluster: app, new_field: 1, metadata_match: { a: b }, timeout: soon } } ]"));
  EXPECT_TRUE(
      mapped.says("route.new_field: refused: this field of envoy.config.route.v3.RouteAction is not known here"));
  EXPECT_TRUE(mapped.says("route.metadata_match: refused: endpoints have no subsets"));
  EXPECT_TRUE(mapped.says(R"(route.timeout: refused: expected a duration such as 5s or 0.25s, got "soon")"));
  EXPECT_EQ(mapped.error, "");
}

// ---- Virtual hosts

std::string with_hosts(const std::string& virtual_hosts) {
  std::string text = with_routes("ROUTES");
  const std::string all = R"({ name: all, domains: [ "*" ], routes: ROUTES })";
  return text.replace(text.find(all), all.size(), virtual_hosts);
}

TEST(VirtualHosts, AreInTheOrderOfTheirNames) {
  const Mapped mapped = map_yaml(with_hosts(R"(
    { name: any, domains: [ "*" ], routes: [ { match: { prefix: / }, route: { cluster: other } } ] },
    { name: star, domains: [ "*.a.test" ], routes: [ { match: { path: /x }, route: { cluster: other } } ] },
    { name: one, domains: [ b.a.test, "b.a.test:8080" ], routes: [ { match: { prefix: / }, route: { cluster: app } } ] })"));
  const size_t one = mapped.text.find("host: b.a.test"),
               star = mapped.text.find(R"(host: "**.a.test", path: { exact: /x })"),
               closed = mapped.text.find("respond: { status: 404 }"), any = mapped.text.rfind("- forward: other");
  EXPECT_LT(one, star) << mapped.text;
  EXPECT_LT(star, closed);
  EXPECT_TRUE(mapped.has("- { forward: other }") || any > closed) << mapped.text;
  EXPECT_EQ(mapped.error, "");
}

TEST(VirtualHosts, ThatAreNotPossibleAreRefused) {
  const Mapped mapped = map_yaml(with_hosts(
      R"({ name: a, domains: [ "*-x.test", a.test ], routes: [ { match: { prefix: / }, route: { cluster: app } } ] })"));
  EXPECT_TRUE(mapped.says(R"(domains: refused: there is no counterpart of "*-x.test")"));
  EXPECT_TRUE(mapped.has("host: a.test"));
  EXPECT_EQ(mapped.error, "");
}

TEST(RouteUpgrades, OfOneRouteAreThoseOfTheListener) {
  const Mapped none = map_yaml(with_routes("[ { match: { prefix: / }, route: { cluster: app } } ]"));
  EXPECT_TRUE(none.has("websocket: false")) << none.text;
  const Mapped all = map_yaml(with_routes(
      "[ { match: { prefix: / }, route: { cluster: app, upgrade_configs: [ { upgrade_type: websocket } ] } } ]"));
  EXPECT_FALSE(all.has("websocket: false")) << all.text;
  EXPECT_EQ(all.error, "");
  EXPECT_EQ(all.refused, 0U);
  const Mapped other = map_yaml(with_routes(
      "[ { match: { prefix: / }, route: { cluster: app, upgrade_configs: [ { upgrade_type: CONNECT } ] } } ]"));
  EXPECT_EQ(other.refused, 1U);
}

}  // namespace
}  // namespace sluice::envoy
