#include "proxy/router/rewrite.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {
namespace {

std::optional<config::HttpMatch> below(std::string prefix) {
  return config::HttpMatch{.path = config::PathMatch{.exact = "", .prefix = std::move(prefix)}};
}

std::string changed(const config::PathChange& change, std::string prefix, std::string_view path) {
  std::array<char, 100> scratch;
  return std::string(changed_path(change, below(std::move(prefix)), {.path = path}, {}, scratch).value_or("no room"));
}

TEST(Rewrite, PathReplacesThePath) {
  EXPECT_EQ(changed({.path = "/new", .prefix = ""}, "/a", "/a/b"), "/new");
  EXPECT_EQ(changed({}, "/a", "/a/b"), "/a/b");
}

TEST(Rewrite, PrefixIsReplacedAtSegments) {
  const struct {
    std::string from, to, path, expected;
  } cases[] = {
      {"/v1", "/v2", "/v1", "/v2"},      {"/v1", "/v2", "/v1/", "/v2/"},    {"/v1", "/v2", "/v1/x", "/v2/x"},
      {"/v1/", "/v2", "/v1/x", "/v2/x"}, {"/v1", "/v2/", "/v1/x", "/v2/x"}, {"/v1/", "/v2/", "/v1/x/y", "/v2/x/y"},
      {"/v1", "/", "/v1", "/"},          {"/v1", "/", "/v1/x", "/x"},       {"/v1/", "/", "/v1/", "/"},
      {"/", "/app", "/", "/app/"},       {"/", "/app/", "/x", "/app/x"},    {"/", "/", "/x", "/x"},
      {"/v1", "/v2/", "/v1", "/v2/"},    {"/a/b", "/c", "/a/b/d", "/c/d"},  {"/v1", "/", "/v1//x", "//x"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(changed({.path = "", .prefix = c.to}, c.from, c.path), c.expected)
        << c.from << " -> " << c.to << ": " << c.path;
  }
}

TEST(Rewrite, NoRoom) {
  EXPECT_EQ(changed({.path = "", .prefix = "/longer"}, "/a", "/a/" + std::string(100, 'x')), "no room");
}

std::string substituted(std::string_view regex, std::string substitution, std::string_view path,
                        config::Paths paths = {}) {
  std::array<char, 100> scratch;
  const config::PathChange change{.regex = config::Regex::parse(regex).value(),
                                  .substitution = std::move(substitution)};
  return std::string(changed_path(change, {}, {.path = path}, paths, scratch).value_or("none"));
}

TEST(Rewrite, RegularExpressionMatchesTheWholePath) {
  EXPECT_EQ(substituted("/users/([0-9]+)/(.*)", "/\\2/of/\\1", "/users/12/x/y"), "/x/y/of/12");
  EXPECT_EQ(substituted("/users/([0-9]+)", "/u/\\1", "/users/12/x"), "/users/12/x");
  EXPECT_EQ(substituted("/(.*)", "/\\1\\1\\1\\1", "/" + std::string(30, 'x')), "none");
}

// A rewritten path may have dot segments, or a form that is not canonical: an upstream must see neither.
TEST(Rewrite, ResultIsCanonical) {
  EXPECT_EQ(substituted("/(.*)x(.*)", "/a/\\1\\2", "/.x./b"), "/b");
  EXPECT_EQ(substituted("/(.*)x(.*)", "/\\1\\2/b", "/.x."), "none");
  EXPECT_EQ(substituted("/(.*)x(.*)", "/%\\1\\2", "/6x1"), "/a");
  EXPECT_EQ(substituted("/(.*)x(.*)", "/%\\1\\2", "/2xF"), "none");
  EXPECT_EQ(substituted("/(.*)x(.*)", "/%\\1\\2", "/2xF", {.escaped_slashes = config::EscapedSlashes::kKeep}), "/%2F");
  EXPECT_EQ(substituted("/(.*)", "\\1", "/x"), "none");
}

constexpr RequestAttributes kRequest{.host = "a.example",
                                     .path = "/old/x",
                                     .query = "q=1",
                                     .authority = "a.example:8080",
                                     .method = "GET",
                                     .scheme = "http"};

std::string location(const config::Redirect& redirect, RequestAttributes facts = kRequest,
                     std::string prefix = "/old") {
  std::array<char, 200> scratch;
  return std::string(redirect_location(redirect, below(std::move(prefix)), facts, {}, scratch).value_or("no room"));
}

TEST(Redirect, OtherPartsAreUnchanged) {
  config::Redirect redirect;
  redirect.scheme = "https";
  EXPECT_EQ(location(redirect), "https://a.example/old/x?q=1");
  redirect.port = 8443;
  EXPECT_EQ(location(redirect), "https://a.example:8443/old/x?q=1");
  redirect.host = "b.example";
  EXPECT_EQ(location(redirect), "https://b.example:8443/old/x?q=1");
  redirect.drop_query = true;
  EXPECT_EQ(location(redirect), "https://b.example:8443/old/x");
  redirect.path = "/new";
  EXPECT_EQ(location(redirect), "https://b.example:8443/new");
}

TEST(Redirect, RelativeOnTheSameServer) {
  config::Redirect redirect;
  redirect.prefix = "/new";
  EXPECT_EQ(location(redirect), "/new/x?q=1");
  redirect.port = 81;
  EXPECT_EQ(location(redirect), "http://a.example:81/new/x?q=1");
}

// A path that begins with two slashes names a host (RFC 3986 section 4.2): the client would be redirected wherever a
// path says.
TEST(Redirect, PathNeverNamesAHost) {
  config::Redirect redirect;
  redirect.prefix = "/";
  RequestAttributes facts = kRequest;
  facts.path = "/old//evil.example/";
  EXPECT_EQ(location(redirect, facts), "/.//evil.example/?q=1");
  redirect.scheme = "https";
  EXPECT_EQ(location(redirect, facts), "https://a.example//evil.example/?q=1");
}

TEST(Redirect, NoRoom) {
  config::Redirect redirect;
  redirect.scheme = "https";
  RequestAttributes facts = kRequest;
  const std::string query(300, 'q');
  facts.query = query;
  EXPECT_EQ(location(redirect, facts), "no room");
}

}  // namespace
}  // namespace sluice
