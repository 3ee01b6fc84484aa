// What Envoy's routes do with a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/route_match.h"

namespace sluice::envoy {

/// A route of the result, without its hosts.
struct MappedRoute {
  std::string name;
  RouteConditions conditions;
  config::Node out = map_node();  ///< All keys but `name` and `match`.
  /// `rewrite` or `redirect`, and what becomes of the path that `changed` fits. Written last, since it depends on
  /// `match`.
  std::string change_key;
  PathSet changed;
  std::string replacement;
  bool takes_websocket = false;  ///< Whether it lets upgrades to websocket pass, though its listener may not.

  bool forwards() const { return out.find("forward") != nullptr || out.find("split") != nullptr; }
};

class HttpFilters;

/// What a route inherits.
struct RouteSurroundings {
  MappingState& state;
  bool has_tls = false;  ///< Whether the listener terminates TLS.
  const HttpFilters& filters;
  Message virtual_host;
  Message configuration;
};

/// Replaces what the route does by a response with 503 and this text.
void make_unavailable(MappedRoute& route, std::string_view text);

/// Returns nothing, with a finding, if the route cannot be mapped.
std::optional<MappedRoute> map_route(const Message& route, const RouteSurroundings& around);

}  // namespace sluice::envoy
