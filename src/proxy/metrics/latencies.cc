#include "proxy/metrics/latencies.h"

#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace sluice {

namespace {

// The names of the routes, as config::routes_of() has them: `forward` is a route without a name.
std::vector<std::string_view> route_names(const config::Listener& listener) {
  std::vector<std::string_view> names;
  if (!listener.http) return names;
  for (const config::HttpRoute& route : listener.http->routes) names.push_back(route.name);
  if (names.empty()) names.emplace_back();
  return names;
}

}  // namespace

RouteLatencies::RouteLatencies(const config::Listener& listener) {
  size_t named = 0;
  for (const std::string_view name : route_names(listener)) {
    const bool own = !name.empty() && named < kMaxNamed;
    named += own;
    by_route.push_back(own ? std::make_shared<RequestLatencies>() : others);
  }
}

RouteLatencies::RouteLatencies(const config::Listener& listener, const config::Listener& old,
                               const RouteLatencies& before)
    : RouteLatencies(listener) {
  absl::flat_hash_map<std::string_view, std::shared_ptr<RequestLatencies>> known;
  const std::vector<std::string_view> names = route_names(listener), old_names = route_names(old);
  for (size_t i = 0; i < old_names.size(); ++i) {
    if (before.has_own(i)) known.emplace(old_names[i], before.by_route[i]);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (!has_own(i)) {
      by_route[i] = before.others;
      continue;
    }
    const auto same = known.find(names[i]);
    if (same != known.end()) by_route[i] = same->second;
  }
  others = before.others;
}

}  // namespace sluice
