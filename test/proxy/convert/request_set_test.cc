// Sets of requests that are narrowed, and routes that are never taken.
#include "proxy/convert/common/request_set.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "proxy/config/model/regex.h"

namespace sluice::convert {
namespace {

PathSet bytes(std::string text) { return {.kind = PathSet::Kind::kBytes, .text = std::move(text)}; }
PathSet exact(std::string text) { return {.kind = PathSet::Kind::kExact, .text = std::move(text)}; }
PathSet regex(std::string text) { return {.kind = PathSet::Kind::kRegex, .text = std::move(text)}; }

Narrowing narrowed(RequestSet& set, RequestSet by) { return narrow(set, by); }

TEST(RequestSet, HostsAreNarrowedByPatterns) {
  RequestSet set{.hosts = {"**.a.test", "b.test"}};
  EXPECT_EQ(narrowed(set, {.hosts = {"x.a.test", "c.test"}}), Narrowing::kDone);
  EXPECT_EQ(set.hosts, std::vector<std::string>{"x.a.test"});
  EXPECT_EQ(narrowed(set, {.hosts = {"*.b.test"}}), Narrowing::kEmpty);
  EXPECT_TRUE(host_covers("**.a.test", "*.a.test"));
  EXPECT_FALSE(host_covers("*.a.test", "**.a.test"));
  EXPECT_FALSE(host_covers("*.a.test", "a.test"));
}

TEST(RequestSet, SourcesAreNarrowedByRanges) {
  RequestSet set{.sources = {"10.0.0.0/8", "::1"}};
  EXPECT_EQ(narrowed(set, {.sources = {"10.1.0.0/16", "192.0.2.1"}}), Narrowing::kDone);
  EXPECT_EQ(set.sources, std::vector<std::string>{"10.1.0.0/16"});
  EXPECT_EQ(narrowed(set, {.sources = {"10.0.0.0/8"}}), Narrowing::kDone);
  EXPECT_EQ(set.sources, std::vector<std::string>{"10.1.0.0/16"});
  EXPECT_EQ(narrowed(set, {.sources = {"127.0.0.0/8"}}), Narrowing::kEmpty);
}

// A path is in the result if it is in both, for each of many paths.
TEST(RequestSet, PathsAreNarrowedToWhatIsInBoth) {
  const std::vector<std::string> paths = {"/",      "/a",      "/a/",     "/a.png",  "/ab.png", "/a/b.png",
                                          "/b.png", "/a.pngx", "/a/pn/x", "/api.pn", "/a/x/y",  "/x/y",
                                          "/a.p",   "/a.",     "/png",    "/a.x.png"};
  const std::vector<PathSet> sets = {
      {},          bytes("/a"),     bytes("/a/"),        bytes("/a."),         bytes("/a.p"),
      exact("/a"), exact("/a.png"), regex(R"(.*\.png)"), regex(R"(.*\.pn.*)"), regex("/a/.*")};
  const auto fits = [](const PathSet& set, const std::string& path) {
    return set.kind == PathSet::Kind::kRegex ? config::Regex::parse(set.text)->fits(path) : set.fits(path);
  };
  for (const PathSet& a : sets) {
    for (const PathSet& b : sets) {
      RequestSet set{.path = a};
      const Narrowing result = narrowed(set, {.path = b});
      if (result == Narrowing::kUnknown) continue;
      for (const std::string& path : paths) {
        EXPECT_EQ(result == Narrowing::kDone && fits(set.path, path), fits(a, path) && fits(b, path))
            << a.text << " and " << b.text << " at " << path << ": " << set.path.text;
      }
    }
  }
  RequestSet set{.path = bytes("/a.")};
  EXPECT_EQ(narrowed(set, {.path = regex(R"(.*\.png)")}), Narrowing::kDone);
}

TEST(RequestSet, RoutesThatAreNeverTakenAreDropped) {
  const auto route = [](RequestSet when) { return Route{.when = std::move(when), .out = respond_node(200)}; };
  RequestSet by_method;
  by_method.methods = {"PUT"};
  std::vector<Route> routes = {route(by_method),
                               route({.path = bytes("/a/")}),
                               route({.path = exact("/a/b")}),
                               route({.hosts = {"a.test"}}),
                               route({.hosts = {"a.test"}, .path = regex("/x.*")}),
                               route({.path = regex("/x.*")}),
                               route({.path = bytes("/xy/")}),
                               route({}),
                               route({.path = exact("/")})};
  drop_untaken(routes);
  ASSERT_EQ(routes.size(), 5U);
  EXPECT_EQ(routes[3].when.path.text, "/x.*");
  EXPECT_EQ(routes[4].when.path.kind, PathSet::Kind::kAll);
}

}  // namespace
}  // namespace sluice::convert
