// Options and filters of HttpConnectionManager.
#include <gtest/gtest.h>

#include <string>

#include "test/proxy/envoy/mapped.h"

namespace sluice::envoy {
namespace {

constexpr std::string_view kRoutes =
    "[ { match: { prefix: /admin }, route: { cluster: other } }, { match: { prefix: / }, route: { cluster: app } } ]";

std::string filter(const std::string& type, const std::string& members) {
  return R"({ name: f, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.)" + type + ", " +
         members + " } }, ";
}

Mapped map_filter(const std::string& type, const std::string& members) {
  return map_yaml(with_routes(kRoutes, "", filter(type, members)));
}

void expect_refuses_all(const Mapped& mapped) {
  EXPECT_TRUE(mapped.has(R"(    http:
      deny: [ 0.0.0.0/0, "::/0" ])"))
      << mapped.text;
  EXPECT_GT(mapped.refused, 0U);
  EXPECT_EQ(mapped.error, "");
}

// Envoy Gateway adds them for each GRPCRoute. Defect: they were refused.
TEST(Filters, OfGrpc) {
  for (const std::string type : {"grpc_web.v3.GrpcWeb", "grpc_stats.v3.FilterConfig"}) {
    const Mapped mapped = map_filter(type, type.starts_with("grpc_stats") ? "emit_filter_state: true" : "");
    EXPECT_EQ(mapped.refused, 0U) << mapped.findings.front();
    EXPECT_TRUE(mapped.has("forward: app"));
    EXPECT_FALSE(mapped.has("deny")) << mapped.text;
  }
}

struct Option {
  std::string name, manager, expected;
};
class ManagerOptions : public testing::TestWithParam<Option> {};

TEST_P(ManagerOptions, AreAsExpected) {
  const Mapped mapped = map_yaml(with_routes(kRoutes, "                " + GetParam().manager + "\n"));
  EXPECT_TRUE(mapped.has(GetParam().expected)) << mapped.text;
  EXPECT_EQ(mapped.error, "");
  EXPECT_EQ(mapped.refused, 0U) << mapped.findings.front();
}

INSTANTIATE_TEST_SUITE_P(
    Options, ManagerOptions,
    testing::Values(
        Option{"ClientBehindProxies", "use_remote_address: true\n                xff_num_trusted_hops: 2",
               "trusted_hops: 2"},
        Option{"ClientInTheField", "use_remote_address: false", "trusted_hops: 1"},
        Option{"Websocket",
               "upgrade_configs: [ { upgrade_type: websocket } ]\n                stream_idle_timeout: 60s",
               "tunnel_timeout: 1m"},
        Option{"NoWebsocket", "use_remote_address: true", "websocket: false"},
        Option{"Ids", "preserve_external_request_id: true\n                always_set_request_id_in_response: true",
               "request_id: { header: x-request-id, accept: always, respond: true }"},
        Option{"Streams", "http2_protocol_options: { max_concurrent_streams: 50 }", "http2: { max_streams: 50 }"},
        Option{"Timeouts",
               "request_headers_timeout: 5s\n                common_http_protocol_options: { idle_timeout: 30s }",
               "idle_timeout: 30s"},
        Option{"Underscores", "common_http_protocol_options: { headers_with_underscores_action: REJECT_REQUEST }",
               "paths: { escaped_slashes: keep }"},
        Option{"Slashes", "path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD\n                merge_slashes: true",
               "paths: { escaped_slashes: decode, merge_slashes: true }"},
        Option{"Server", "server_name: x", "response_headers: [ { name: server, set: x } ]"},
        Option{"Head", "max_request_headers_kb: 16", "max_head: 16KiB"},
        Option{
            "Log",
            R"(access_log: [ { name: l, typed_config: { "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog, log_format: { text_format_source: { inline_string: "%REQ(:METHOD)% %RESPONSE_CODE% %REQ(X-A)% %BYTES_SENT%\n" } } } } ])",
            R"(access_log: { file: stdout, format: "%{method} %{status} %{header:x-a} %{bytes_out}" })"}),
    [](const testing::TestParamInfo<Option>& rule) { return rule.param.name; });

TEST(Filters, Compression) {
  const Mapped mapped = map_filter(
      "compressor.v3.Compressor",
      R"(compressor_library: { name: g, typed_config: { "@type": type.googleapis.com/envoy.extensions.compression.gzip.compressor.v3.Gzip } },
      response_direction_config: { common_config: { min_content_length: 100, content_type: [ text/html ] } })");
  EXPECT_TRUE(mapped.has("compression: { codings: [ gzip ], min_size: 100, types: [ text/html ] }")) << mapped.text;
  EXPECT_EQ(mapped.error, "");
}

TEST(Filters, BufferAndHealthCheck) {
  const Mapped mapped = map_yaml(with_routes(
      kRoutes, "",
      filter("buffer.v3.Buffer", "max_request_bytes: 1000") +
          filter("health_check.v3.HealthCheck",
                 R"(pass_through_mode: false, headers: [ { name: ":path", string_match: { exact: /ready } } ])")));
  EXPECT_TRUE(mapped.has("max_body: 1000"));
  EXPECT_TRUE(mapped.has("buffer: { requests: 1000 }"));
  EXPECT_TRUE(mapped.has("match: { path: { exact: /ready } }")) << mapped.text;
  EXPECT_TRUE(mapped.has("readiness: true"));
  EXPECT_EQ(mapped.error, "");
}

TEST(Filters, Authorizer) {
  const Mapped mapped =
      map_filter("ext_authz.v3.ExtAuthz",
                 "grpc_service: { envoy_grpc: { cluster_name: grpc }, timeout: 0.1s }, failure_mode_allow: true");
  EXPECT_TRUE(mapped.has("ext_authz: { to: grpc, timeout: 100ms, on_failure: allow }")) << mapped.text;
  EXPECT_EQ(mapped.error, "");
  expect_refuses_all(map_filter("ext_authz.v3.ExtAuthz", "http_service: { server_uri: { uri: a } }"));
}

// Defect: a listener whose authorizer's cluster came later was refused.
TEST(Filters, AuthorizerThatMayFollow) {
  const std::string away = "grpc_service: { envoy_grpc: { cluster_name: away } }";
  const auto map = [](const std::string& filters, const std::string& routes = std::string(kRoutes)) {
    return map_yaml(with_routes(routes, "", filters), /*may_follow=*/true);
  };
  const Mapped closed = map(filter("ext_authz.v3.ExtAuthz", away));
  EXPECT_EQ(closed.refused, 0U) << closed.findings.front();
  EXPECT_TRUE(closed.says("\"away\" with endpoints yet: requests get 503"));
  EXPECT_FALSE(closed.has("forward:")) << closed.text;
  EXPECT_TRUE(closed.has("the authorizer is not there"));
  EXPECT_EQ(closed.error, "");
  const Mapped open = map(filter("ext_authz.v3.ExtAuthz", away + ", failure_mode_allow: true"));
  EXPECT_EQ(open.refused, 0U);
  EXPECT_TRUE(open.has("forward: app"));
  EXPECT_FALSE(open.has("ext_authz"));
  const Mapped both = map(filter("ext_authz.v3.ExtAuthz", away) +
                          filter("ext_authz.v3.ExtAuthz", "grpc_service: { envoy_grpc: { cluster_name: grpc } }"));
  EXPECT_FALSE(both.has("forward:")) << "each of them has to let a request pass\n" << both.text;
  expect_refuses_all(map(filter("ext_authz.v3.ExtAuthz", away) +
                         filter("ext_authz.v3.ExtAuthz", "http_service: { server_uri: { uri: a } }")));
  const Mapped some =
      map(filter("ext_authz.v3.ExtAuthz", away),
          R"([ { match: { prefix: /open }, route: { cluster: other, prefix_rewrite: / }, typed_per_filter_config: { f: {
      "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute, disabled: true } } },
      { match: { prefix: /a }, route: { cluster: app, prefix_rewrite: /b } },
      { match: { prefix: / }, redirect: { host_redirect: a.test } } ])");
  EXPECT_TRUE(some.has("forward: other")) << some.text;
  EXPECT_FALSE(some.has("forward: app")) << some.text;
  EXPECT_FALSE(some.has("redirect:")) << some.text;
  EXPECT_EQ(some.error, "");
  expect_refuses_all(map_filter("ext_authz.v3.ExtAuthz", away));  // In files nothing follows.
}

TEST(Filters, RateLimitServiceThatMayFollow) {
  const auto map = [](const std::string& members) {
    return map_yaml(with_routes("[ { match: { prefix: /counted }, route: { cluster: app, rate_limits: [ { actions: [ { "
                                "remote_address: {} } ] } ] } }, { match: { prefix: / }, route: { cluster: other } } ]",
                                "",
                                filter("ratelimit.v3.RateLimit",
                                       "domain: edge, rate_limit_service: { grpc_service: { "
                                       "envoy_grpc: { cluster_name: away } } }" +
                                           members)),
                    /*may_follow=*/true);
  };
  const Mapped open = map("");
  EXPECT_EQ(open.refused, 0U) << open.findings.front();
  EXPECT_TRUE(open.has("forward: app"));
  EXPECT_EQ(open.error, "");
  const Mapped closed = map(", failure_mode_deny: true");
  EXPECT_EQ(closed.refused, 0U) << closed.findings.front();
  EXPECT_FALSE(closed.has("forward: app")) << closed.text;
  EXPECT_TRUE(closed.has("the rate limit service is not there"));
  EXPECT_TRUE(closed.has("forward: other")) << "it is not counted";
  EXPECT_EQ(closed.error, "");
}

TEST(Filters, RateLimits) {
  const std::string service = filter("ratelimit.v3.RateLimit",
                                     "domain: edge, failure_mode_deny: true, rate_limit_service: { grpc_service: { "
                                     "envoy_grpc: { cluster_name: grpc } }, "
                                     "transport_api_version: V3 }");
  const std::string counted =
      "[ { match: { prefix: / }, route: { cluster: app, rate_limits: [ { actions: [ { remote_address: {} }, { "
      "request_headers: { header_name: "
      "x-key, descriptor_key: key } } ] } ] } } ]";
  const Mapped both = map_yaml(with_routes(counted, "", service));
  EXPECT_TRUE(both.has("global_rate_limits: { to: grpc, domain: edge, on_failure: refuse }")) << both.text;
  EXPECT_TRUE(both.has("entries: [ { source: true }, { header: x-key, key: key } ]")) << both.text;
  EXPECT_EQ(both.error, "");
  EXPECT_EQ(map_yaml(with_routes(counted)).error, "") << "descriptors without a service";
  EXPECT_EQ(map_yaml(with_routes(kRoutes, "", service)).error, "") << "a service without descriptors";
  const std::string all = "{ default_value: { numerator: 100 } }";
  const Mapped local =
      map_filter("local_ratelimit.v3.LocalRateLimit",
                 "stat_prefix: l, token_bucket: { max_tokens: 10, tokens_per_fill: 5, fill_interval: 60s }, "
                 "filter_enabled: " +
                     all + ", filter_enforced: " + all);
  EXPECT_TRUE(local.has("- { name: l, key: { route: true }, rate: 5/m, burst: 10 }") || local.has("rate: 5/m"))
      << local.text;
  EXPECT_TRUE(local.has("rate_limits: l"));
  EXPECT_EQ(local.error, "");
}

TEST(Filters, Tokens) {
  const std::string providers =
      "providers: { p: { issuer: i, audiences: [ a ], local_jwks: { filename: /keys.json }, forward: true, "
      "claim_to_headers: [ { header_name: x-user, claim_name: sub } ] } }, ";
  const Mapped mapped =
      map_filter("jwt_authn.v3.JwtAuthentication", providers +
                                                       "rules: [ { match: { prefix: /admin/open } }, { match: { "
                                                       "prefix: /admin }, requires: { provider_name: p } } ]");
  EXPECT_TRUE(mapped.has("jwks_file: /keys.json")) << mapped.text;
  EXPECT_TRUE(mapped.has(R"(match: { path: { regex: "/admin/open.*" } })"));
  EXPECT_EQ(mapped.text.find("auth:"), mapped.text.rfind("auth:")) << "only one of the routes\n" << mapped.text;
  EXPECT_EQ(mapped.error, "");
  EXPECT_EQ(mapped.refused, 0U);
  expect_refuses_all(map_filter(
      "jwt_authn.v3.JwtAuthentication",
      "providers: { p: { remote_jwks: {} } }, rules: [ { match: { prefix: / }, requires: { provider_name: p } } ]"));
  expect_refuses_all(map_filter("jwt_authn.v3.JwtAuthentication",
                                providers + "rules: [ { match: { prefix: / }, requires: { requires_any: {} } } ]"));
}

TEST(Filters, AddressesAndNames) {
  const auto rules = [](const std::string& action, const std::string& permission, const std::string& principal) {
    return map_filter("rbac.v3.RBAC", "rules: { action: " + action + ", policies: { p: { permissions: [ " + permission +
                                          " ], principals: [ " + principal + " ] } } }");
  };
  const std::string any = "{ any: true }", admin = "{ url_path: { path: { prefix: /admin } } }";
  const std::string lan = "{ remote_ip: { address_prefix: 10.0.0.0, prefix_len: 8 } }";
  const std::string alice = "{ authenticated: { principal_name: { exact: alice } } }";
  const Mapped allowed = rules("ALLOW", any, lan);
  EXPECT_TRUE(allowed.has("allow: [ 10.0.0.0/8 ]")) << allowed.text;
  const Mapped denied = rules("DENY", admin, lan);
  EXPECT_TRUE(denied.has(R"(match: { path: { regex: "/admin.*" }, source: 10.0.0.0/8 })")) << denied.text;
  const Mapped closed = rules("DENY", admin, any);
  EXPECT_FALSE(closed.has("forward: other")) << "a route that is never taken\n" << closed.text;
  const Mapped others = rules("DENY", admin, "{ not_id: " + alice + " }");
  EXPECT_TRUE(others.has(R"(deny: [ 0.0.0.0/0, "::/0" ])")) << others.text;
  EXPECT_FALSE(others.has("peer:")) << "no client has a certificate";
  const Mapped named = rules("ALLOW", any, alice);
  EXPECT_TRUE(named.has(R"(deny: [ 0.0.0.0/0, "::/0" ])"));
  for (const Mapped* const each : {&allowed, &denied, &closed, &others, &named}) {
    EXPECT_EQ(each->error, "") << each->text;
    EXPECT_EQ(each->refused, 0U);
  }
  expect_refuses_all(rules("DENY", "{ header: { name: x } }", any));
  expect_refuses_all(rules("ALLOW", any, "{ and_ids: {} }"));
}

TEST(Filters, ThatGuardAndAreUnknownCloseTheListener) {
  expect_refuses_all(map_filter("oauth2.v3.OAuth2", "config: {}"));
  expect_refuses_all(map_filter("lua.v3.Lua", "inline_code: x"));
  const Mapped fault = map_filter("fault.v3.HTTPFault", "delay: {}");
  EXPECT_FALSE(fault.has("deny:"));
  EXPECT_TRUE(fault.says("there is no counterpart of \"envoy.extensions.filters.http.fault.v3.HTTPFault\""));
}

}  // namespace
}  // namespace sluice::envoy
