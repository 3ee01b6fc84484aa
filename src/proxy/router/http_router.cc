#include "proxy/router/http_router.h"

#include <algorithm>
#include <span>
#include <utility>

#include "proxy/router/request_match.h"
#include "sluice/internal/check.h"

namespace sluice {

void HttpRouter::Group::add(const config::HttpMatch* match, uint32_t index) {
  if (match == nullptr || !match->path || match->path->regex.is_set()) {
    any_path_.push_back(index);
  } else if (const std::string& exact = match->path->exact; !exact.empty()) {
    paths_[exact].exact.push_back(index);
    has_exact_ = true;
  } else {
    const std::string& prefix = match->path->prefix;
    paths_[prefix].prefix.push_back(index);
    const auto at = std::lower_bound(prefix_lengths_.begin(), prefix_lengths_.end(), prefix.size());
    if (at == prefix_lengths_.end() || *at != prefix.size()) prefix_lengths_.insert(at, prefix.size());
  }
}

template <typename Visit>
void HttpRouter::Group::find(std::string_view path, Visit&& visit) const {
  if (!any_path_.empty()) visit(any_path_);
  for (const size_t length : prefix_lengths_) {
    if (length > path.size()) break;
    if (length < path.size() && path[length] != '/' && path[length - 1] != '/') continue;
    const auto found = paths_.find(path.substr(0, length));
    if (found != paths_.end() && !found->second.prefix.empty()) visit(found->second.prefix);
  }
  if (!has_exact_) return;
  const auto found = paths_.find(path);
  if (found != paths_.end() && !found->second.exact.empty()) visit(found->second.exact);
}

HttpRouter::HttpRouter(const config::Http& http, const std::vector<config::Upstream>& upstreams) {
  const config::Snapshot<std::vector<config::HttpRoute>> routes(config::routes_of(http));
  absl::flat_hash_map<std::string_view, uint32_t> upstream_of, group_of;
  for (uint32_t i = 0; i < upstreams.size(); ++i) upstream_of.try_emplace(upstreams[i].name, i);
  std::vector<NamePattern> patterns;
  for (const config::HttpRoute& route : *routes) {
    const auto index = static_cast<uint32_t>(targets_.size());
    const auto named = [&](std::string_view name) {
      const auto found = upstream_of.find(name);
      SLUICE_CHECK(found != upstream_of.end());
      return found->second;
    };
    HttpTarget target{.upstream = route.forward.empty() ? HttpTarget::kNone : named(route.forward),
                      .index = index,
                      .route = routes.part(route),
                      .shares = {}};
    uint64_t weights = 0;
    for (const config::SplitTarget& part : route.split) {
      target.shares.push_back({named(part.forward), weights += part.weight});
    }
    if (route.forward_auth) target.authorizer = named(route.forward_auth->to);
    if (route.ext_authz) target.authorizer = named(route.ext_authz->to);
    for (const config::Mirror& mirror : route.mirror) target.mirrors.push_back(named(mirror.to));
    targets_.push_back(std::move(target));
    const config::HttpMatch* match = route.match ? &*route.match : nullptr;
    if (match == nullptr || match->host.empty()) {
      any_host_.add(match, index);
      continue;
    }
    for (const config::HostPattern& host : match->host) {
      const auto [group, is_new] = group_of.try_emplace(host.text(), static_cast<uint32_t>(hosts_.size()));
      if (is_new) {
        hosts_.emplace_back();
        patterns.push_back({host.text(), group->second});
      }
      hosts_[group->second].add(match, index);
    }
  }
  names_ = NameTable(patterns);
}

uint32_t HttpTarget::choose(Random& random) const {
  if (shares.empty()) return kNone;
  const uint64_t chosen = random.below(shares.back().up_to);
  const auto found = std::ranges::find_if(shares, [=](const Share& share) { return chosen < share.up_to; });
  return static_cast<uint32_t>(found - shares.begin());
}

const HttpTarget* HttpRouter::route(const RequestAttributes& facts) const {
  auto best = static_cast<uint32_t>(targets_.size());
  const auto consider = [&](const Indices& indices) {
    for (const uint32_t index : indices) {
      if (index >= best) return;
      const std::optional<config::HttpMatch>& match = targets_[index].route->match;
      if (!match || !find_mismatch(*match, facts)) {
        best = index;
        return;
      }
    }
  };
  any_host_.find(facts.path, consider);
  if (!hosts_.empty()) {
    names_.for_each_match(facts.host, [&](std::span<const uint32_t> groups) {
      for (const uint32_t group : groups) hosts_[group].find(facts.path, consider);
    });
  }
  return best == targets_.size() ? nullptr : &targets_[best];
}

}  // namespace sluice
