// Checks and ejection of endpoints in the configuration.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"

namespace sluice::config {
namespace {

std::string with(std::string_view upstream, std::string_view endpoint = "1.2.3.4:5") {
  return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { forward: u } } ]\n",
                      "upstreams: [ { name: u, endpoints: [ \"", endpoint, "\" ],\n", upstream, " } ]\n");
}

std::string error_of(std::string_view upstream, std::string_view endpoint = "1.2.3.4:5") {
  const absl::StatusOr<Config> config = load_text(with(upstream, endpoint), "f");
  return config.ok() ? "none" : std::string(config.status().message());
}

TEST(HealthConfig, Defaults) {
  const absl::StatusOr<Config> config = load_text(with("health_check: {}, ejection: {}"), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->upstreams[0].health_check, HealthCheck());
  EXPECT_EQ(config->upstreams[0].ejection, Ejection());
}

TEST(HealthConfig, Accepted) {
  for (const std::string_view good :
       {"health_check: { http: { path: \"/a?b=c\", host: \"a.test:81\", status: 204 } }",
        "protocol: http2, health_check: { grpc: {} }", "health_check: { http: {}, port: 8008 }",
        "ejection: { consecutive_errors: 0, gateway_errors: 3 }", "ejection: { gateway_errors: 4 }",
        "ejection: { time: 5m }", "health_check: { timeout: 1m, interval: 1s }"}) {
    EXPECT_EQ(error_of(good), "none") << good;
  }
}

TEST(HealthConfig, Refused) {
  struct {
    std::string_view upstream, error;
  } const cases[] = {
      {"protocol: http2, health_check: { http: {}, grpc: {} }", "f:3:32: upstreams[0].health_check: `http` and `grpc`"},
      {"health_check: { grpc: {} }", "f:3:23: upstreams[0].health_check.grpc: needs `protocol: http2`"},
      {"health_check: { http: { path: healthz } }", "f:3:31: upstreams[0].health_check.http.path: expected a path"},
      {"health_check: { http: { path: /a b } }", "expected a path such as /healthz, got \"/a b\""},
      {"health_check: { http: { host: a/b } }", "expected a host, perhaps with a port, got \"a/b\""},
      {"health_check: { http: { status: [ 200, 99 ] } }", "expected a status from 200 to 599, got 99"},
      {"health_check: { healthy_after: 0 }", "healthy_after"},
      {"health_check: { interval: 0 }", "interval"},
      {"ejection: { consecutive_errors: 0 }", "expected `consecutive_errors` or `gateway_errors`"},
      {"ejection: { gateway_errors: 5 }", "has no effect: each of these errors is one of `consecutive_errors`"},
      {"ejection: { time: 6m }", "expected at least `time`, which is 6m, got 5m"},
      {"ejection: { max_share: 101 }", "max_share"},
  };
  for (const auto& each : cases) {
    EXPECT_NE(error_of(each.upstream).find(each.error), std::string::npos)
        << each.upstream << ": " << error_of(each.upstream);
  }
  const std::string long_text = absl::StrCat("health_check: { http: { body: ", std::string(1025, 'x'), " } }");
  EXPECT_NE(error_of(long_text).find("expected at most 1024 bytes, got 1025"), std::string::npos);
  EXPECT_NE(error_of("health_check: { port: 80 }", "unix:@a").find("Unix sockets have no ports"), std::string::npos);
}

}  // namespace
}  // namespace sluice::config
