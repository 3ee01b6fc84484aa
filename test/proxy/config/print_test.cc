#include "proxy/config/print.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/config/from_flags.h"
#include "proxy/config/loader.h"

namespace sluice::config {
namespace {

void expect_round_trip(const Config& config) {
  const std::string text = print_config(config);
  const absl::StatusOr<Config> again = load_text(text, "printed");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(*again, config) << text;
  EXPECT_EQ(print_config(*again), text);
}

TEST(Print, ShowsEveryDefault) {
  const absl::StatusOr<Config> config =
      from_flags({.listen = "127.0.0.1:8080", .to = {"127.0.0.1:9000", "[::1]:9000"}, .tcp = true});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(print_config(*config), R"(workers: auto
shutdown_timeout: 30s
limits:
  max_connections: auto
memory:
  worker_budget: 256MiB
  ring_entries: 16
  zero_copy_from: 0
  rings: auto
listeners:
  - name: main
    address: 127.0.0.1:8080
    backlog: 4096
    max_connections: 10000
    max_connections_per_source: 0
    proxy_protocol:
      accept: off
      timeout: 5s
      trusted: []
    keepalive:
      idle: 3m
      interval: 15s
      probes: 4
    nodelay: true
    tcp:
      forward: main
      idle_timeout: 1h
      max_duration: 0
      stuck_timeout: 5s
      inspect_timeout: 10s
      buffer_high: 1MiB
      buffer_low: 512KiB
upstreams:
  - name: main
    protocol: tcp
    endpoints:
      - address: 127.0.0.1:9000
        weight: 1
      - address: "[::1]:9000"
        weight: 1
    balance: round_robin
    connect_timeout: 5s
    connect_attempts: 3
    max_fails: 1
    fail_timeout: 10s
    max_connections_per_endpoint: 0
    send_proxy_protocol: off
    keepalive:
      idle: 3m
      interval: 15s
      probes: 4
    nodelay: true
)");
  expect_round_trip(*config);
}

TEST(Print, QuotesWhatYamlWouldReadOtherwise) {
  const absl::StatusOr<Config> config = load_text(R"(
workers: 2
limits: { max_connections: 1 }
memory: { worker_budget: 1234567, rings: incremental }
listeners:
  - name: "null"
    address: "unix:/with space/and \"quotes\" \\ # é"
    proxy_protocol: { accept: required, trusted: [ "::/0", 1.2.3.4 ] }
    tcp:
      buffer_high: 5KB
      routes:
        - { match: { sni: [ "*.example.com", a.b ] }, forward: "Null" }
        - { match: { alpn: [ "h2", "[", "a,b", "-", "?", "NULL", "x:", "'", "~" ] }, forward: "0" }
        - { forward: "-" }
  - { name: b, address: 0.0.0.0:0, tcp: { forward: "-" } }
upstreams:
  - { name: "-", endpoints: [ "unix:@- x: y" ] }
  - { name: "0", endpoints: [ "unix:~", "unix:a:" ] }
  - { name: "Null", endpoints: [ "unix:a #b" ] }
)",
                                                  "f");
  ASSERT_TRUE(config.ok()) << config.status();
  expect_round_trip(*config);
}

TEST(FromFlags, RefusesWithTheFlagsName) {
  const std::string address = "expected an address such as 127.0.0.1:8080, \"[::1]:8080\" or unix:/run/app.sock, got ";
  struct Case {
    RunFlags flags;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{.listen = "1.2.3.4:1", .to = {"1.2.3.4:2"}},
       "HTTP is not available in this version; add --tcp to forward connections as they are"},
      {{.to = {"1.2.3.4:2"}, .tcp = true}, "--listen is missing, as in --listen 127.0.0.1:8080"},
      {{.listen = "1.2.3.4:1", .tcp = true}, "--to is missing, as in --to 127.0.0.1:9000"},
      {{.listen = "8080", .to = {"1.2.3.4:2"}, .tcp = true},
       "--listen: " + address + "\"8080\"; for every interface write 0.0.0.0:PORT or \"[::]:PORT\""},
      {{.listen = "1.2.3.4:1", .to = {"1.2.3.4:2", "db:1"}, .tcp = true},
       "--to: " + address + "\"db:1\"; host names are not resolved yet, use an IP address"},
      {{.listen = "1.2.3.4:1", .to = {"1.2.3.4:0"}, .tcp = true},
       "command line: upstreams[0].endpoints[0]: expected a port from 1 to 65535, got \"1.2.3.4:0\""},
      {{.listen = "1.2.3.4:1", .to = {"1.2.3.4:2", "1.2.3.4:2"}, .tcp = true},
       "command line: upstreams[0].endpoints[1]: 1.2.3.4:2 is already upstreams[0].endpoints[0]; for a larger share "
       "give it a `weight`"},
  };
  for (const Case& c : cases) EXPECT_EQ(from_flags(c.flags).status().message(), c.message);
}

}  // namespace
}  // namespace sluice::config
