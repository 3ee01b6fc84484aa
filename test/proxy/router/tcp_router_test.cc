#include "proxy/router/tcp_router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

using Names = std::vector<std::string>;

ClientHello hello(std::string_view server_name, const Names& alpn = {}) {
  ClientHello result;
  std::memcpy(result.server_name_bytes.data(), server_name.data(), server_name.size());
  result.server_name_size = static_cast<uint8_t>(server_name.size());
  for (const std::string& name : alpn) {
    char* to = result.alpn.add(static_cast<uint8_t>(name.size()));
    SLUICE_CHECK(to != nullptr);
    std::memcpy(to, name.data(), name.size());
  }
  return result;
}

/// Builds a table of routes "u0", "u1", ... in the order of the calls.
class Table {
 public:
  Table& match(const Names& sni, const Names& alpn = {}) {
    config::TcpMatch match;
    for (const std::string& name : sni) match.sni.push_back(config::HostPattern::parse(name).value());
    match.alpn = alpn;
    return add(match);
  }
  Table& otherwise() { return add(std::nullopt); }

  TcpRouter router() const { return TcpRouter(tcp_, upstreams_); }
  const config::Tcp& tcp() const { return tcp_; }

 private:
  Table& add(const std::optional<config::TcpMatch>& match) {
    const std::string name = "u" + std::to_string(upstreams_.size());
    // In front, so that the index of a route is not that of its upstream.
    upstreams_.insert(upstreams_.begin(), config::Upstream{.name = name});
    tcp_.routes.push_back({match, name});
    return *this;
  }
  config::Tcp tcp_;
  std::vector<config::Upstream> upstreams_;
};

/// The same as NameTable does with a hash table, but by simple comparison.
bool fits_pattern(std::string_view pattern, std::string_view name) {
  if (!pattern.starts_with('*')) return !pattern.empty() && name == pattern;
  if (pattern.starts_with("**")) return name.size() > pattern.size() - 2 && name.ends_with(pattern.substr(2));
  const size_t dot = name.find('.');
  return dot != std::string_view::npos && dot != 0 && name.substr(dot) == pattern.substr(1);
}

/// The position of the chosen route in a table of `count`, or -1.
int route(const TcpRouter& router, size_t count, const ClientHello* h) {
  const std::optional<TcpTarget> target = router.route({h});
  if (!target) return -1;
  EXPECT_EQ(target->route, count - 1 - target->upstream);
  return static_cast<int>(target->route);
}

TEST(TcpRouterTest, ForwardIsOneRouteForEverything) {
  config::Tcp tcp;
  tcp.forward = "b";
  const std::vector<config::Upstream> upstreams = {{.name = "a"}, {.name = "b"}};
  const TcpRouter router(tcp, upstreams);
  EXPECT_FALSE(router.needs_hello());
  EXPECT_EQ(router.route({}).value().upstream, 1u);
  const ClientHello any = hello("x.example");
  EXPECT_EQ(router.route({&any}).value().upstream, 1u);
}

TEST(TcpRouterTest, FirstMatchWins) {
  Table table;
  table.match({"*.example.com"})
      .match({"api.example.com"})
      .match({"www.example.com", "api.example.com"})
      .match({"*.com"});
  const TcpRouter router = table.router();
  EXPECT_TRUE(router.needs_hello());
  const std::pair<const char*, int> cases[] = {
      {"api.example.com", 0},  // Though an exact name comes after it.
      {"www.example.com", 0}, {"example.com", 3}, {"a.b.example.com", -1}, {"example.org", -1}, {"", -1},
  };
  for (const auto& [name, expected] : cases) {
    const ClientHello h = hello(name);
    EXPECT_EQ(route(router, 4, &h), expected) << name;
  }
}

TEST(TcpRouterTest, ExactBeforeWildcardIfItIsFirst) {
  Table table;
  table.match({"api.example.com"}).match({"*.example.com"});
  const TcpRouter router = table.router();
  const ClientHello api = hello("api.example.com"), www = hello("www.example.com");
  EXPECT_EQ(route(router, 2, &api), 0);
  EXPECT_EQ(route(router, 2, &www), 1);
}

TEST(TcpRouterTest, ByVerifiedIdentity) {
  config::Tcp tcp;
  tcp.routes = {{.match = config::TcpMatch{.sni = {}, .alpn = {}, .peer = {"a", "b"}}, .forward = "inner"},
                {.match = std::nullopt, .forward = "outer"}};
  const std::vector<config::Upstream> upstreams = {{.name = "inner"}, {.name = "outer"}};
  const TcpRouter router(tcp, upstreams);
  EXPECT_FALSE(router.needs_hello());
  Agreement agreed;
  EXPECT_EQ(router.route({nullptr, &agreed}).value().upstream, 1u);
  agreed.peer_names = {"x", "b"};
  EXPECT_EQ(router.route({nullptr, &agreed}).value().upstream, 0u);
  EXPECT_EQ(router.route({}).value().upstream, 1u);  // TLS was not terminated.
}

TEST(TcpRouterTest, DefaultTakesTheRest) {
  Table table;
  table.match({"a.example"}).otherwise();
  const TcpRouter router = table.router();
  EXPECT_TRUE(router.needs_hello());
  const ClientHello a = hello("a.example"), b = hello("b.example"), none = hello("");
  EXPECT_EQ(route(router, 2, &a), 0);
  EXPECT_EQ(route(router, 2, &b), 1);
  EXPECT_EQ(route(router, 2, &none), 1);
  EXPECT_EQ(route(router, 2, nullptr), 1);  // Not TLS.
}

TEST(TcpRouterTest, WithoutTlsOnlyTheDefault) {
  Table table;
  table.match({}, {"h2"}).match({"a.example"});
  EXPECT_EQ(route(table.router(), 2, nullptr), -1);
}

TEST(TcpRouterTest, AlpnNeedsOneOfItsNames) {
  Table table;
  table.match({}, {"h2", "h3"}).match({}, {"http/1.1"}).otherwise();
  const TcpRouter router = table.router();
  const std::pair<Names, int> cases[] = {
      {{"h2"}, 0}, {{"http/1.1", "h2"}, 0},  // In the order of the routes, not of the client.
      {{"h3"}, 0}, {{"http/1.1"}, 1},       {{"http/1.0"}, 2}, {{"h"}, 2}, {{"h22"}, 2}, {{}, 2},
  };
  for (const auto& [alpn, expected] : cases) {
    const ClientHello h = hello("x.example", alpn);
    EXPECT_EQ(route(router, 3, &h), expected) << (alpn.empty() ? "none" : alpn[0]);
  }
}

TEST(TcpRouterTest, NameAndAlpnMustBothMatch) {
  Table table;
  table.match({"a.example"}, {"h2"})
      .match({"a.example"}, {"http/1.1"})
      .match({"*.example"}, {"h2"})
      .match({"a.example"});
  const TcpRouter router = table.router();
  const struct {
    const char* name;
    Names alpn;
    int expected;
  } cases[] = {
      {"a.example", {"h2"}, 0}, {"a.example", {"http/1.1"}, 1}, {"a.example", {"http/1.1", "h2"}, 0},
      {"a.example", {}, 3},     {"a.example", {"x"}, 3},        {"b.example", {"h2"}, 2},
      {"b.example", {}, -1},
  };
  for (const auto& c : cases) {
    const ClientHello h = hello(c.name, c.alpn);
    EXPECT_EQ(route(router, 4, &h), c.expected) << c.name;
  }
}

// Routes that differ in ALPN only, after wildcards and exact names in all orders, compared with a linear search.
TEST(TcpRouterTest, AgreesWithALinearSearch) {
  std::mt19937 random(11);
  const Names patterns = {"a.x.example", "b.x.example", "*.x.example",  "x.example",
                          "*.example",   "y.example",   "**.x.example", "**.example"};
  const Names names = {"a.x.example", "b.x.example", "c.x.example",   "x.example",
                       "y.example",   "z.example",   "a.b.x.example", ""};
  const Names protocols = {"h2", "http/1.1", "acme"};
  const auto some = [&](const Names& from, size_t most) {
    Names result;
    for (size_t i = random() % (most + 1); i > 0; --i) result.push_back(from[random() % from.size()]);
    return result;
  };
  for (int round = 0; round < 500; ++round) {
    Table table;
    const size_t count = 1 + random() % 8;
    for (size_t i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      if (last && random() % 2) {
        table.otherwise();
      } else {
        table.match(some(patterns, 3), some(protocols, 2));
      }
    }
    const TcpRouter router = table.router();
    for (const std::string& name : names) {
      const Names alpn = some(protocols, 2);
      const ClientHello h = hello(name, alpn);
      int expected = -1;
      for (size_t i = 0; i < count && expected < 0; ++i) {
        const std::optional<config::TcpMatch>& match = table.tcp().routes[i].match;
        const bool fits =
            !match || ((match->sni.empty() ||
                        std::any_of(match->sni.begin(), match->sni.end(),
                                    [&](const config::HostPattern& p) { return fits_pattern(p.text(), name); })) &&
                       (match->alpn.empty() || std::any_of(match->alpn.begin(), match->alpn.end(), [&](const auto& a) {
                          return std::find(alpn.begin(), alpn.end(), a) != alpn.end();
                        })));
        if (fits) expected = static_cast<int>(i);
      }
      ASSERT_EQ(route(router, count, &h), expected) << "round " << round << " name " << name;
    }
  }
}

}  // namespace
}  // namespace sluice
