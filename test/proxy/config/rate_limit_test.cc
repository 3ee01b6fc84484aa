// The keys of rate limits, and where they are named.
#include "proxy/config/model/rate_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"

namespace sluice::config {
namespace {

TEST(RateTest, Units) {
  EXPECT_EQ(Rate::parse("100/s")->events(), 100u);
  EXPECT_EQ(Rate::parse("100/s")->period(), std::chrono::seconds(1));
  EXPECT_EQ(Rate::parse("20/m")->period(), std::chrono::minutes(1));
  EXPECT_EQ(Rate::parse("1000000/h")->period(), std::chrono::hours(1));
  for (const std::string_view text : {"100/s", "20/m", "1000000/h"}) EXPECT_EQ(Rate::parse(text)->text(), text);
}

TEST(RateTest, Bytes) {
  EXPECT_EQ(Rate::parse("2MiB/s")->events(), 2u << 20);
  EXPECT_TRUE(Rate::parse("2MiB/s")->is_bytes());
  EXPECT_FALSE(Rate::parse("2/s")->is_bytes());
  EXPECT_EQ(Rate::parse("600KB/m")->per_second(), 10'000u);
  for (const std::string_view text : {"2MiB/s", "1KB/s", "1500KB/s", "600KB/m", "36000GiB/h", "10GiB/s"}) {
    EXPECT_EQ(Rate::parse(text)->text(), text);
  }
  EXPECT_EQ(Rate::parse("1024KB/s")->text(), "1000KiB/s");
  EXPECT_EQ(*Rate::parse("1000KiB/s"), *Rate::parse("1024KB/s"));
  const auto error = [](std::string_view text) { return std::string(Rate::parse(text).status().message()); };
  const std::string range = "; from 1KB/s to 10GiB/s";
  for (const std::string text : {"0KiB/s", "59KB/m", "11GiB/s", "18000000000GB/h"}) {
    EXPECT_EQ(error(text), "expected a rate such as 100/s, 20/m or 1000/h, got \"" + text + "\"" + range);
  }
}

TEST(BurstTest, Values) {
  for (const std::string_view text : {"auto", "1", "200", "8MiB", "1KB", "1500KB", "64GiB"}) {
    EXPECT_EQ(Burst::parse(text)->text(), text);
  }
  EXPECT_TRUE(Burst::parse("auto")->is_auto());
  EXPECT_TRUE(Burst::parse("8MiB")->is_size());
  EXPECT_FALSE(Burst::parse("8192")->is_size());
  EXPECT_EQ(Burst::parse("8MiB")->amount(), 8u << 20);
  const std::string expected = "expected `auto`, a number from 1 such as 200, or a size such as 8MiB, got ";
  for (const std::string text : {"0", "", "-1", "8Mb", "0KiB", "many"}) {
    EXPECT_EQ(Burst::parse(text).status().message(), expected + "\"" + text + "\"");
  }
}

TEST(RateTest, Errors) {
  const auto error = [](std::string_view text) { return std::string(Rate::parse(text).status().message()); };
  const std::string expected = "expected a rate such as 100/s, 20/m or 1000/h, got ";
  EXPECT_EQ(error("100"), expected + "\"100\"; add its unit, as in 100/s");
  EXPECT_EQ(error("0/s"), expected + "\"0/s\"; from 1 to 1000000");
  EXPECT_EQ(error("1000001/s"), expected + "\"1000001/s\"; from 1 to 1000000");
  const std::string hint = "; a whole number is before the slash, or a size as in 2MiB/s";
  for (const std::string text : {"a/s", "/s", "5000000000/s", "2Mb/s"}) {
    EXPECT_EQ(error(text), expected + "\"" + text + "\"" + hint);
  }
  EXPECT_EQ(error("5/d"), expected + "\"5/d\"; the units are s, m and h");
}

// Line 1 has the limits, line 2 the keys of the listener, line 3 those of its `http`, line 4 those of its route.
std::string with_limits(std::string_view limits, std::string_view listener, std::string_view http,
                        std::string_view route) {
  return absl::StrCat("rate_limits: [ ", limits, " ]\nlisteners: [ { name: a, address: 0.0.0.0:80, ", listener,
                      "\nhttp: { ", http, "\nroutes: [ { forward: web, ", route,
                      " } ] } } ]\nupstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] } ]\n");
}

std::string limit_errors(std::string_view limits, std::string_view listener = "", std::string_view http = "",
                         std::string_view route = "") {
  const absl::StatusOr<Config> config = load_text(with_limits(limits, listener, http, route), "f");
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(LoaderRateLimits, WhereTheyAreNamed) {
  const std::string_view all =
      "{ name: x, rate: 100/s }, { name: y, rate: 20/m, burst: 3, key: { header: X-Key, route: true } }";
  EXPECT_EQ(limit_errors(all, "connection_rate_limits: x,", "rate_limits: [ x, y ],", "rate_limits: y"), "");
  EXPECT_EQ(
      limit_errors(all, "connection_rate_limits: [ x, y ],"),
      "f:2:75: listeners[0].connection_rate_limits[1]: \"y\" counts by more than the source, which is all that is "
      "known of a connection: give it `key: { source: true }`");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, delay: 2s }", "connection_rate_limits: x,"),
            "f:2:70: listeners[0].connection_rate_limits[0]: \"x\" has a `delay`, and connections do not wait: name a "
            "limit without one");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, delay: 2s }", "", "rate_limits: x,"), "");
  EXPECT_EQ(limit_errors(all, "", "rate_limits: [ x, y, x ],"),
            "f:3:30: listeners[0].http.rate_limits[2]: \"x\" is listed twice");
  EXPECT_EQ(limit_errors(all, "", "", "rate_limits: [ z ]"),
            "f:4:42: listeners[0].http.routes[0].rate_limits[0]: there is no rate limit \"z\"; add it under "
            "`rate_limits`");
}

TEST(LoaderRateLimits, Handshakes) {
  const auto named = [](std::string_view limit, std::string_view tls) {
    return limit_errors(absl::StrCat("{ name: x, rate: 5/s", limit, " }"),
                        absl::StrCat("handshake_rate_limits: x,", tls));
  };
  const std::string_view tls = " tls: { certificates: [ { chain: /c, key: /k } ] },";
  EXPECT_EQ(named("", tls), "");
  EXPECT_EQ(named(", key: { source: true, sni: true }", tls), "");
  EXPECT_NE(named("", "").find("needs `tls` at the listener"), std::string::npos);
  EXPECT_NE(named(", key: { host: true }", tls).find("counts by more than the source and the server name"),
            std::string::npos);
  EXPECT_NE(named(", delay: 1s", tls).find("connections do not wait"), std::string::npos);
}

TEST(LoaderRateLimits, Values) {
  EXPECT_EQ(
      limit_errors("{ name: x, rate: 5 }"),
      "f:1:33: rate_limits[0].rate: expected a rate such as 100/s, 20/m or 1000/h, got \"5\"; add its unit, as in "
      "100/s");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, burst: 0 }"),
            "f:1:45: rate_limits[0].burst: expected `auto`, a number from 1 such as 200, or a size such as 8MiB, got "
            "\"0\"");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, burst: 1000001 }"),
            "f:1:45: rate_limits[0].burst: expected a number from 1 to 1000000, got 1000001");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, burst: 8KiB }"),
            "f:1:45: rate_limits[0].burst: expected a number such as 200, as `rate` has no bytes, got 8KiB");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, status: 200 }"),
            "f:1:46: rate_limits[0].status: must be from 400 to 599, got \"200\"");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, entries: 100000000 }"),
            "f:1:47: rate_limits[0].entries: must be from 8 to 16777216, got \"100000000\"");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, delay: 61s }"),
            "f:1:45: rate_limits[0].delay: must be from 0 to 1m, got \"61s\"");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, key: {} }"),
            "f:1:43: rate_limits[0].key: expected `source`, `route`, `host`, `sni`, `peer`, `header`, `cookie` or "
            "`jwt_claim`");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s, key: { cookie: a b } }"),
            "f:1:53: rate_limits[0].key.cookie: expected the name of a cookie, got \"a b\"");
  EXPECT_EQ(limit_errors("{ name: x, rate: 5/s }, { name: x, rate: 6/s }"),
            "f:1:48: rate_limits[1].name: \"x\" is already the name of rate_limits[0] (1:16); names must be unique");
}

TEST(LoaderRateLimits, Bandwidth) {
  const std::string_view all = "{ name: x, rate: 2MiB/s }, { name: y, rate: 5/s }";
  EXPECT_EQ(limit_errors(all, "", "response_bandwidth: x, rate_limits: y,", "request_bandwidth: [ x ]"), "");
  EXPECT_EQ(limit_errors(all, "", "response_bandwidth: y,"),
            "f:3:29: listeners[0].http.response_bandwidth[0]: \"y\" counts no bytes: give it a rate such as 2MiB/s");
  for (const auto& [listener, http] : {std::pair("connection_rate_limits: x,", ""), std::pair("", "rate_limits: x,")}) {
    EXPECT_NE(limit_errors(all, listener, http)
                  .find("\"x\" has a rate in bytes: name it in `response_bandwidth` or `request_bandwidth`"),
              std::string::npos);
  }
  EXPECT_NE(limit_errors(all, "", "", "request_bandwidth: z").find("there is no rate limit \"z\""), std::string::npos);
  EXPECT_EQ(limit_errors("{ name: x, rate: 2MiB/s, burst: 100KiB }", "", "response_bandwidth: x,"),
            "f:1:48: rate_limits[0].burst: expected from 205KiB, 1/10 of what the rate admits in a second, to 64GiB, "
            "got 100KiB");
  EXPECT_EQ(limit_errors("{ name: x, rate: 2MiB/s, delay: 1s }", "", "response_bandwidth: x,"),
            "f:1:48: rate_limits[0].delay: has no effect with a rate in bytes, which wait as long as they must: "
            "remove it");
  std::string nine, names;
  for (char name = 'a'; name <= 'i'; ++name) {
    absl::StrAppend(&nine, nine.empty() ? "" : ", ", "{ name: ", std::string(1, name), ", rate: 2MiB/s }");
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(1, name));
  }
  EXPECT_NE(limit_errors(nine, "", absl::StrCat("request_bandwidth: [ ", names, " ],"))
                .find("expected at most 8 limits with those of the listener, got 9"),
            std::string::npos);
}

TEST(LoaderRateLimits, BandwidthOfTcp) {
  const auto errors = [](std::string_view key, std::string_view name = "x") {
    return std::string(
        load_text(absl::StrCat("rate_limits: [ { name: x, rate: 2MiB/s", key, " }, { name: y, rate: 5/s } ]\n",
                               "listeners: [ { name: a, address: 0.0.0.0:80, connection_rate_limits: y,\n",
                               "tcp: { forward: u, upload_bandwidth: x, download_bandwidth: ", name,
                               " } } ]\nupstreams: [ { name: u, endpoints: [ 127.0.0.1:9000 ] } ]"),
                  "f")
            .status()
            .message());
  };
  EXPECT_EQ(errors(""), "");
  EXPECT_EQ(errors(", key: { source: true, route: true }"), "");
  EXPECT_NE(errors("", "y").find("f:3:61: listeners[0].tcp.download_bandwidth[0]: \"y\" counts no bytes"),
            std::string::npos);
  for (const std::string_view key : {"host: true", "header: x-key", "cookie: id"}) {
    EXPECT_NE(errors(absl::StrCat(", key: { ", key, " }"))
                  .find("\"x\" counts by `host`, `header` or `cookie`, which connections do not have"),
              std::string::npos)
        << key;
  }
  EXPECT_NE(errors(", key: { sni: true }").find("needs `tls` here"), std::string::npos);
  EXPECT_NE(errors(", key: { jwt_claim: sub }").find("name it in routes"), std::string::npos);
}

// A key that no request can have is a mistake.
TEST(LoaderRateLimits, KeysThatNeedSomething) {
  const auto named = [](std::string_view key, std::string_view route = "") {
    return limit_errors(absl::StrCat("{ name: x, rate: 5/s, key: { ", key, " } }"), "", "",
                        absl::StrCat("rate_limits: x", route));
  };
  const std::string at = "f:4:40: listeners[0].http.routes[0].rate_limits[0]: \"x\" counts by ";
  EXPECT_EQ(named("sni: true"), at + "`sni`, which needs `tls` here");
  EXPECT_EQ(named("peer: true"), at + "`peer`, which needs `alts`, or `tls` with `client_certificate`");
  const std::string claim = at + "`jwt_claim`: name it in routes whose `auth.jwt.claims` lists \"sub\"";
  EXPECT_EQ(named("jwt_claim: sub"), claim);
  const std::string_view jwt =
      ", auth: { jwt: { jwks_file: /k, audience: a, issuer: b, claims: [ { claim: sub, header: x-sub } ] } }";
  EXPECT_EQ(named("jwt_claim: tenant", jwt),
            at + "`jwt_claim`: name it in routes whose `auth.jwt.claims` lists \"tenant\"");
  EXPECT_EQ(named("jwt_claim: sub", jwt), "");
}

TEST(LoaderRateLimits, Defaults) {
  const absl::StatusOr<Config> config =
      load_text(with_limits("{ name: x, rate: 50/s }", "", "rate_limits: x,", ""), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  const RateLimit& limit = config->rate_limits[0];
  EXPECT_EQ(limit.effective_key(), RateKey{.source = true});
  EXPECT_EQ(limit.effective_burst(), 50u);
  EXPECT_EQ(limit.status, 429u);
  EXPECT_EQ(limit.entries, 65536u);
  const absl::StatusOr<Config> again = load_text(print_config(*config), "f");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *config);
}

TEST(LoaderRateLimits, WhatCountsTheSame) {
  const RateLimit limit{.name = "x", .rate = Rate::parse("50/s").value()};
  RateLimit other = limit;
  other.status = 503;
  other.dry_run = true;
  other.burst = 50;
  other.key = RateKey{.source = true};
  EXPECT_TRUE(limit.counts_as(other));
  other.burst = 51;
  EXPECT_FALSE(limit.counts_as(other));
  other.burst = 50;
  other.delay = std::chrono::seconds(1);
  EXPECT_FALSE(limit.counts_as(other));
}

// Line 2 has the keys of `http`, line 3 those of its route.
std::string with_service(std::string_view http, std::string_view route) {
  return absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: {\n", http, "\nroutes: [ { forward: web, ",
                      route,
                      " } ] } } ]\nupstreams: [ { name: web, endpoints: [ 127.0.0.1:9000 ] }, { name: rl, "
                      "protocol: http2, endpoints: [ 127.0.0.1:9001 ] } ]\n");
}

std::string service_errors(std::string_view http, std::string_view route = "") {
  const absl::StatusOr<Config> config = load_text(with_service(http, route), "f");
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(LoaderGlobalRateLimits, Values) {
  const auto with = [](std::string_view entries) {
    return service_errors(
        absl::StrCat("global_rate_limits: { to: rl, domain: edge, descriptors: [ { entries: [ ", entries, " ] } ] },"));
  };
  EXPECT_EQ(with("{ source: true }, { route: true, key: r }, { host: true }, { header: X-Key }, { cookie: c }, "
                 "{ value: v, key: k }"),
            "");
  const std::string at = "f:2:73: listeners[0].http.global_rate_limits.descriptors[0].entries[0]";
  const std::string one = at +
                          ": expected exactly one of `source`, `route`, `host`, `sni`, `peer`, `header`, "
                          "`cookie`, `jwt_claim` and `value`";
  EXPECT_EQ(with("{ key: k }"), one);
  EXPECT_EQ(with("{ source: true, host: true }"), one);
  for (const char* const entry : {"{ sni: true }", "{ peer: true }", "{ jwt_claim: sub }", "{ cookie: 'a b' }"}) {
    EXPECT_NE(with(entry), "") << entry;
  }
  EXPECT_NE(
      service_errors("global_rate_limits: { to: rl, domain: '', descriptors: [ { entries: [ { host: true } ] } ] },"),
      "");
  EXPECT_NE(
      service_errors("global_rate_limits: { to: web, domain: a, descriptors: [ { entries: [ { host: true } ] } ] },")
          .find("gets calls of gRPC: give it `protocol: http2`"),
      std::string::npos);
}

TEST(LoaderGlobalRateLimits, DescriptorsAndTheirService) {
  const std::string_view service = "global_rate_limits: { to: rl, domain: edge },";
  const std::string_view descriptors = "rate_limit_descriptors: [ { entries: [ { source: true } ] } ]";
  EXPECT_EQ(service_errors(service, descriptors), "");
  EXPECT_NE(service_errors(service).find("requests without a descriptor are not counted"), std::string::npos);
  EXPECT_NE(service_errors("", descriptors).find("needs `global_rate_limits` in the listener's `http`"),
            std::string::npos);
  const std::string_view claim =
      "rate_limit_descriptors: [ { entries: [ { jwt_claim: sub } ] } ], auth: { jwt: { jwks_file: /k, audience: a, "
      "issuer: b, claims: [ { claim: sub, header: x-sub } ] } }";
  EXPECT_EQ(service_errors(service, claim), "");
}

TEST(LoaderGlobalRateLimits, Printed) {
  const std::string text = with_service(
      "global_rate_limits: { to: rl, domain: edge, timeout: 7ms, on_failure: refuse, descriptors: [ { entries: [ "
      "{ source: true, key: ip }, { header: x-a } ] } ] },",
      "rate_limit_descriptors: [ { entries: [ { value: v } ] } ]");
  const absl::StatusOr<Config> config = load_text(text, "f");
  ASSERT_TRUE(config.ok()) << config.status();
  const absl::StatusOr<Config> again = load_text(print_config(*config), "printed");
  ASSERT_TRUE(again.ok()) << again.status() << print_config(*config);
  EXPECT_EQ(*again, *config);
  const GlobalRateLimits& limits = *config->listeners[0].http->global_rate_limits;
  EXPECT_EQ(limits.timeout, std::chrono::milliseconds(7));
  EXPECT_EQ(limits.on_failure, OnFailure::kRefuse);
  EXPECT_EQ(limits.descriptors[0].entries[0].key, "ip");
}

}  // namespace
}  // namespace sluice::config
