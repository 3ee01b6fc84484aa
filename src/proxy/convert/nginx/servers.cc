#include "proxy/convert/nginx/servers.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "proxy/convert/nginx/access.h"
#include "proxy/convert/nginx/listen.h"
#include "proxy/convert/nginx/listener_settings.h"
#include "proxy/convert/nginx/locations.h"
#include "proxy/convert/nginx/server_names.h"
#include "proxy/convert/nginx/server_tls.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

// More than any configuration has; looking for routes that are never taken takes time by its square.
constexpr size_t kMaxRoutes = 2000;

std::string_view first_name(const Directive& server) {
  for (const Directive* const names : server.all("server_name")) {
    if (!names->arg(0).empty()) return names->arg(0);
  }
  return "";
}

std::string listener_name(const ServerGroup& group, State& state) {
  const std::string_view scheme = group.has_tls ? "https" : "http";
  const bool usual = group.port.empty() || group.port == (group.has_tls ? "443" : "80");
  return state.listener_names.new_name(usual ? std::string(scheme) : absl::StrCat(scheme, "-", group.port));
}

// `map $http_upgrade $connection_upgrade { default upgrade; '' close; }` lets websockets pass.
bool is_upgrade_map(const Directive& map) {
  return map.arg(0) == "$http_upgrade" && map.arg(1).starts_with('$') && !map.block.empty() &&
         std::all_of(map.block.begin(), map.block.end(), [](const Directive& each) {
           return (each.name == "default" && absl::EqualsIgnoreCase(each.arg(0), "upgrade")) || each.name.empty() ||
                  absl::EqualsIgnoreCase(each.name, "websocket");
         });
}

class HttpMapper {
 public:
  HttpMapper(const Directive& http, State& state)
      : http_(http), main_{&state.main}, scope_{&http, &main_}, state_(state) {}

  void map() {
    for (const Directive* const upstream : http_.all("upstream")) {
      state_.http_upstreams.emplace(std::string(upstream->arg(0)), upstream);
    }
    for (const Directive* const each : http_.all("map")) {
      if (is_upgrade_map(*each)) {
        state_.upgrade_variables.emplace(each->arg(1).substr(1));
      } else {
        state_.refuse(*each, "there are no variables of one's own: directives that use it are refused");
      }
    }
    read_zones(http_, state_);
    for (const ServerGroup& group : server_groups(http_, state_)) map_group(group);
  }

 private:
  void map_group(const ServerGroup& group) {
    Node listener = map_node();
    put(listener, "name", listener_name(group, state_));
    put_words(listener, "address", group.addresses);
    bool open = put_listener_settings(group, scope_, state_, listener);
    if (group.has_tls) {
      const TlsResult tls = put_server_tls(group, scope_, state_, listener);
      if (tls == TlsResult::kNone) return;
      open = open && tls == TlsResult::kDone;
    }
    Node& http = put(listener, "http", map_node());
    open = put_http_settings(group, scope_, state_, http) && open;
    const std::set<const Directive*> pages = put_error_pages(group, scope_, state_, http);
    std::vector<Route> routes = routes_of(group, pages, http);
    drop_untaken(routes);
    if (!open) put(http, "deny", list_node({"0.0.0.0/0", "::/0"}));
    if (!open) routes = {{.when = {}, .out = respond_node(403)}};
    put(http, "routes", routes_node(routes));
    state_.listeners.items.push_back(std::move(listener));
  }

  std::vector<Route> routes_of(const ServerGroup& group, const std::set<const Directive*>& pages, Node& http) {
    std::vector<Route> all;
    std::chrono::milliseconds tunnel{0};
    for (const HostsOfServer& hosts : hosts_of_group(group, state_)) {
      if (hosts.server == nullptr) {
        all.push_back({.when = {.hosts = hosts.hosts}, .out = closed_node()});
        continue;
      }
      ServerContext server{
          .state = state_,
          .block = *hosts.server,
          .scope = {hosts.server, &scope_},
          .has_tls = group.has_tls,
          .fixed = {.server_name = std::string(first_name(*hosts.server)), .server_port = group.port, .proxy_host = {}},
          .http = http,
          .pages = pages};
      for (Route& route : server_routes(server)) add(std::move(route), hosts, all);
      tunnel = std::max(tunnel, server.tunnel_timeout);
      if (all.size() <= kMaxRoutes) continue;
      state_.refuse(*hosts.server,
                    absl::StrCat("expected up to ", kMaxRoutes, " routes: its requests and those behind it get 403"));
      all.resize(kMaxRoutes);
      all.push_back({.when = {}, .out = closed_node()});
      break;
    }
    if (tunnel.count() > 0) put(http, "tunnel_timeout", duration_text(tunnel));
    return all;
  }

  static void add(Route route, const HostsOfServer& hosts, std::vector<Route>& all) {
    const RequestSet of_server{.hosts = hosts.hosts};
    switch (narrow(route.when, of_server)) {
      case Narrowing::kEmpty:
        return;
      case Narrowing::kUnknown:
        route.out = closed_node();
        break;
      case Narrowing::kDone:
        break;
    }
    all.push_back(std::move(route));
  }

  const Directive& http_;
  const Scope main_;
  const Scope scope_;
  State& state_;
};

}  // namespace

void map_http(const Directive& http, State& state) { HttpMapper(http, state).map(); }

}  // namespace sluice::convert::nginx
