// Checks of the balancing keys beyond their types.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"

namespace sluice::config {
namespace {

struct Case {
  std::string fields;
  std::string error;
};

// `fields` begin at column 55 of line 2.
void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const absl::StatusOr<Config> config =
        load_text(absl::StrCat("listeners: [ { name: a, address: 0.0.0.0:80, http: { forward: web } } ]\n",
                               "upstreams: [ { name: web, endpoints: [ 127.0.0.1:9 ], ", c.fields, " } ]\n"),
                  "f");
    EXPECT_EQ(config.ok() ? "" : config.status().message(), c.error) << c.fields;
  }
}

TEST(LoaderBalancing, Hash) {
  constexpr std::string_view kOneOnly =
      "f:2:78: upstreams[0].hash: one key only: `header`, `cookie`, `query`, `path` and `source` exclude each other";
  expect_errors({
      {"balance: maglev", ""},
      {"balance: ring_hash, hash: { header: X-User }", ""},
      {"balance: maglev, hash: { cookie: sid }", ""},
      {"balance: maglev, hash: { query: id }", ""},
      {"balance: maglev, hash: { path: true }", ""},
      {"balance: maglev, hash: { source: true }", ""},
      {"balance: maglev, hash: { source: true, path: false }", ""},
      {"hash: { source: true }",
       "f:2:61: upstreams[0].hash: has no effect with `balance: round_robin`: it is what `maglev` and `ring_hash` go "
       "by"},
      {"balance: maglev, hash: {}",
       "f:2:78: upstreams[0].hash: expected `header: NAME`, `cookie: NAME`, `query: NAME`, `path: true` or `source: "
       "true`"},
      {"balance: maglev, hash: { path: true, source: true }", std::string(kOneOnly)},
      {"balance: maglev, hash: { header: a, query: b }", std::string(kOneOnly)},
      {"balance: maglev, hash: { header: Host }",
       "f:2:88: upstreams[0].hash.header: Host is no field here: requests for one host would all go to one endpoint"},
      {"balance: maglev, hash: { cookie: 'a b' }",
       "f:2:88: upstreams[0].hash.cookie: expected the name of a cookie, got \"a b\""},
  });
}

TEST(LoaderBalancing, Sticky) {
  const std::string long_name(65, 'c');
  expect_errors({
      {"sticky: {}", ""},
      {"sticky: { cookie: srv, ttl: 1h, path: /app, secret: s }", ""},
      {"sticky: { cookie: 'a;b' }",
       "f:2:73: upstreams[0].sticky.cookie: expected the name of a cookie of up to 64 characters, got \"a;b\""},
      {"sticky: { cookie: '' }",
       "f:2:73: upstreams[0].sticky.cookie: expected the name of a cookie of up to 64 characters, got \"\""},
      {absl::StrCat("sticky: { cookie: ", long_name, " }"),
       absl::StrCat("f:2:73: upstreams[0].sticky.cookie: expected the name of a cookie of up to 64 characters, got \"",
                    long_name, "\"")},
      {"sticky: { path: app }",
       "f:2:71: upstreams[0].sticky.path: expected a path such as / of up to 256 characters, got \"app\""},
      {"sticky: { path: '/a;b' }",
       "f:2:71: upstreams[0].sticky.path: expected a path such as / of up to 256 characters, got \"/a;b\""},
      {"sticky: { ttl: 1500ms }", "f:2:70: upstreams[0].sticky.ttl: must be a multiple of 1s, got \"1500ms\""},
  });
}

TEST(LoaderBalancing, Bounds) {
  expect_errors({
      {"failover_below: 1", ""},
      {"failover_below: 0", "f:2:71: upstreams[0].failover_below: must be from 1 to 100, got \"0\""},
      {"failover_below: 101", "f:2:71: upstreams[0].failover_below: must be from 1 to 100, got \"101\""},
      {"slow_start: 1h", ""},
  });
  const absl::StatusOr<Config> config = load_text(
      "listeners: [ { name: a, address: 0.0.0.0:80, tcp: { forward: db } } ]\n"
      "upstreams: [ { name: db, endpoints: [ { address: 1.2.3.4:5, priority: 16 } ] } ]\n",
      "f");
  EXPECT_EQ(config.status().message(), "f:2:71: upstreams[0].endpoints[0].priority: must be from 0 to 15, got \"16\"");
}

}  // namespace
}  // namespace sluice::config
