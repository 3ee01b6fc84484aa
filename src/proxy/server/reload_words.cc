#include "proxy/server/reload_words.h"

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {

namespace {

// Counts of what a reload changes, such as "listeners: 1 added, 3 unchanged".
template <class Items>
std::string changes_of(const Items& old, const Items& now) {
  size_t added = 0, changed = 0, removed = 0, unchanged = 0;
  absl::flat_hash_map<std::string_view, const typename Items::value_type*> by_name;
  for (const auto& each : old) by_name.emplace(each.name, &each);
  for (const auto& each : now) {
    const auto before = by_name.find(each.name);
    if (before == by_name.end()) {
      ++added;
      continue;
    }
    ++(*before->second == each ? unchanged : changed);
    by_name.erase(before);
  }
  removed = by_name.size();
  std::vector<std::string> parts;
  for (const auto& [count, what] : {std::pair{added, "added"}, std::pair{removed, "removed"},
                                    std::pair{changed, "changed"}, std::pair{unchanged, "unchanged"}}) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", what));
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

}  // namespace

std::string describe_changes(const config::Config& old, const config::Config& now) {
  return absl::StrCat("listeners: ", changes_of(old.listeners, now.listeners),
                      "; upstreams: ", changes_of(old.upstreams, now.upstreams),
                      old.log == now.log ? "" : "; `log` has changed",
                      old.admin == now.admin ? "" : "; `admin` has changed");
}

std::string reloaded_files(const config::Config& config) {
  const auto by_files = [](const auto& alts) { return alts && !alts->certificates.empty(); };
  size_t tls_listeners = 0, tls_upstreams = 0, auth_routes = 0;
  for (const config::Listener& listener : config.listeners) {
    tls_listeners += listener.tls || by_files(listener.alts);
    if (!listener.http) continue;
    for (const config::HttpRoute& route : listener.http->routes) auth_routes += route.auth.has_value();
  }
  for (const config::Upstream& upstream : config.upstreams) tls_upstreams += upstream.tls || by_files(upstream.alts);
  std::vector<std::string> read;
  if (tls_listeners > 0) read.push_back(absl::StrCat("the TLS files of ", tls_listeners, " listener(s)"));
  if (tls_upstreams > 0) read.push_back(absl::StrCat("the TLS files of ", tls_upstreams, " upstream(s)"));
  if (config.admin && config.admin->tls) read.push_back("the TLS files of `admin`");
  if (auth_routes > 0) read.push_back(absl::StrCat("the `auth` files of ", auth_routes, " route(s)"));
  return read.empty() ? "" : absl::StrCat("read ", absl::StrJoin(read, ", "));
}

}  // namespace sluice
