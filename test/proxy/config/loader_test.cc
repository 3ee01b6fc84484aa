#include "proxy/config/load/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/config/load/include.h"
#include "proxy/config/load/print.h"
#include "proxy/config/load/reference.h"
#include "proxy/config/load/yaml.h"

namespace sluice::config {
namespace {

// The parts of a file that a case is not about.
constexpr std::string_view kUpstreams = "upstreams: [ { name: pg, endpoints: [ 127.0.0.1:9100 ] } ]\n";
constexpr std::string_view kListeners = "listeners: [ { name: db, address: 0.0.0.0:5432, tcp: { forward: pg } } ]\n";

std::string errors_of(std::string_view text) {
  const absl::StatusOr<Config> config = load_text(text, "f");
  if (config.ok()) return "";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

struct Bad {
  std::string text;
  std::vector<std::string> errors;
};

void expect_errors(const std::vector<Bad>& cases) {
  for (const Bad& c : cases) EXPECT_EQ(errors_of(c.text), absl::StrJoin(c.errors, "\n")) << c.text.substr(0, 1000);
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

// With one listener, whose map has `fields` from column 16 of line 1.
std::string with_listener(std::string_view fields) {
  return absl::StrCat("listeners: [ { ", fields, " } ]\n", kUpstreams);
}

// With one valid listener, except for `fields` in its tcp from column 56 of line 1.
std::string with_tcp(std::string_view fields) {
  return with_listener(absl::StrCat("name: db, address: 0.0.0.0:5432, tcp: { ", fields, " }"));
}

// With one upstream, whose map has `fields` from column 16 of line 2, after its name and endpoint.
std::string with_upstream(std::string_view fields) {
  return absl::StrCat(kListeners, "upstreams: [ { ", fields, " } ]\n");
}

// With one valid upstream, except for `fields` from column 58 of line 2.
std::string with_endpoint_and(std::string_view fields) {
  return with_upstream(absl::StrCat("name: pg, endpoints: [ 127.0.0.1:9100 ], ", fields));
}

TEST(Loader, DefaultsAreThoseOfTheStructs) {
  const absl::StatusOr<Config> config = load_text(absl::StrCat(kListeners, kUpstreams), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  Config expected;
  Listener& listener = expected.listeners.emplace_back();
  listener.name = "db";
  listener.addresses = {*Address::parse("0.0.0.0:5432")};
  listener.tcp.emplace().forward = "pg";
  Upstream& upstream = expected.upstreams.emplace_back();
  upstream.name = "pg";
  upstream.endpoints.push_back({.address = *Address::parse("127.0.0.1:9100")});
  EXPECT_EQ(*config, expected);
}

TEST(Loader, ReadsEveryKey) {
  constexpr std::string_view kText = R"(
workers: 3
shutdown_timeout: 1m
shutdown_delay: 7s
reload: { max_generations: 3 }
watch: true
user: "www:web"
core_dumps: on
sandbox: true
log: { level: debug, format: json, to: "syslog:/run/log" }
admin: { address: [ 127.0.0.1:9901, "unix:/run/admin" ], mode: 0660, token_file: t.txt, envoy_stats: true,
         max_connections: 5, idle_timeout: 6s, header_timeout: 7s, send_timeout: 8s }
limits: { max_connections: 1000 }
memory: { worker_budget: 4MiB, budget: 45MiB, lendable: 44, ring_entries: 8, zero_copy_from: 64KiB, rings: plain }
overload:
  memory: { enabled: false, limit: 46MiB, reduce: 47, close: 48, refuse: 49 }
  delay: { target: 52ms, interval: 51ms, refuse: normal }
body_file: { directory: /x, limit: 6MiB }
rate_limits:
  - name: all
    key: { source: true, route: true, host: true, sni: false, peer: false, header: X-K, cookie: l, jwt_claim: sub }
    rate: 42/m
    burst: 43
    delay: 44s
    entries: 64
    status: 503
    dry_run: true
  - { name: some, rate: 44/h }
  - { name: pipe, rate: 45MiB/s, burst: 46MiB }
listeners:
  - name: edge
    address: [ "[::]:443", "unix:/run/edge" ]
    server_names: [ A.example.com, "**.example.org" ]
    ipv6_only: true
    backlog: 128
    max_connections: 7
    max_connections_per_source: 0
    connection_rate_limits: [ some ]
    handshake_rate_limits: [ some ]
    proxy_protocol: { accept: optional, timeout: 2s, trusted: [ 10.0.0.0/8, "::1" ] }
    keepalive: { idle: 0, interval: 5s, probes: 2 }
    nodelay: false
    tls:
      certificates: [ { chain: a.pem, key: a.key, ocsp: a.der }, { chain: b.pem, key: b.key } ]
      alpn: [ h2, http/1.1 ]
      client_ca: ca.pem
      client_certificate: request
      client_depth: 2
      min_version: "1.3"
      handshake_timeout: 3s
      max_handshakes: 50
      tickets: true
      ticket_keys: [ now.key, before.key ]
    tcp:
      idle_timeout: 5m
      max_duration: 24h
      inspect_timeout: 500ms
      stuck_timeout: 20s
      buffer_high: 64KiB
      buffer_low: 1KiB
      upload_bandwidth: pipe
      download_bandwidth: [ pipe ]
      routes:
        - match: { sni: [ a.example.com, "*.B.example.com" ], alpn: [ h2 ], peer: [ "spiffe://x/y" ] }
          forward: one
        - forward: two
  - name: web
    address: "[::]:80"
    http:
      routes:
        - match: { host: [ a.example.com, "*.b.example.com" ], path: { prefix: /v1/ } }
          forward: three
        - match: { host: a.example.com, path: { exact: /health } }
          respond: { status: 503, body: "down\n", content_type: text/html }
        - match:
            method: [ GET, HEAD ]
            headers: [ { name: X-A, exact: b, not: true } ]
            query: [ { name: c, prefix: d, suffix: e, contains: f } ]
            source: [ 10.0.0.0/8 ]
          redirect: { status: 307, scheme: https, host: a.example.com, port: 8443, path: /g, drop_query: true }
        - name: second
          match: { path: { prefix: /v2 } }
          forward: three
          rewrite: { prefix: /, host: "inner:80" }
          max_body: 3MiB
          compression: false
          allow: [ 10.0.0.0/8 ]
          deny: [ 10.1.0.0/16 ]
          maintenance: { file: /run/down, retry_after: 41s }
          priority: low
          auth: { basic: { users_file: users, realm: shed }, forward: true }
          forward_auth: { to: three, path: /may, host: who.test, timeout: 45s, request_headers: [ x-m ],
                          response_headers: [ x-n ], on_failure: allow }
          cors:
            origins: [ "https://a.example" ]
            origin_regex: "https://([a-z]+\\.)+b\\.example"
            methods: [ PUT ]
            headers: [ x-g ]
            expose: [ x-h ]
            credentials: true
            max_age: 5m
          request_headers: [ { name: X-B, set: "%{host}" }, { name: x-c, remove: true } ]
          response_headers: [ { name: x-d, add: e } ]
        - match: { path: { regex: "/v[3-5]/.*" }, headers: [ { name: x-i, regex: "j|k" } ] }
          forward: three
          rewrite: { regex: '/v(.)/(.*)', substitution: '/\2/\1' }
          rate_limits: all
          response_bandwidth: pipe
          request_bandwidth: [ pipe ]
          rate_limit_descriptors: [ { entries: [ { value: api, key: kind }, { route: true } ] } ]
          ext_authz: { to: three, timeout: 46s, on_failure: allow }
          auth:
            jwt:
              jwks_file: keys.json
              issuer: me
              audience: [ you ]
              leeway: 5s
              header: x-token
              scheme: Token
              cookie: token
              claims: [ { claim: sub, header: x-user } ]
        - split:
            - { forward: two, weight: 9, request_headers: [ { name: x-k, set: l } ], response_headers: [ { name: x-m, remove: true } ] }
            - { forward: three }
          request_timeout: 30s
          stream_idle_timeout: 31s
          response_timeout: 32s
          retry: { on: [ 5xx, timeout ], retriable_status_codes: 429, attempts: 4, try_timeout: 2s, backoff: 10ms, max_backoff: 1s, hedge_after: 1s }
          buffer: { requests: 4MiB, responses: 5MiB }
          mirror: [ { to: two, percent: 5 }, { to: three } ]
          match: { path: { prefix: /split } }
        - { match: { path: { exact: /ready } }, readiness: true }
        - forward: two
      rate_limits: some
      response_bandwidth: [ pipe ]
      request_bandwidth: pipe
      global_rate_limits: { to: three, domain: d, timeout: 47ms, on_failure: refuse, descriptors: [ { entries: [ { source: true } ] } ] }
      request_headers: [ { name: x-e, set: f } ]
      response_headers: [ { name: x-f, set: g } ]
      header_timeout: 11s
      body_timeout: 12s
      send_timeout: 13s
      idle_timeout: 14s
      stream_idle_timeout: 15s
      tunnel_timeout: 16s
      request_timeout: 17s
      max_connection_age: 18s
      max_start_line: 4KiB
      max_head: 16KiB
      max_fields: 50
      max_body: 2MiB
      buffer_high: 128KiB
      compression: { codings: [ br, gzip ], types: text/html, min_size: 2KiB, level: 9, max_streams: 5 }
      forwarded_for: replace
      via: edge.example.com:443
      allow_connect: true
      websocket: false
      paths: { escaped_slashes: decode, merge_slashes: true, allow_backslashes: true, allow_dot_parameters: true }
      http1: { max_requests: 19, allow_underscores: true, allow_empty_line: false, half_close: allow }
      http2:
        max_streams: 20
        stream_window: 32KiB
        connection_window: 128KiB
        max_requests: 21
        preface_timeout: 22s
      forwarded: append
      trusted_hops: 2
      trusted_proxies: [ 10.0.0.0/8 ]
      request_id: { header: X-Id, accept: trusted, respond: true }
      trace_context: make
      tracing: { to: two, sample: 0.5, path: /t, service_name: edge }
      errors:
        - { status: [ 404, 5xx ], body: "%{reason}", content_type: text/x }
        - { status: 403, file: errors/403.html }
      access_log: { file: "otlp:two", format: json, when: status >= 500, sample: 0.25, otlp: { path: /l, service_name: edge } }
  - name: inner
    address: 127.0.0.1:444
    alts:
      certificates: [ { chain: a.pem, key: a.key } ]
      peer_ca: peers.pem
      target_identities: [ b.example.com ]
      max_frame_size: 128KiB
      handshake_timeout: 4s
      max_handshakes: 60
    tcp: { forward: two }
upstreams:
  - name: one
    protocol: tcp
    endpoints: [ "unix:@x", { address: localhost:80, weight: 1000 } ]
    balance: least_connections
    connect_timeout: 250ms
    connect_attempts: 9
    max_fails: 0
    fail_timeout: 1s
    max_connections_per_endpoint: 5
    send_proxy_protocol: v2
    keepalive: { idle: 10s }
    nodelay: false
    tls:
      verify: true
      ca: roots.pem
      server_name: one.internal
      verify_names: [ "spiffe://mesh/one" ]
      certificate: { chain: c.pem, key: c.key }
      alpn: [ x ]
      min_version: "1.3"
  - name: two
    endpoints: [ { address: 1.2.3.4:5, priority: 15 } ]
    retry_budget: { percent: 30, min: 7 }
    balance: maglev
    hash: { header: X-User, path: false, source: false }
    sticky: { cookie: srv, ttl: 29s, path: /app, secret: hidden }
    slow_start: 30s
    failover_below: 100
    health_check: { http: { path: /up, host: a.test, status: [ 204, 200 ], body: "ok" } }
    alts: { handshaker: "169.254.169.254:8080", target_identities: [ a@b ] }
  - name: three
    protocol: http2
    health_check: { interval: 7s, timeout: 900ms, healthy_after: 4, unhealthy_after: 6, port: 81, grpc: { service: a.B } }
    ejection: { consecutive_errors: 9, gateway_errors: 8, time: 10s, max_time: 11s, max_share: 12 }
    endpoints: [ 1.2.3.4:6, app.test:80, { srv: _http._tcp.test } ]
    resolve: { servers: [ 127.0.0.1:53 ], family: ip6, min_ttl: 29s, max_ttl: 30s, timeout: 31s, attempts: 8,
               max_addresses: 33 }
    adaptive_concurrency: { min: 4, max: 90, initial: 30, max_wait: 31s }
    pool: { max_idle: 23, idle_timeout: 24s, max_requests: 25, max_streams: 26, max_pending: 27 }
    response_timeout: 28s
)";
  for (const KeyInfo& key : list_keys()) {
    if (key.path == kIncludeKey) continue;  // it is no value: include_test.cc
    const std::string last = key.path.substr(key.path.rfind('.') + 1);
    EXPECT_TRUE(absl::StrContains(kText, last + ":")) << key.path << " is missing in this test";
  }
  const absl::StatusOr<Config> loaded = load_text(kText, "f");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Config& config = *loaded;
  EXPECT_EQ(config.workers, 3);
  EXPECT_EQ(config.shutdown_timeout, std::chrono::minutes(1));
  Admin admin;
  admin.addresses = {*Address::parse("127.0.0.1:9901"), *Address::parse("unix:/run/admin")};
  admin.mode = FileMode(0660);
  admin.token_file = "t.txt";
  admin.envoy_stats = true;
  admin.max_connections = 5;
  admin.idle_timeout = std::chrono::seconds(6);
  admin.header_timeout = std::chrono::seconds(7);
  admin.send_timeout = std::chrono::seconds(8);
  EXPECT_EQ(config.admin, admin);
  EXPECT_EQ(config.shutdown_delay, std::chrono::seconds(7));
  EXPECT_EQ(config.reload.max_generations, 3);
  EXPECT_TRUE(config.watch);
  EXPECT_EQ(config.user.name(), "www");
  EXPECT_EQ(config.user.group(), "web");
  EXPECT_EQ(config.core_dumps, CoreDumps::kOn);
  EXPECT_TRUE(config.sandbox);
  EXPECT_EQ(config.log.level, LogLevel::kDebug);
  EXPECT_EQ(config.log.format, LogStyle::kJson);
  EXPECT_EQ(config.log.to.destination(), (LogDestination{LogDestination::Kind::kSyslog, "/run/log"}));
  EXPECT_EQ(config.limits.max_connections, 1000);
  EXPECT_EQ(config.memory.worker_budget.bytes, 4 * kMiB);
  EXPECT_EQ(config.memory.budget.bytes, 45 * kMiB);
  EXPECT_EQ(config.memory.lendable, 44);
  EXPECT_EQ(config.memory.ring_entries, 8);
  EXPECT_EQ(config.memory.zero_copy_from.bytes, 64 * kKiB);
  EXPECT_EQ(config.memory.rings, Rings::kPlain);
  EXPECT_EQ(config.overload.memory,
            (OverloadMemory{.enabled = false, .limit = Size{46 * kMiB}, .reduce = 47, .close = 48, .refuse = 49}));
  EXPECT_EQ(config.overload.delay, (OverloadDelay{.target = std::chrono::milliseconds(52),
                                                  .interval = std::chrono::milliseconds(51),
                                                  .refuse = Priority::kNormal}));
  EXPECT_EQ(config.body_file, (BodyFile{.directory = "/x", .limit = {6 * kMiB}}));
  ASSERT_EQ(config.rate_limits.size(), 3);
  EXPECT_EQ(config.rate_limits[0], (RateLimit{.name = "all",
                                              .key = RateKey{.source = true,
                                                             .route = true,
                                                             .host = true,
                                                             .header = *FieldName::parse("x-k"),
                                                             .cookie = "l",
                                                             .jwt_claim = "sub"},
                                              .rate = *Rate::parse("42/m"),
                                              .burst = 43,
                                              .delay = std::chrono::seconds(44),
                                              .entries = 64,
                                              .status = 503,
                                              .dry_run = true}));
  EXPECT_EQ(config.rate_limits[2],
            (RateLimit{.name = "pipe", .rate = *Rate::parse("45MiB/s"), .burst = *Burst::parse("46MiB")}));

  ASSERT_EQ(config.listeners.size(), 3);
  const Listener& edge = config.listeners[0];
  EXPECT_EQ(edge.name, "edge");
  ASSERT_EQ(edge.addresses.size(), 2);
  EXPECT_EQ(edge.addresses[0].text(), "[::]:443");
  EXPECT_EQ(edge.addresses[1].text(), "unix:/run/edge");
  ASSERT_EQ(edge.server_names.size(), 2);
  EXPECT_EQ(edge.server_names[0].text(), "a.example.com");
  EXPECT_EQ(edge.server_names[1].text(), "**.example.org");
  EXPECT_TRUE(edge.ipv6_only);
  EXPECT_EQ(edge.backlog, 128);
  EXPECT_EQ(edge.max_connections, 7);
  EXPECT_EQ(edge.max_connections_per_source, 0);
  EXPECT_EQ(edge.connection_rate_limits, std::vector<std::string>{"some"});
  EXPECT_EQ(edge.handshake_rate_limits, std::vector<std::string>{"some"});
  EXPECT_EQ(edge.proxy_protocol.accept, ProxyHeaderIn::kOptional);
  EXPECT_EQ(edge.proxy_protocol.timeout, std::chrono::seconds(2));
  ASSERT_EQ(edge.proxy_protocol.trusted.size(), 2);
  EXPECT_EQ(edge.proxy_protocol.trusted[1].text(), "::1/128");
  EXPECT_EQ(edge.keepalive, (Keepalive{.idle = Duration{0}, .interval = std::chrono::seconds(5), .probes = 2}));
  EXPECT_FALSE(edge.nodelay);
  ASSERT_TRUE(edge.tls);
  ASSERT_EQ(edge.tls->certificates.size(), 2);
  EXPECT_EQ(edge.tls->certificates[0], (TlsCertificate{.chain = "a.pem", .key = "a.key", .ocsp = "a.der"}));
  EXPECT_EQ(edge.tls->alpn, (std::vector<std::string>{"h2", "http/1.1"}));
  EXPECT_EQ(edge.tls->client_ca, "ca.pem");
  EXPECT_EQ(edge.tls->client_certificate, ClientCertificate::kRequest);
  EXPECT_EQ(edge.tls->client_depth, 2);
  EXPECT_EQ(edge.tls->min_version, TlsVersion::k13);
  EXPECT_EQ(edge.tls->handshake_timeout, std::chrono::seconds(3));
  EXPECT_EQ(edge.tls->max_handshakes, 50);
  EXPECT_TRUE(edge.tls->tickets);
  EXPECT_EQ(edge.tls->ticket_keys, (std::vector<std::string>{"now.key", "before.key"}));
  EXPECT_EQ(edge.tcp->idle_timeout, std::chrono::minutes(5));
  EXPECT_EQ(edge.tcp->max_duration, std::chrono::hours(24));
  EXPECT_EQ(edge.tcp->inspect_timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(edge.tcp->stuck_timeout, std::chrono::seconds(20));
  EXPECT_EQ(edge.tcp->buffer_high.bytes, 64 * kKiB);
  EXPECT_EQ(edge.tcp->buffer_low.bytes, 1 * kKiB);
  ASSERT_EQ(edge.tcp->routes.size(), 2);
  ASSERT_TRUE(edge.tcp->routes[0].match.has_value());
  EXPECT_EQ(edge.tcp->routes[0].match->sni[1].text(), "*.b.example.com");
  EXPECT_EQ(edge.tcp->routes[0].match->alpn, std::vector<std::string>{"h2"});
  EXPECT_EQ(edge.tcp->routes[0].match->peer, std::vector<std::string>{"spiffe://x/y"});
  EXPECT_EQ(edge.tcp->routes[0].forward, "one");
  EXPECT_FALSE(edge.tcp->routes[1].match.has_value());

  EXPECT_FALSE(edge.http);
  EXPECT_FALSE(config.listeners[1].tcp);
  ASSERT_TRUE(config.listeners[1].http);
  const Http& http = *config.listeners[1].http;
  ASSERT_EQ(http.routes.size(), 8);
  ASSERT_EQ(http.routes[5].split.size(), 2);
  EXPECT_EQ(http.routes[5].split[0].forward, "two");
  EXPECT_EQ(http.routes[5].split[0].weight, 9);
  EXPECT_EQ(http.routes[5].split[0].request_headers.at(0).set.text(), "l");
  EXPECT_TRUE(http.routes[5].split[0].response_headers.at(0).remove);
  EXPECT_EQ(http.routes[5].split[1], (SplitTarget{"three", 1}));
  EXPECT_EQ(http.routes[5].request_timeout, std::chrono::seconds(30));
  EXPECT_EQ(http.routes[5].stream_idle_timeout, std::chrono::seconds(31));
  EXPECT_EQ(http.routes[5].response_timeout, std::chrono::seconds(32));
  EXPECT_EQ(http.routes[5].retry, (Retry{.on = {RetryOn::k5xx, RetryOn::kTimeout},
                                         .retriable_status_codes = {429},
                                         .attempts = 4,
                                         .try_timeout = std::chrono::seconds(2),
                                         .backoff = std::chrono::milliseconds(10),
                                         .max_backoff = std::chrono::seconds(1),
                                         .hedge_after = std::chrono::seconds(1)}));
  EXPECT_EQ(http.routes[5].buffer, (Buffering{.requests = {4 * kMiB}, .responses = {5 * kMiB}}));
  EXPECT_EQ(http.routes[5].mirror, (std::vector<Mirror>{{.to = "two", .percent = 5}, {.to = "three"}}));
  EXPECT_EQ(http.routes[0], (HttpRoute{.match = HttpMatch{.host = {*HostPattern::parse("a.example.com"),
                                                                   *HostPattern::parse("*.b.example.com")},
                                                          .path = PathMatch{.exact = "", .prefix = "/v1/"},
                                                          .peer = {}},
                                       .forward = "three",
                                       .respond = std::nullopt}));
  EXPECT_EQ(http.routes[1],
            (HttpRoute{.match = HttpMatch{.host = {*HostPattern::parse("a.example.com")},
                                          .path = PathMatch{.exact = "/health", .prefix = ""},
                                          .peer = {}},
                       .forward = "",
                       .respond = Respond{.status = 503, .body = "down\n", .content_type = "text/html"}}));
  const auto field = [](std::string_view name) { return FieldName::parse(name).value(); };
  const auto text = [](std::string_view value) { return TextTemplate::parse(value).value(); };
  HttpMatch match;
  match.method = {"GET", "HEAD"};
  match.headers = {{{.exact = "b", .prefix = "", .suffix = "", .contains = "", .negate = true}, field("x-a")}};
  match.query = {{{.exact = "", .prefix = "d", .suffix = "e", .contains = "f"}, "c"}};
  match.source = {Cidr::parse("10.0.0.0/8").value()};
  EXPECT_EQ(http.routes[2].match, match);
  Redirect redirect;
  redirect.path = "/g";
  redirect.status = 307;
  redirect.scheme = "https";
  redirect.host = "a.example.com";
  redirect.port = 8443;
  redirect.drop_query = true;
  EXPECT_EQ(http.routes[2].redirect, redirect);
  Rewrite rewrite;
  rewrite.prefix = "/";
  rewrite.host = "inner:80";
  EXPECT_EQ(http.routes[3].name, "second");
  EXPECT_EQ(http.routes[3].rewrite, rewrite);
  EXPECT_EQ(http.routes[3].max_body, Size{3 * kMiB});
  EXPECT_FALSE(http.routes[3].compression);
  EXPECT_EQ(http.compression, (Compression{.codings = {Coding::kBrotli, Coding::kGzip},
                                           .types = {"text/html"},
                                           .min_size = Size{2 * kKiB},
                                           .level = 9,
                                           .max_streams = 5}));
  using Changes = std::vector<FieldChange>;
  EXPECT_EQ(http.routes[3].request_headers,
            (Changes{{.name = field("x-b"), .set = text("%{host}")}, {.name = field("x-c"), .remove = true}}));
  EXPECT_EQ(http.routes[3].response_headers, (Changes{{.name = field("x-d"), .add = text("e")}}));
  EXPECT_EQ(http.routes[3].allow, std::vector{Cidr::parse("10.0.0.0/8").value()});
  EXPECT_EQ(http.routes[3].deny, std::vector{Cidr::parse("10.1.0.0/16").value()});
  EXPECT_EQ(http.routes[3].priority, Priority::kLow);
  EXPECT_EQ(http.routes[3].maintenance, (Maintenance{.file = "/run/down", .retry_after = std::chrono::seconds(41)}));
  EXPECT_EQ(http.routes[3].forward_auth, (ForwardAuth{.to = "three",
                                                      .path = "/may",
                                                      .host = "who.test",
                                                      .timeout = std::chrono::seconds(45),
                                                      .request_headers = {*FieldName::parse("x-m")},
                                                      .response_headers = {*FieldName::parse("x-n")},
                                                      .on_failure = OnFailure::kAllow}));
  EXPECT_EQ(http.routes[4].rate_limits, std::vector<std::string>{"all"});
  EXPECT_EQ(http.routes[4].response_bandwidth, std::vector<std::string>{"pipe"});
  EXPECT_EQ(http.routes[4].request_bandwidth, std::vector<std::string>{"pipe"});
  EXPECT_EQ(http.routes[4].ext_authz,
            (ExtAuthz{.to = "three", .timeout = std::chrono::seconds(46), .on_failure = OnFailure::kAllow}));
  ASSERT_EQ(http.routes[4].rate_limit_descriptors.size(), 1);
  ASSERT_EQ(http.routes[4].rate_limit_descriptors[0].entries.size(), 2);
  EXPECT_EQ(http.routes[4].rate_limit_descriptors[0].entries[0].value, "api");
  EXPECT_EQ(http.routes[4].rate_limit_descriptors[0].entries[0].key, "kind");
  EXPECT_TRUE(http.routes[4].rate_limit_descriptors[0].entries[1].route);
  ASSERT_TRUE(http.global_rate_limits.has_value());
  EXPECT_EQ(http.global_rate_limits->to, "three");
  EXPECT_EQ(http.global_rate_limits->domain, "d");
  EXPECT_EQ(http.global_rate_limits->timeout, std::chrono::milliseconds(47));
  EXPECT_EQ(http.global_rate_limits->on_failure, OnFailure::kRefuse);
  ASSERT_EQ(http.global_rate_limits->descriptors.size(), 1);
  EXPECT_TRUE(http.global_rate_limits->descriptors[0].entries[0].source);
  EXPECT_EQ(http.rate_limits, std::vector<std::string>{"some"});
  EXPECT_EQ(http.response_bandwidth, std::vector<std::string>{"pipe"});
  EXPECT_EQ(http.request_bandwidth, std::vector<std::string>{"pipe"});
  EXPECT_EQ(http.routes[3].auth, (Auth{.basic = BasicAuth{.users_file = "users", .realm = "shed"}, .forward = true}));
  EXPECT_EQ(http.routes[3].cors, (Cors{.origins = {"https://a.example"},
                                       .origin_regex = {*Regex::parse("https://([a-z]+\\.)+b\\.example")},
                                       .methods = {"PUT"},
                                       .headers = {field("x-g")},
                                       .expose = {field("x-h")},
                                       .credentials = true,
                                       .max_age = std::chrono::minutes(5)}));
  ASSERT_TRUE(http.routes[4].match && http.routes[4].rewrite && http.routes[4].auth);
  EXPECT_EQ(http.routes[4].match->path->regex.text(), "/v[3-5]/.*");
  EXPECT_EQ(http.routes[4].match->headers[0].regex.text(), "j|k");
  EXPECT_EQ(http.routes[4].rewrite->regex.text(), "/v(.)/(.*)");
  EXPECT_EQ(http.routes[4].rewrite->substitution, "/\\2/\\1");
  EXPECT_EQ(http.routes[4].auth->jwt, (JwtAuth{.jwks_file = "keys.json",
                                               .issuer = "me",
                                               .audience = {"you"},
                                               .leeway = std::chrono::seconds(5),
                                               .header = field("x-token"),
                                               .scheme = "Token",
                                               .cookie = "token",
                                               .claims = {{"sub", field("x-user")}}}));
  EXPECT_TRUE(http.routes[6].readiness);
  EXPECT_EQ(http.routes[7], (HttpRoute{.match = std::nullopt, .forward = "two", .respond = std::nullopt}));
  EXPECT_EQ(http.request_headers, (Changes{{.name = field("x-e"), .set = text("f")}}));
  EXPECT_EQ(http.response_headers, (Changes{{.name = field("x-f"), .set = text("g")}}));
  EXPECT_EQ(http.header_timeout, std::chrono::seconds(11));
  EXPECT_EQ(http.body_timeout, std::chrono::seconds(12));
  EXPECT_EQ(http.send_timeout, std::chrono::seconds(13));
  EXPECT_EQ(http.idle_timeout, std::chrono::seconds(14));
  EXPECT_EQ(http.stream_idle_timeout, std::chrono::seconds(15));
  EXPECT_EQ(http.tunnel_timeout, std::chrono::seconds(16));
  EXPECT_EQ(http.request_timeout, std::chrono::seconds(17));
  EXPECT_EQ(http.max_connection_age, std::chrono::seconds(18));
  EXPECT_EQ(http.max_start_line.bytes, 4 * kKiB);
  EXPECT_EQ(http.max_head.bytes, 16 * kKiB);
  EXPECT_EQ(http.max_fields, 50);
  EXPECT_EQ(http.max_body, Size{2 * kMiB});
  EXPECT_EQ(http.buffer_high.bytes, 128 * kKiB);
  EXPECT_EQ(http.forwarded_for, ForwardedFor::kReplace);
  EXPECT_EQ(http.via, "edge.example.com:443");
  EXPECT_TRUE(http.allow_connect);
  EXPECT_FALSE(http.websocket);
  EXPECT_EQ(http.paths, (Paths{.escaped_slashes = EscapedSlashes::kDecode,
                               .merge_slashes = true,
                               .allow_backslashes = true,
                               .allow_dot_parameters = true}));
  EXPECT_EQ(
      http.http1,
      (Http1{
          .max_requests = 19, .allow_underscores = true, .allow_empty_line = false, .half_close = HalfClose::kAllow}));
  EXPECT_EQ(http.http2, (Http2{.max_streams = 20,
                               .stream_window = Size{32 * kKiB},
                               .connection_window = Size{128 * kKiB},
                               .max_requests = 21,
                               .preface_timeout = std::chrono::seconds(22)}));
  EXPECT_EQ(http.forwarded, ForwardedFor::kAppend);
  EXPECT_EQ(http.trusted_hops, 2);
  EXPECT_EQ(http.trusted_proxies, std::vector<Cidr>{Cidr::parse("10.0.0.0/8").value()});
  EXPECT_EQ(http.request_id, (RequestId{.header = field("x-id"), .accept = TrustFrom::kTrusted, .respond = true}));
  EXPECT_EQ(http.trace_context, TraceContext::kMake);
  EXPECT_EQ(http.tracing,
            (Tracing{.to = "two", .path = "/t", .sample = Share::parse("0.5").value(), .service_name = "edge"}));
  const auto status = [](std::string_view value) { return StatusPattern::parse(value).value(); };
  EXPECT_EQ(http.errors, (std::vector<ErrorBody>{{.status = {status("404"), status("5xx")},
                                                  .body = ErrorText::parse("%{reason}").value(),
                                                  .content_type = "text/x"},
                                                 {.status = {status("403")}, .file = "errors/403.html"}}));
  EXPECT_EQ(http.access_log, (AccessLog{.file = "otlp:two",
                                        .format = LogFormat::parse("json").value(),
                                        .when = LogCondition::parse("status >= 500").value(),
                                        .sample = Share::parse("0.25").value(),
                                        .otlp = OtlpLogs{.path = "/l", .service_name = "edge"}}));

  ASSERT_TRUE(config.listeners[2].alts);
  const ListenerAlts& alts = *config.listeners[2].alts;
  EXPECT_FALSE(alts.handshaker.is_set());
  ASSERT_EQ(alts.certificates.size(), 1);
  EXPECT_EQ(alts.certificates[0].chain, "a.pem");
  EXPECT_EQ(alts.peer_ca, "peers.pem");
  EXPECT_EQ(alts.target_identities, std::vector<std::string>{"b.example.com"});
  EXPECT_EQ(alts.max_frame_size.bytes, 128 * kKiB);
  EXPECT_EQ(alts.handshake_timeout, std::chrono::seconds(4));
  EXPECT_EQ(alts.max_handshakes, 60);

  ASSERT_EQ(config.upstreams.size(), 3);
  const Upstream& one = config.upstreams[0];
  EXPECT_EQ(one.protocol, Protocol::kTcp);
  ASSERT_EQ(one.endpoints.size(), 2);
  EXPECT_EQ(one.endpoints[0], (Endpoint{.address = *Address::parse("unix:@x"), .weight = 1}));
  EXPECT_EQ(one.endpoints[1], (Endpoint{.address = *Address::parse("127.0.0.1:80"), .weight = 1000}));
  EXPECT_EQ(one.balance, Balance::kLeastConnections);
  EXPECT_EQ(one.connect_timeout, std::chrono::milliseconds(250));
  EXPECT_EQ(one.connect_attempts, 9);
  EXPECT_EQ(one.max_fails, 0);
  EXPECT_EQ(one.fail_timeout, std::chrono::seconds(1));
  EXPECT_EQ(one.max_connections_per_endpoint, 5);
  EXPECT_EQ(one.send_proxy_protocol, ProxyHeaderOut::kV2);
  ASSERT_TRUE(one.tls);
  EXPECT_EQ(*one.tls, (UpstreamTls{.verify = true,
                                   .ca = "roots.pem",
                                   .server_name = "one.internal",
                                   .verify_names = {"spiffe://mesh/one"},
                                   .certificate = TlsCertificate{.chain = "c.pem", .key = "c.key", .ocsp = {}},
                                   .alpn = {"x"},
                                   .min_version = TlsVersion::k13}));
  EXPECT_EQ(one.keepalive.idle, std::chrono::seconds(10));
  EXPECT_EQ(one.keepalive.probes, Keepalive{}.probes);
  EXPECT_FALSE(one.nodelay);
  EXPECT_EQ(config.upstreams[1].endpoints[0].priority, 15);
  EXPECT_EQ(config.upstreams[1].balance, Balance::kMaglev);
  EXPECT_EQ(config.upstreams[1].hash, HashKey{.header = *FieldName::parse("x-user")});
  EXPECT_EQ(config.upstreams[1].sticky,
            (Sticky{.cookie = "srv", .ttl = std::chrono::seconds(29), .path = "/app", .secret = "hidden"}));
  EXPECT_EQ(config.upstreams[1].slow_start, std::chrono::seconds(30));
  EXPECT_EQ(config.upstreams[1].failover_below, 100);
  ASSERT_TRUE(config.upstreams[1].alts);
  EXPECT_EQ(config.upstreams[1].alts->handshaker.text(), "169.254.169.254:8080");
  EXPECT_EQ(config.upstreams[1].alts->target_identities, std::vector<std::string>{"a@b"});
  EXPECT_EQ(config.upstreams[1].protocol, Protocol::kAuto);
  EXPECT_EQ(config.upstreams[2].protocol, Protocol::kHttp2);
  EXPECT_EQ(config.upstreams[2].endpoints[1].address, *EndpointAddress::parse("app.test:80"));
  EXPECT_EQ(config.upstreams[2].endpoints[2].srv, *ServiceName::parse("_http._tcp.test"));
  EXPECT_EQ(config.upstreams[2].resolve, (Resolve{.servers = {*Address::parse("127.0.0.1:53")},
                                                  .family = AddressFamily::kIp6,
                                                  .min_ttl = std::chrono::seconds(29),
                                                  .max_ttl = std::chrono::seconds(30),
                                                  .timeout = std::chrono::seconds(31),
                                                  .attempts = 8,
                                                  .max_addresses = 33}));
  EXPECT_EQ(config.upstreams[2].adaptive_concurrency,
            (AdaptiveConcurrency{.min = 4, .max = 90, .initial = 30, .max_wait = std::chrono::seconds(31)}));
  EXPECT_EQ(config.upstreams[2].pool, (Pool{.max_idle = 23,
                                            .idle_timeout = std::chrono::seconds(24),
                                            .max_requests = 25,
                                            .max_streams = 26,
                                            .max_pending = 27}));
  EXPECT_EQ(config.upstreams[2].response_timeout, std::chrono::seconds(28));
  EXPECT_EQ(config.upstreams[1].health_check,
            (HealthCheck{.http = HttpCheck{.path = "/up", .host = "a.test", .status = {204, 200}, .body = "ok"}}));
  EXPECT_EQ(config.upstreams[2].health_check, (HealthCheck{.interval = std::chrono::seconds(7),
                                                           .timeout = std::chrono::milliseconds(900),
                                                           .healthy_after = 4,
                                                           .unhealthy_after = 6,
                                                           .port = 81,
                                                           .grpc = GrpcCheck{.service = "a.B"}}));
  EXPECT_EQ(config.upstreams[2].ejection, (Ejection{.consecutive_errors = 9,
                                                    .gateway_errors = 8,
                                                    .time = std::chrono::seconds(10),
                                                    .max_time = std::chrono::seconds(11),
                                                    .max_share = 12}));

  const absl::StatusOr<Config> again = load_text(print_config(config), "printed");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, config);
}

TEST(Loader, TheLowMarkFollowsTheHighMark) {
  const absl::StatusOr<Config> config = load_text(with_tcp("forward: pg, buffer_high: 64KiB"), "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->listeners[0].tcp->buffer_low.bytes, 32 * kKiB);
}

TEST(Loader, ForwardIsARouteWithoutConditions) {
  const std::vector<TcpRoute> routes = routes_of(Tcp{.forward = "pg"});
  ASSERT_EQ(routes.size(), 1);
  EXPECT_EQ(routes[0], (TcpRoute{.match = std::nullopt, .forward = "pg"}));
  EXPECT_EQ(routes_of(Tcp{.routes = {{.match = TcpMatch{.alpn = {"h2"}}, .forward = "x"}}})[0].forward, "x");
}

TEST(Loader, Keys) {
  const std::string rest = absl::StrCat(kListeners, kUpstreams);
  expect_errors({
      {with_tcp("forwad: pg"), {"f:1:56: unknown key \"forwad\" in listeners[0].tcp; did you mean \"forward\"?"}},
      {"wrokers: 1\n" + rest, {"f:1:1: unknown key \"wrokers\" at the top level; did you mean \"workers\"?"}},
      {"memory: { size: 1 }\n" + rest,
       {"f:1:11: unknown key \"size\" in memory; the keys here are worker_budget, budget, lendable, ring_entries, "
        "zero_copy_from, "
        "rings"}},
      {"workers: 1\n" + rest + "workers: 2\n", {"f:4:1: duplicate key \"workers\": it is already at 1:1"}},
      {with_listener("nmae: db, adress: 0.0.0.0:1, tpc: { forward: pg }"),
       {"f:1:16: unknown key \"nmae\" in listeners[0]; did you mean \"name\"?",
        "f:1:26: unknown key \"adress\" in listeners[0]; did you mean \"address\"?",
        "f:1:45: unknown key \"tpc\" in listeners[0]; did you mean \"tcp\"?"}},
      {with_listener("backlog: 1"),
       {"f:1:14: missing key \"name\" in listeners[0]", "f:1:14: missing key \"address\" in listeners[0]",
        "f:1:14: missing key \"tcp\" or \"http\" in listeners[0]"}},
      {with_listener("name: db, address: 0.0.0.0:1, htpp: { forward: pg }"),
       {"f:1:46: unknown key \"htpp\" in listeners[0]; did you mean \"http\"?"}},
      {with_upstream("name: pg"), {"f:2:14: missing key \"endpoints\" in upstreams[0]"}},
      {"workers: 1\n", {"f:1:1: missing key \"listeners\" at the top level"}},
  });
}

TEST(Loader, WrongWords) {
  expect_errors({
      {with_endpoint_and("protocol: tpc"),
       {"f:2:67: upstreams[0].protocol: expected one of auto, tcp, http1, http2, got \"tpc\"; did you mean \"tcp\"?"}},
  });
}

TEST(Loader, AltsByName) {
  const auto config = load_text(with_listener("name: db, address: 0.0.0.0:5432, tcp: { forward: pg }, "
                                              "alts: { handshaker: \"metadata.google.internal.:8080\" }"),
                                "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->listeners[0].alts->handshaker.is_name());
  EXPECT_EQ(config->listeners[0].alts->handshaker.text(), "metadata.google.internal.:8080");
  expect_errors({{with_listener("name: db, address: 0.0.0.0:5432, tcp: { forward: pg }, alts: { handshaker: a.b:0 }"),
                  {"f:1:91: listeners[0].alts.handshaker: expected a port from 1 to 65535, got \"a.b:0\""}}});
}

TEST(Loader, WarnsOfUnverifiedEndpoints) {
  const std::string alone = with_endpoint_and("alts: { handshaker: 1.2.3.4:5 }");
  std::vector<std::string> warnings;
  ASSERT_TRUE(load_text(alone, "f", &warnings).ok());
  EXPECT_EQ(warnings,
            std::vector<std::string>{"f:2:63: warning: upstreams[0].alts: without `target_identities` any peer that "
                                     "the handshaker service authenticates is accepted as the endpoint"});
  EXPECT_TRUE(load_text(alone, "f").ok());
  ASSERT_TRUE(
      load_text(with_endpoint_and("alts: { handshaker: 1.2.3.4:5, target_identities: [ a@b ] }"), "f", &warnings).ok());
  EXPECT_TRUE(warnings.empty());
  ASSERT_TRUE(load_text(with_listener("name: db, address: 0.0.0.0:5432, tcp: { forward: pg }, "
                                      "alts: { handshaker: 1.2.3.4:5 }"),
                        "f", &warnings)
                  .ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], testing::HasSubstr("warning: listeners[0].alts: without `target_identities` any peer that"));
}

TEST(Loader, Alts) {
  const auto listener = [](std::string_view rest) {
    return with_listener(absl::StrCat("name: db, address: 0.0.0.0:5432, tcp: { forward: pg }, ", rest));
  };
  const std::string certificates = "certificates: [ { chain: a, key: b } ]";
  expect_errors({
      {listener("alts: {}"),
       {"f:1:77: listeners[0].alts: expected `handshaker: HOST:PORT`, or `certificates` with `peer_ca`"}},
      {listener("alts: { handshaker: 1.2.3.4:5, " + certificates + " }"),
       {"f:1:77: listeners[0].alts: `handshaker` and `certificates` exclude each other: the service "
        "authenticates this side"}},
      {listener("alts: { handshaker: 1.2.3.4:5, peer_ca: x }"),
       {"f:1:111: listeners[0].alts.peer_ca: has no effect with `handshaker`"}},
      {listener("alts: { handshaker: 1.2.3.4:0 }"),
       {"f:1:91: listeners[0].alts.handshaker: expected a port from 1 to 65535, got \"1.2.3.4:0\""}},
      {listener("alts: { " + certificates + " }"),
       {"f:1:77: listeners[0].alts: expected `peer_ca`, the authorities that the peer's certificate must come from"}},
      {listener("tls: { " + certificates + " }, alts: { handshaker: 1.2.3.4:5 }"),
       {"f:1:126: listeners[0].alts: `tls` and `alts` exclude each other"}},
      {listener("alts: { handshaker: 1.2.3.4:5, max_frame_size: 8KiB }"),
       {"f:1:118: listeners[0].alts.max_frame_size: must be from 16KiB to 1MiB, got \"8KiB\""}},
      {with_endpoint_and("alts: { " + certificates + ", peer_ca: x }"),
       {"f:2:63: upstreams[0].alts: expected `target_identities`, of which the endpoints' certificates must name one"}},
      {with_tcp("routes: [ { match: { peer: [ a ] }, forward: pg } ]"),
       {"f:1:83: listeners[0].tcp.routes[0].match.peer: needs `alts`, or `tls` with `client_certificate`: otherwise "
        "clients are not authenticated"}},
  });
}

TEST(Loader, Tls) {
  const auto listener = [](std::string_view tls) {
    return with_listener(absl::StrCat("name: db, address: 0.0.0.0:5432, tcp: { forward: pg }, tls: { ", tls, " }"));
  };
  const std::string good = "certificates: [ { chain: a, key: b } ]";
  expect_errors({
      {listener("alpn: [ h2 ]"), {"f:1:76: missing key \"certificates\" in listeners[0].tls"}},
      {listener("certificates: []"),
       {"f:1:92: listeners[0].tls.certificates: expected at least one item, got an empty list"}},
      {listener("certificates: [ { chain: a } ]"), {"f:1:94: missing key \"key\" in listeners[0].tls.certificates[0]"}},
      {listener(good + ", alpn: [ \"\" ]"),
       {"f:1:126: listeners[0].tls.alpn[0]: expected an ALPN protocol such as h2 or http/1.1, got \"\""}},
      {listener(good + ", min_version: \"1.1\""),
       {"f:1:131: listeners[0].tls.min_version: expected one of 1.2, 1.3, got \"1.1\"; did you mean \"1.2\"?"}},
      {listener(good + ", client_certificate: require"),
       {"f:1:138: listeners[0].tls.client_certificate: needs `client_ca`, the authorities that certificates may come "
        "from"}},
      {listener(good + ", client_ca: x"),
       {"f:1:129: listeners[0].tls.client_ca: has no effect without `client_certificate: request` or `require`"}},
      {with_endpoint_and("tls: {}"),
       {"f:2:62: upstreams[0].tls: expected `server_name`, which the endpoints' certificates must be for (or `verify: "
        "false`)"}},
      {with_endpoint_and("tls: { verify: false, ca: x }"),
       {"f:2:83: upstreams[0].tls.ca: has no effect with `verify: false`"}},
      {with_endpoint_and("tls: { verify: false, verify_names: a }"),
       {"f:2:93: upstreams[0].tls.verify_names: has no effect with `verify: false`"}},
      {with_endpoint_and("tls: { verify_names: [ a.b, \"a b\" ] }"),
       {"f:2:85: upstreams[0].tls.verify_names[1]: expected a host name, an IP address or a URI such as "
        "spiffe://mesh/app, got \"a b\""}},
  });
}

// Defect: it was not checked, and one that TLS cannot send ended the process at the first connection.
TEST(Loader, ServerNameOfAnUpstream) {
  const auto named = [](std::string_view name) {
    return with_endpoint_and(absl::StrCat("tls: { server_name: \"", name, "\" }"));
  };
  const std::string longest = absl::StrCat(std::string(63, 'a'), ".", std::string(63, 'b'), ".", std::string(63, 'c'),
                                           ".", std::string(61, 'd'));
  ASSERT_EQ(longest.size(), 253u);
  for (const std::string& name : {std::string("db1"), std::string("a_1.Example.com"), longest, std::string("192.0.2.1"),
                                  std::string("2001:db8::1"), std::string("1.2.3.4.example.com")}) {
    EXPECT_EQ(errors_of(named(name)), "");
  }
  for (const std::string& name :
       {longest + "e", std::string("example.com."), std::string("*.example.com"), std::string("a..b"),
        std::string("a b"), std::string("[2001:db8::1]"), std::string("192.0.2.1:443"), std::string("192.0.2.256"),
        std::string("."), std::string("1.2.3.4\\0.a")}) {
    EXPECT_TRUE(absl::StartsWith(errors_of(named(name)),
                                 "f:2:77: upstreams[0].tls.server_name: expected a host's name such as a.example.com, "
                                 "or an IP address, got "))
        << name << ": " << errors_of(named(name));
  }
}

TEST(Loader, WrongTypes) {
  const std::string rest = absl::StrCat(kListeners, kUpstreams);
  expect_errors({
      {"- 1\n", {"f:1:1: expected a map, got a list"}},
      {"text\n", {"f:1:1: expected a map, got \"text\""}},
      {"workers: fast\n" + rest, {"f:1:10: workers: expected auto or a whole number, got \"fast\""}},
      {"workers: 0\n" + rest, {"f:1:10: workers: must be from 1 to 1024, got \"0\""}},
      {"workers: [ 1 ]\n" + rest, {"f:1:10: workers: expected `auto` or count, got a list"}},
      {"workers:\n" + rest, {"f:1:1: workers: expected `auto` or count, got nothing"}},
      {"limits: 5\n" + rest, {"f:1:9: limits: expected a map, got \"5\""}},
      {"memory: { worker_budget: 1KiB }\n" + rest,
       {"f:1:26: memory.worker_budget: must be at least 1MiB, got \"1KiB\""}},
      {"overload: { memory: { reduce: 90, close: 90 } }\n" + rest,
       {"f:1:42: overload.memory.close: must be above `reduce`, which is 90, got 90"}},
      {"overload: { memory: { close: 85, refuse: 84 } }\n" + rest,
       {"f:1:42: overload.memory.refuse: must be above `close`, which is 85, got 84"}},
      {"overload: { delay: { refuse: high } }\n" + rest,
       {"f:1:30: overload.delay.refuse: expected `low` or `normal`: requests of high priority are never refused"}},
      {"memory: { ring_entries: 48 }\n" + rest,
       {"f:1:25: memory.ring_entries: must be a power of two, got 48; the next is 64"}},
      {absl::StrCat("listeners: []\n", kUpstreams),
       {"f:1:12: listeners: expected at least one item, got an empty list"}},
      {absl::StrCat("listeners: { name: a }\n", kUpstreams), {"f:1:12: listeners: expected a list, got a map"}},
      {absl::StrCat("listeners: [ null ]\n", kUpstreams), {"f:1:14: listeners[0]: expected a map, got nothing"}},
      {with_listener("name: db, address: 0.0.0.0:1, nodelay: yes, keepalive: { idle: 1500ms }, tcp: { forward: pg }"),
       {"f:1:55: listeners[0].nodelay: expected true or false, got \"yes\"",
        "f:1:79: listeners[0].keepalive.idle: must be a multiple of 1s, got \"1500ms\""}},
      {with_tcp("forward: pg, idle_timeout: 5"),
       {"f:1:83: listeners[0].tcp.idle_timeout: expected a duration such as 250ms, 5s, 1m or 2h, got \"5\"; add its "
        "unit, "
        "as in 5s"}},
      {with_tcp("forward: pg, inspect_timeout: 0"),
       {"f:1:86: listeners[0].tcp.inspect_timeout: must not be 0, got \"0\""}},
      {with_upstream("name: pg, endpoints: 1.2.3.4:5"),
       {"f:2:37: upstreams[0].endpoints: expected a list, got \"1.2.3.4:5\"; write [ ... ] around it"}},
      {with_upstream("name: pg, endpoints: [ { address: 1.2.3.4:5, weight: 1001 } ]"),
       {"f:2:69: upstreams[0].endpoints[0].weight: must be from 1 to 1000, got \"1001\""}},
      {with_upstream("name: pg, endpoints: [ [] ]"), {"f:2:39: upstreams[0].endpoints[0]: expected a map, got a list"}},
  });
}

TEST(Loader, NamesAndReferences) {
  const std::string two_upstreams =
      "upstreams:\n  - { name: pg, endpoints: [ 1.2.3.4:5 ] }\n  - { name: pg, endpoints: [ 1.2.3.4:6 ] }\n";
  expect_errors({
      {with_tcp("forward: gp"),
       {"f:1:65: listeners[0].tcp.forward: there is no upstream \"gp\"; did you mean \"pg\"?"}},
      {with_tcp("forward: mysql"),
       {"f:1:65: listeners[0].tcp.forward: there is no upstream \"mysql\"; add it under `upstreams`"}},
      {std::string(kListeners),
       {"f:1:65: listeners[0].tcp.forward: there is no upstream \"pg\"; add it under `upstreams`"}},
      {absl::StrCat(kListeners, two_upstreams),
       {"f:4:13: upstreams[1].name: \"pg\" is already the name of upstreams[0] (3:5); names must be unique"}},
      {with_listener("name: a b, address: 0.0.0.0:1, tcp: { forward: pg }"),
       {"f:1:22: listeners[0].name: expected a name of 1 to 64 letters, digits, `_`, `-` and `.`, got \"a b\""}},
      // An upstream with a misspelled `name` key may be the one that is referenced: one finding, not two.
      {absl::StrCat(kListeners, "upstreams: [ { nam: pg, endpoints: [ 1.2.3.4:5 ] } ]\n"),
       {"f:2:16: unknown key \"nam\" in upstreams[0]; did you mean \"name\"?"}},
  });
}

TEST(Loader, Addresses) {
  expect_errors({
      {absl::StrCat("listeners:\n  - { name: a, address: 0.0.0.0:80, tcp: { forward: pg } }\n"
                    "  - { name: b, address: 0.0.0.0:80, tcp: { forward: pg } }\n",
                    kUpstreams),
       {"f:3:25: listeners[1].address: 0.0.0.0:80 is already the address of listeners[0] (2:5); give all but one of "
        "the "
        "listeners at an address `server_names`"}},
      {absl::StrCat(
           "listeners:\n"
           "  - { name: a, address: [ 0.0.0.0:80, 127.0.0.1:81, 0.0.0.0:80, 127.0.0.1:80 ], tcp: { forward: pg } }\n"
           "  - { name: b, address: [ \"[::]:80\", 0.0.0.0:81 ], tcp: { forward: pg } }\n",
           kUpstreams),
       {"f:2:53: listeners[0].address[2]: 0.0.0.0:80 is listed twice",
        "f:2:65: listeners[0].address[3]: port 80 is included in 0.0.0.0:80, the address of listeners[0] (2:5); use "
        "one "
        "of the two, or another port",
        "f:3:38: listeners[1].address[1]: port 81 of all addresses includes 127.0.0.1:81, the address of listeners[0] "
        "(2:5); use one of the two, or another port"}},
      {with_listener("name: a, address: [], tcp: { forward: pg }"),
       {"f:1:34: listeners[0].address: expected at least one item, got an empty list"}},
      {with_listener("name: a, address: \"[::ffff:1.2.3.4]:80\", tcp: { forward: pg }"),
       {"f:1:34: listeners[0].address: is an IPv4 address in the form of IPv6; write 1.2.3.4:80"}},
      {with_listener("name: a, address: 0.0.0.0:80, ipv6_only: true, tcp: { forward: pg }"),
       {"f:1:57: listeners[0].ipv6_only: has no effect without an address such as \"[::]:443\""}},
      {with_upstream("name: pg, endpoints: [ 1.2.3.4:0, db:70000, 1.2.3.4:5, { address: 1.2.3.4:5 } ]"),
       {"f:2:39: upstreams[0].endpoints[0]: expected a port from 1 to 65535, got \"1.2.3.4:0\"",
        "f:2:50: upstreams[0].endpoints[1]: expected an address such as 127.0.0.1:8080, \"[::1]:8080\" or "
        "unix:/run/app.sock, got \"db:70000\"; a port is a number from 0 to 65535",
        "f:2:71: upstreams[0].endpoints[3]: 1.2.3.4:5 is already upstreams[0].endpoints[2] (2:60); for a larger share "
        "give it a `weight`"}},
      {with_listener("name: a, address: 0.0.0.0:1, proxy_protocol: { accept: optional }, tcp: { forward: pg }"),
       {"f:1:71: listeners[0].proxy_protocol.accept: `optional` lets every client choose the address it seems to come "
        "from: list the proxies in front under `trusted`, or use `required`"}},
  });
  EXPECT_EQ(errors_of(absl::StrCat("listeners:\n  - { name: a, address: 0.0.0.0:0, tcp: { forward: pg } }\n"
                                   "  - { name: b, address: 0.0.0.0:0, tcp: { forward: pg } }\n",
                                   kUpstreams)),
            "");
  EXPECT_EQ(
      errors_of(with_listener("name: a, address: unix:/a, proxy_protocol: { accept: optional }, tcp: { forward: pg }")),
      "");
}

TEST(Loader, Routes) {
  expect_errors({
      {with_tcp("idle_timeout: 1s"), {"f:1:54: listeners[0].tcp: expected `forward: NAME` or `routes: [ ... ]`"}},
      {with_tcp("forward: pg, routes: [ { forward: pg } ]"),
       {"f:1:54: listeners[0].tcp: `forward` and `routes` exclude each other: make it the last of the routes, without "
        "`match`"}},
      {with_tcp("routes: []"), {"f:1:64: listeners[0].tcp.routes: expected at least one item, got an empty list"}},
      {with_tcp("routes: [ { forward: pg }, { match: { alpn: [ h2 ] }, forward: pg } ]"),
       {"f:1:66: listeners[0].tcp.routes[0]: a route without `match` takes every connection: it must be the last one"}},
      {with_tcp("routes: [ { match: {}, forward: pg } ]"),
       {"f:1:75: listeners[0].tcp.routes[0].match: expected `sni`, `alpn` or `peer`; for a route that takes everything "
        "leave "
        "`match` out"}},
      {with_tcp("routes: [ { match: { sni: [ \"a.*.com\" ], alpn: [ \"h 2\" ] }, forward: pg } ]"),
       {"f:1:84: listeners[0].tcp.routes[0].match.sni[0]: expected a server name such as a.example.com, "
        "\"*.example.com\" or \"**.example.com\", got \"a.*.com\"",
        "f:1:105: listeners[0].tcp.routes[0].match.alpn[0]: expected an ALPN protocol such as h2 or http/1.1, got "
        "\"h 2\""}},
      {with_tcp("forward: pg, buffer_high: 8KiB, buffer_low: 8KiB"),
       {"f:1:100: listeners[0].tcp.buffer_low: must be below buffer_high (8KiB), got 8KiB"}},
  });
}

TEST(Loader, YamlItself) {
  const std::string tabs = "listeners:\n\t- name: a\n";
  expect_errors({
      {"", {"f: the file is empty: it needs `listeners` and `upstreams`"}},
      {"# nothing\n", {"f: the file is empty: it needs `listeners` and `upstreams`"}},
      {"listeners: { a: b\n", {"f:2:1: YAML syntax: end of map flow not found"}},
      {"a: b: c\n", {"f:1:5: YAML syntax: illegal map value"}},
      {tabs, {"f:2:2: YAML syntax: illegal block entry; indent with spaces, YAML takes no tabs"}},
      {"address: [::1]:80\n",
       {"f:1:15: YAML syntax: end of map not found; an IPv6 address needs quotes, as in \"[::1]:8080\""}},
      {"sni: [ *.example.com ]\n",
       {"f:1:8: YAML syntax: the referenced anchor is not defined; a value that begins with * or & needs quotes, as in "
        "\"*.example.com\""}},
      {"workers: !!int 3\n", {"f:1:10: tags are not supported: remove \"tag:yaml.org,2002:int\""}},
      {"workers: 1\n---\nworkers: 2\n", {"f:3:1: a second YAML document begins here: a configuration is one"}},
      {"? [ a ]\n: b\n", {"f:1:3: a key must be a plain word"}},
      {std::string(17, '[') + std::string(17, ']'), {"f:1:17: nested more than 16 deep"}},
      {repeated("- ", 100000), {"f:1:33: nested more than 16 deep"}},
      {std::string("a: \0\n", 5), {"f:1:4: control character 0x00: the file must be UTF-8 text"}},
      {"a: 1\nb: \x04\n", {"f:2:4: control character 0x04: the file must be UTF-8 text"}},
      {absl::StrCat("workers: [", repeated("1,", kMaxYamlNodes), "]\n"),
       {"f:1:1048585: more than 524288 keys and values"}},
      {std::string(kMaxYamlBytes + 1, ' '), {"f: the file is larger than 4 MiB"}},
  });
}

TEST(Loader, ManyFindingsAreCut) {
  std::string text(absl::StrCat(kListeners, kUpstreams));
  for (int i = 0; i < 150; ++i) absl::StrAppend(&text, "unknown", i, ": 1\n");
  const std::string errors = errors_of(text);
  EXPECT_TRUE(errors.ends_with("\nf: and 50 more")) << errors;
}

TEST(Loader, ReadsFiles) {
  const std::string path = testing::TempDir() + "sluice_loader_test_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << kListeners << kUpstreams;
  EXPECT_EQ(load_file(path)->listeners[0].name, "db");
  std::ofstream(path) << "workers: 1\n";
  EXPECT_EQ(load_file(path).status().message(), path + ":1:1: missing key \"listeners\" at the top level");
  unlink(path.c_str());
  EXPECT_EQ(load_file(path).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(load_file(path).status().message(), "cannot open " + path + ": No such file or directory");
  EXPECT_EQ(load_file("/").status().message(), "cannot read /: Is a directory");
}

}  // namespace
}  // namespace sluice::config
