#include "proxy/router/http_router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

std::optional<config::PathMatch> exact(std::string path) {
  return config::PathMatch{.exact = std::move(path), .prefix = ""};
}
std::optional<config::PathMatch> prefix(std::string path) {
  return config::PathMatch{.exact = "", .prefix = std::move(path)};
}
std::optional<config::PathMatch> regex(std::string_view text) {
  return config::PathMatch{.exact = "", .prefix = "", .regex = config::Regex::parse(text).value()};
}

// Routes to one upstream each, named by their index.
class Table {
 public:
  Table& match(const Names& hosts, std::optional<config::PathMatch> path = {}, Names peer = {}) {
    config::HttpMatch match{.host = {}, .path = std::move(path), .peer = std::move(peer)};
    for (const std::string& host : hosts) match.host.push_back(config::HostPattern::parse(host).value());
    return add(std::move(match));
  }
  Table& match(config::HttpMatch match) { return add(std::move(match)); }
  Table& otherwise() { return add(std::nullopt); }

  HttpRouter router() const { return HttpRouter(http_, upstreams_); }
  const std::vector<config::HttpRoute>& routes() const { return http_.routes; }

 private:
  Table& add(std::optional<config::HttpMatch> match) {
    const std::string name = std::to_string(upstreams_.size());
    http_.routes.push_back({.match = std::move(match), .forward = name, .respond = std::nullopt});
    upstreams_.push_back({.name = name});
    return *this;
  }

  config::Http http_;
  std::vector<config::Upstream> upstreams_;
};

// The index of the route, -1 for none.
int route(const HttpRouter& router, std::string_view host, std::string_view path, const Agreement* agreed = nullptr) {
  static const Fields kNone;
  const HttpTarget* target =
      router.route({.host = host, .path = path, .method = "GET", .fields = &kNone, .agreed = agreed});
  if (target == nullptr) return -1;
  EXPECT_EQ(target->upstream, target->index);
  EXPECT_EQ(target->route->forward, std::to_string(target->index));
  return static_cast<int>(target->index);
}

TEST(HttpRouter, NoRoutes) {
  EXPECT_EQ(route(HttpRouter(), "a", "/"), -1);
  EXPECT_EQ(route(Table().match({"a"}).router(), "b", "/"), -1);
}

TEST(HttpRouter, ForwardTakesAll) {
  const std::vector<config::Upstream> upstreams = {{.name = "one"}, {.name = "two"}};
  config::Http http;
  http.forward = "two";
  const HttpRouter router(http, upstreams);
  for (const std::string_view path : {"/", "/a", "*"}) {
    const HttpTarget* target = router.route({.host = "a", .path = path});
    ASSERT_NE(target, nullptr);
    EXPECT_EQ(target->upstream, 1u);
    EXPECT_EQ(target->index, 0u);
  }
}

TEST(HttpRouter, RespondingRouteHasNoUpstream) {
  config::Http http;
  http.routes = {{.match = std::nullopt, .forward = "", .respond = config::Respond{.status = 404}}};
  HttpRouter first(http, {});
  const HttpRouter router = std::move(first);
  const HttpTarget* target = router.route({.host = "a", .path = "/"});
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->upstream, HttpTarget::kNone);
  EXPECT_EQ(target->route->respond->status, 404u);
}

TEST(HttpRouter, Prefixes) {
  const HttpRouter router = Table().match({}, prefix("/v1")).match({}, prefix("/v2/")).match({}, exact("/v3")).router();
  const std::pair<std::string_view, int> cases[] = {
      {"/v1", 0}, {"/v1/", 0},  {"/v1/x", 0},  {"/v1/x/y", 0}, {"/v10", -1},   {"/v1;x", -1}, {"/v", -1},
      {"/", -1},  {"/v2", -1},  {"/v2/", 1},   {"/v2/x", 1},   {"/v2/x/y", 1}, {"/v20/", -1}, {"/x/v2/", -1},
      {"/v3", 2}, {"/v3/", -1}, {"/v3/x", -1}, {"*", -1},      {"/V1", -1},    {"//v1", -1},
  };
  for (const auto& [path, expected] : cases) EXPECT_EQ(route(router, "a", path), expected) << path;
}

TEST(HttpRouter, RootMatchesEveryPathButNotStar) {
  const HttpRouter router = Table().match({}, prefix("/")).otherwise().router();
  for (const std::string_view path : {"/", "/a", "/a/b", "//"}) EXPECT_EQ(route(router, "a", path), 0) << path;
  EXPECT_EQ(route(router, "a", "*"), 1);
}

TEST(HttpRouter, FirstMatchWins) {
  const HttpRouter router = Table()
                                .match({}, prefix("/a"))
                                .match({}, prefix("/a/b"))
                                .match({"x.example"}, exact("/c"))
                                .match({"*.example"}, prefix("/c"))
                                .match({}, exact("/c"))
                                .match({"x.example"})
                                .otherwise()
                                .router();
  EXPECT_EQ(route(router, "x.example", "/a/b"), 0);
  EXPECT_EQ(route(router, "x.example", "/c"), 2);
  EXPECT_EQ(route(router, "x.example", "/c/d"), 3);
  EXPECT_EQ(route(router, "y.example", "/c"), 3);
  EXPECT_EQ(route(router, "other", "/c"), 4);
  EXPECT_EQ(route(router, "x.example", "/"), 5);
  EXPECT_EQ(route(router, "y.example", "/"), 6);
  EXPECT_EQ(route(router, "", "/"), 6);
  EXPECT_EQ(route(router, "x.example", "*"), 5);
}

TEST(HttpRouter, RegularExpressionsInOrder) {
  const HttpRouter router = Table()
                                .match({}, exact("/v1/a"))
                                .match({}, regex("/v[0-9]+/.*"))
                                .match({"x.example"}, regex("/[a-z]+"))
                                .match({}, prefix("/v1"))
                                .match({}, regex(".*"))
                                .otherwise()
                                .router();
  EXPECT_EQ(route(router, "y", "/v1/a"), 0);
  EXPECT_EQ(route(router, "y", "/v1/b"), 1);
  EXPECT_EQ(route(router, "y", "/v12/"), 1);
  EXPECT_EQ(route(router, "x.example", "/abc"), 2);
  EXPECT_EQ(route(router, "y", "/v1"), 3);
  EXPECT_EQ(route(router, "y", "/abc"), 4);
  EXPECT_EQ(route(router, "y", "*"), 4);
  EXPECT_EQ(route(router, "y", ""), 5);  // CONNECT has no path.
}

// The question of `sluice check`: only host and path are known, and then no regular expression matches.
TEST(HttpRouter, UnknownValuesMatchNoRegularExpression) {
  const HttpRouter router = Table().match({}, regex(".*")).otherwise().router();
  EXPECT_EQ(router.route({.host = "a", .path = "/"})->index, 1u);
}

TEST(HttpRouter, ByVerifiedIdentity) {
  const HttpRouter router =
      Table().match({}, prefix("/a"), {"one", "two"}).match({}, prefix("/a"), {"three"}).otherwise().router();
  Agreement agreed;
  EXPECT_EQ(route(router, "x", "/a"), 2);  // TLS was not terminated.
  EXPECT_EQ(route(router, "x", "/a", &agreed), 2);
  agreed.peer_names = {"zero", "two"};
  EXPECT_EQ(route(router, "x", "/a", &agreed), 0);
  EXPECT_EQ(route(router, "x", "/b", &agreed), 2);
  agreed.peer_names = {"three"};
  EXPECT_EQ(route(router, "x", "/a", &agreed), 1);
}

bool fits_host(std::string_view pattern, std::string_view host) {
  if (pattern.starts_with("**")) return host.size() > pattern.size() - 2 && host.ends_with(pattern.substr(2));
  if (!pattern.starts_with("*.")) return pattern == host;
  const size_t dot = host.find('.');
  return dot != std::string_view::npos && dot > 0 && host.substr(dot) == pattern.substr(1);
}

bool fits_path(const config::PathMatch& match, std::string_view path) {
  if (!match.exact.empty()) return path == match.exact;
  if (match.regex.is_set()) return std::regex_match(path.begin(), path.end(), std::regex(match.regex.text()));
  if (match.prefix.ends_with('/')) return path.starts_with(match.prefix);
  return path == match.prefix || path.starts_with(match.prefix + "/");
}

// What config.h says, in the order of the list.
int first_that_fits(const Table& table, std::string_view host, std::string_view path, const Agreement* agreed) {
  for (size_t i = 0; i < table.routes().size(); ++i) {
    const std::optional<config::HttpMatch>& match = table.routes()[i].match;
    if (match) {
      const bool host_fits =
          match->host.empty() || std::any_of(match->host.begin(), match->host.end(),
                                             [&](const config::HostPattern& p) { return fits_host(p.text(), host); });
      if (!host_fits || (match->path && !fits_path(*match->path, path))) continue;
      if (!match->peer.empty() && (agreed == nullptr || !agreed->peer_is_one_of(match->peer))) continue;
    }
    return static_cast<int>(i);
  }
  return -1;
}

TEST(HttpRouter, AgreesWithALinearSearch) {
  std::mt19937 random(5);
  const auto one_of = [&](const Names& from) { return from[random() % from.size()]; };
  const Names patterns = {"a.x", "b.x", "*.x", "x", "*.b.x", "y", "**.x", "**.b.x"};
  const Names hosts = {"a.x", "b.x", "c.x", "x", "y", "a.b.x", "z", "", "[::1]", "127.0.0.1"};
  const Names peers = {"p", "q", "r"};
  const auto random_path = [&] {
    std::string path;
    for (size_t i = random() % 5; i > 0; --i) path += "/" + one_of({"a", "b", "aa", "", "longer-than-others"});
    return path.empty() || random() % 3 == 0 ? path + "/" : path;
  };
  int taken = 0;
  for (int round = 0; round < 3000; ++round) {
    Table table;
    const size_t count = 1 + random() % 20;
    for (size_t i = 0; i < count; ++i) {
      Names names;
      for (size_t j = random() % 3; j > 0; --j) names.push_back(one_of(patterns));
      std::optional<config::PathMatch> path;
      if (random() % 4 != 0) path = random() % 2 ? exact(random_path()) : prefix(random_path());
      if (random() % 8 == 0) path = regex(one_of({"/a+", "/(a|b)/.*", "[/b]*", ".*er.*", "/a/b?"}));
      if (random() % 5 == 0) {
        table.match(names, path, {one_of(peers), one_of(peers)});
      } else {
        table.match(names, path);
      }
    }
    if (random() % 2) table.otherwise();
    const HttpRouter router = table.router();
    for (int i = 0; i < 40; ++i) {
      const std::string host = one_of(hosts);
      const std::string path = random() % 20 == 0 ? "*" : random_path();
      Agreement agreed;
      agreed.peer_names = {one_of(peers)};
      const Agreement* known = random() % 2 ? &agreed : nullptr;
      const int expected = first_that_fits(table, host, path, known);
      taken += expected >= 0;
      ASSERT_EQ(route(router, host, path, known), expected) << "round " << round << ": " << host << path;
    }
  }
  EXPECT_GT(taken, 60'000);
}

// Whatever its routes match, and whichever of them is taken, or none. (Regular expressions build states when they are
// needed for the first time.)
TEST(HttpRouter, LookupAmongAThousandRoutesAllocatesNothing) {
  Table table;
  config::HttpMatch beta;
  beta.method = {"GET", "HEAD"};
  beta.headers.push_back({{.prefix = "beta-"}, config::FieldName::parse("x-env").value()});
  beta.query.push_back({{.contains = "1"}, "debug"});
  for (int i = 0; i < 100; ++i) {
    const std::string name = absl::StrCat("tenant-", i, ".example.com");
    table.match({name}, exact("/status")).match({name}, prefix("/v1/")).match({name, "*." + name}, prefix("/v2"));
    table.match({}, exact(absl::StrCat("/item-", i))).match({}, prefix(absl::StrCat("/team-", i, "/")));
    table.match({}, prefix(absl::StrCat("/who-", i)), {"nobody"}).match({}, prefix(absl::StrCat("/who-", i)), {"me"});
    table.match({name}, regex(absl::StrCat("/[a-z]+-", i)));
    table.match({name}, regex(absl::StrCat("/only-", i, "/.*")));
    beta.host = {config::HostPattern::parse(name).value()};
    table.match(beta);
  }
  ASSERT_EQ(table.routes().size(), 1000u);
  const HttpRouter router = table.router();
  ChunkPool pool({.budget_bytes = size_t{1} << 20});
  const ChunkPool::Use use(&pool);
  Fields fields;
  ASSERT_TRUE(fields.add(pool, "x-env", "beta-2"));
  Agreement agreed;
  agreed.peer_names = {"me"};
  std::vector<std::pair<std::string, std::string>> requests;
  for (int i = 0; i < 100; ++i) {
    const std::string name = absl::StrCat("tenant-", i, ".example.com");
    for (const std::string& path :
         {absl::StrCat("/item-", i), absl::StrCat("/team-", i, "/x"), absl::StrCat("/who-", i),
          absl::StrCat("/abc-", i), absl::StrCat("/only-", i, "/x"), std::string("/status"), std::string("/v1/x"),
          std::string("/v2"), std::string("/other"), std::string("*")}) {
      for (const std::string& host : {name, "www." + name, std::string("nowhere")}) requests.emplace_back(host, path);
    }
  }
  std::vector<bool> taken(table.routes().size() + 1);  // The last one: none.
  const auto route_all = [&] {
    for (const auto& [host, path] : requests) {
      const HttpTarget* const target = router.route(
          {.host = host, .path = path, .query = "a=b&debug=10", .method = "GET", .fields = &fields, .agreed = &agreed});
      taken[target ? target->index : table.routes().size()] = true;
    }
  };
  route_all();
  const uint64_t before = test::allocations;
  route_all();
  EXPECT_EQ(test::allocations, before);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), true), 901);  // All but those for untrusted clients; and none.
}

// A thousand routes, and paths that only the last of them matches: a lookup allocates nothing, and costs about as much
// as with ten. routing_bench measures the time.
TEST(HttpRouter, LastOfManyRoutesIsFoundWithoutAllocations) {
  constexpr uint32_t kRoutes = 1000;
  Table table;
  for (uint32_t i = 0; i < kRoutes; ++i) table.match({"api.example.com"}, prefix(absl::StrCat("/service-", i, "/v1/")));
  const HttpRouter router = table.router();
  const std::string path = absl::StrCat("/service-", kRoutes - 1, "/v1/users/12345678/orders");
  const uint64_t allocations = test::allocations;
  const HttpTarget* const target = router.route({.host = "api.example.com", .path = path});
  EXPECT_EQ(test::allocations - allocations, 0u);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(target->index, kRoutes - 1);
}

// ---- Split requests ----

TEST(HttpRouter, SplitsByWeight) {
  config::Http http;
  http.routes.push_back({.match = std::nullopt, .split = {{"a", 3}, {"none", 0}, {"b", 1}}, .respond = std::nullopt});
  const std::vector<config::Upstream> upstreams = {{.name = "b"}, {.name = "a"}, {.name = "none"}};
  const HttpRouter router(http, upstreams);
  const HttpTarget* const target = router.route({.host = "a.test", .path = "/"});
  ASSERT_NE(target, nullptr);
  ASSERT_TRUE(target->forwards());
  Random random(1);
  std::vector<int> counts(upstreams.size());
  for (int i = 0; i < 10'000; ++i) ++counts[target->upstream_of(target->choose(random))];
  EXPECT_NEAR(counts[1], 7500, 300);
  EXPECT_NEAR(counts[0], 2500, 300);
  EXPECT_EQ(counts[2], 0);
}

}  // namespace
}  // namespace sluice
