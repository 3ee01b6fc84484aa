#include "proxy/envoy/virtual_hosts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/common/ordering.h"
#include "proxy/envoy/http_filters.h"
#include "proxy/envoy/taken_paths.h"

namespace sluice::envoy {
namespace {

using config::Node;

bool is_star(std::string_view host) { return host.starts_with('*'); }

// A domain without its port, or an empty text if Sluice has no such pattern.
std::string host_of_domain(std::string_view domain) {
  const size_t colon = domain.rfind(':');
  const bool has_port = colon != std::string_view::npos && !domain.ends_with(']');
  const std::string host = absl::AsciiStrToLower(has_port ? domain.substr(0, colon) : domain);
  return config::HostPattern::parse(host).ok() ? host : "";
}

struct HostsOfDomains {
  std::vector<std::string> hosts;
  bool all = false;
};

HostsOfDomains hosts_of(const Message& virtual_host) {
  HostsOfDomains made;
  const std::vector<std::string> domains = virtual_host.texts("domains");
  for (const std::string& domain : domains) {
    if (domain == "*") {
      made.all = true;
      continue;
    }
    std::string host = host_of_domain(domain);
    if (host.empty()) {
      virtual_host.refuse("domains", absl::StrCat("there is no counterpart of ", config::in_quotes(domain)));
      continue;
    }
    if (std::find(made.hosts.begin(), made.hosts.end(), host) == made.hosts.end())
      made.hosts.push_back(std::move(host));
  }
  return made;
}

// A redirect of everything to HTTPS, which `require_tls` is on a listener without TLS.
MappedRoute redirect_to_https() {
  MappedRoute made;
  put(map_at(made.out, "redirect"), "scheme", "https");
  return made;
}

std::vector<MappedRoute> routes_of(const RouteSurroundings& around) {
  const std::string tls = around.virtual_host.text("require_tls");
  if (tls == "EXTERNAL_ONLY")
    around.virtual_host.ignore("require_tls", "it is the same as ALL: there are no internal requests");
  if (!tls.empty() && tls != "NONE" && !around.has_tls) return {redirect_to_https()};
  std::vector<MappedRoute> all;
  TakenPaths taken;
  for (const Message& route : around.virtual_host.subs("routes")) {
    std::optional<MappedRoute> made = map_route(route, around);
    if (!made) continue;
    around.filters.read_overrides(route, around, *made);
    if (taken.take_all_of(made->conditions.path)) {
      route.ignore("", "it is never taken: routes before it take its requests");
      continue;
    }
    if (made->conditions.is_path_only()) taken.add(made->conditions.path);
    all.push_back(*std::move(made));
  }
  return all;
}

size_t longest_star(const HostRoutes& list) {
  size_t longest = 0;
  for (const std::string& host : list.hosts) longest = std::max(longest, is_star(host) ? host.size() : 0);
  return longest;
}

// Moves the exact names of `list` to a list of their own, if a star of another list would take them.
void split_exact_names(const std::vector<HostRoutes>& all, const HostRoutes& list, std::vector<HostRoutes>& made) {
  std::vector<std::string> stars, exact;
  for (const std::string& host : list.hosts) (is_star(host) ? stars : exact).push_back(host);
  const bool taken = !stars.empty() && std::any_of(exact.begin(), exact.end(), [&](const std::string& name) {
    return std::any_of(all.begin(), all.end(), [&](const HostRoutes& other) {
      return &other != &list && std::any_of(other.hosts.begin(), other.hosts.end(), [&](const std::string& wide) {
        return is_star(wide) && host_covers(wide, name);
      });
    });
  });
  if (!taken) return made.push_back(list);
  made.push_back({.hosts = std::move(exact), .routes = list.routes});
  made.push_back({.hosts = std::move(stars), .routes = list.routes});
}

MappedRoute not_found() {
  MappedRoute made;
  put(map_at(made.out, "respond"), "status", "404");
  return made;
}

// Names that are no patterns are in one list only.
bool takes_hosts_of(const HostRoutes& later, const HostRoutes& list) {
  if (later.hosts.empty()) return true;
  if (longest_star(later) == 0) return false;
  return std::any_of(list.hosts.begin(), list.hosts.end(), [&](const std::string& host) {
    return std::any_of(later.hosts.begin(), later.hosts.end(),
                       [&](const std::string& wide) { return wide == host || host_covers(wide, host); });
  });
}

}  // namespace

bool HostRoutes::is_closed() const {
  return !routes.empty() && routes.back().conditions.is_path_only() &&
         routes.back().conditions.path.kind == PathSet::Kind::kAll;
}

bool host_covers(std::string_view wide, std::string_view narrow) {
  return is_star(wide) && narrow.size() >= wide.size() && narrow.ends_with(wide.substr(1));
}

std::vector<HostRoutes> map_virtual_hosts(const RouteSurroundings& around) {
  std::vector<HostRoutes> named, all;
  std::optional<HostRoutes> others;
  for (const Message& virtual_host : around.configuration.subs("virtual_hosts")) {
    const RouteSurroundings inside{.state = around.state,
                                   .has_tls = around.has_tls,
                                   .filters = around.filters,
                                   .virtual_host = virtual_host,
                                   .configuration = around.configuration};
    HostsOfDomains hosts = hosts_of(virtual_host);
    if (hosts.hosts.empty() && !hosts.all) continue;
    std::vector<MappedRoute> routes = routes_of(inside);
    if (hosts.all) {
      others = HostRoutes{.hosts = {}, .routes = routes};
    }
    // With `*` the names matter only where another virtual host has a star.
    if (!hosts.hosts.empty() && !hosts.all)
      named.push_back({.hosts = std::move(hosts.hosts), .routes = std::move(routes)});
  }
  for (const HostRoutes& list : named) split_exact_names(named, list, all);
  convert::sort_in_order(all, [](const HostRoutes& a, const HostRoutes& b) {
    const size_t x = longest_star(a), y = longest_star(b);
    return x == 0 || y == 0 ? x == 0 && y != 0 : x > y;
  });
  if (others) all.push_back(*std::move(others));
  return all;
}

void close_host_routes(std::vector<HostRoutes>& all) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].is_closed() || all[i].hosts.empty()) continue;
    const bool taken = std::any_of(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(),
                                   [&](const HostRoutes& later) { return takes_hosts_of(later, all[i]); });
    if (taken) all[i].routes.push_back(not_found());
  }
}

}  // namespace sluice::envoy
