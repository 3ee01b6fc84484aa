#include "proxy/router/tcp_router.h"

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice {

TcpRouter::TcpRouter(const config::Tcp& tcp, const std::vector<config::Upstream>& upstreams) {
  std::vector<NamePattern> patterns;
  const std::vector<config::TcpRoute> routes = config::routes_of(tcp);
  for (const config::TcpRoute& route : routes) {
    const auto upstream = std::find_if(upstreams.begin(), upstreams.end(),
                                       [&](const config::Upstream& u) { return u.name == route.forward; });
    SLUICE_CHECK(upstream != upstreams.end());
    const auto index = static_cast<uint32_t>(routes_.size());
    routes_.push_back({static_cast<uint32_t>(upstream - upstreams.begin()), {}, {}});
    if (route.match) {
      needs_hello_ = needs_hello_ || !route.match->sni.empty() || !route.match->alpn.empty();
      routes_.back().alpn = route.match->alpn;
      routes_.back().peer = route.match->peer;
    }
    if (!route.match || route.match->sni.empty()) {
      unnamed_.push_back(index);
    } else {
      for (const config::HostPattern& pattern : route.match->sni) patterns.push_back({pattern.text(), index});
    }
  }
  names_ = NameTable(patterns);
}

// Checks all conditions except the server name, which names_ matches.
bool TcpRouter::fits(const Route& route, const TcpFacts& facts) {
  const bool alpn_fits =
      route.alpn.empty() ||
      (facts.hello && std::any_of(route.alpn.begin(), route.alpn.end(),
                                  [&](const std::string& name) { return facts.hello->alpn.contains(name); }));
  return alpn_fits && (route.peer.empty() || (facts.agreed && facts.agreed->peer_is_one_of(route.peer)));
}

std::optional<TcpTarget> TcpRouter::route(const TcpFacts& facts) const {
  constexpr uint32_t kNone = UINT32_MAX;
  uint32_t best = kNone;
  // The candidates of each list are in route order, so the first match is the best of its list.
  const auto consider = [&](std::span<const uint32_t> candidates) {
    for (uint32_t index : candidates) {
      const Route& route = routes_[index];
      if (fits(route, facts)) {
        best = std::min(best, index);
        return;
      }
    }
  };
  consider(unnamed_);
  if (facts.hello) {
    names_.for_each_match(facts.hello->server_name(), consider);
  }
  if (best == kNone) return std::nullopt;
  return TcpTarget{.route = best, .upstream = routes_[best].upstream};
}

}  // namespace sluice
