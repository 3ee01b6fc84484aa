#include "proxy/config/load/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"

namespace sluice::config {
namespace {

using ::testing::HasSubstr;

Config load(const std::string& text) { return load_text(text, "test").value(); }

constexpr const char* kBase = R"(
listeners:
  - name: web
    address: 127.0.0.1:80
    http: { routes: [ { match: { path: { prefix: /a } }, forward: x }, { forward: x } ] }
  - { name: db, address: "127.0.0.1:81", tcp: { forward: x } }
upstreams:
  - { name: x, endpoints: [ "127.0.0.1:1", "127.0.0.1:2" ] }
)";

TEST(DiffTest, Nothing) {
  EXPECT_EQ(diff_configs(load(kBase), load(kBase)), "");
  Config turned = load(kBase);
  std::swap(turned.listeners[0], turned.listeners[1]);
  EXPECT_EQ(diff_configs(load(kBase), turned), "") << "listeners are identified by their names";
}

TEST(DiffTest, KeysAreShownBelowTheKeysAround) {
  Config now = load(kBase);
  now.limits.max_connections = 5;
  now.memory.ring_entries = 32;
  now.listeners[1].tcp->idle_timeout = std::chrono::seconds(7);
  EXPECT_EQ(diff_configs(load(kBase), now), R"(  limits:
-   max_connections: auto
+   max_connections: 5
  memory:
-   ring_entries: 16
+   ring_entries: 32
listener db: changed
  listeners:
      tcp:
-       idle_timeout: 1h
+       idle_timeout: 7s
)");
}

TEST(DiffTest, AddedAndRemoved) {
  Config now = load(kBase);
  now.listeners[0].name = "edge";
  now.upstreams.push_back({.name = "y"});
  EXPECT_EQ(diff_configs(load(kBase), now), "listener web: removed\nlistener edge: added\nupstream y: added\n");
}

// A route in front of the others does not make all of them differ.
TEST(DiffTest, ItemsOfLists) {
  Config now = load(kBase);
  HttpRoute route = now.listeners[0].http->routes[0];
  route.match->path->prefix = "/new";
  now.listeners[0].http->routes.insert(now.listeners[0].http->routes.begin(), route);
  const std::string diff = diff_configs(load(kBase), now);
  EXPECT_THAT(diff, HasSubstr("prefix: /new"));
  EXPECT_EQ(diff.find("\n-"), std::string::npos) << diff;
}

TEST(DiffTest, LongSectionsAreReplaced) {
  Config old = load(kBase), now = load(kBase);
  for (int i = 0; i < 1500; ++i) {
    old.upstreams[0].endpoints.push_back({.address = EndpointAddress::parse(absl::StrCat("10.0.0.1:", i + 1)).value()});
    now.upstreams[0].endpoints.push_back({.address = EndpointAddress::parse(absl::StrCat("10.0.0.2:", i + 1)).value()});
  }
  const std::string diff = diff_configs(old, now);
  EXPECT_THAT(diff, HasSubstr("10.0.0.1:1500"));
  EXPECT_THAT(diff, HasSubstr("10.0.0.2:1500"));
}

}  // namespace
}  // namespace sluice::config
