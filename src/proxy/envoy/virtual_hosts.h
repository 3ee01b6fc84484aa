// Route configurations of Envoy's as lists of routes, by host.
#pragma once

#include <string>
#include <vector>

#include "proxy/envoy/route_action.h"

namespace sluice::envoy {

/// The routes of some hosts, in order.
struct HostRoutes {
  std::vector<std::string> hosts;  ///< Empty: all.
  std::vector<MappedRoute> routes;
  /// Whether the last route takes all that is left.
  bool is_closed() const;
};

/// The virtual hosts of `around.configuration`, those with the more specific names first, so that the first match is
/// Envoy's choice.
std::vector<HostRoutes> map_virtual_hosts(const RouteSurroundings& around);

/// Whether the pattern `wide` (`*.example.com`, as Envoy means it) has all hosts of `narrow`.
bool host_covers(std::string_view wide, std::string_view narrow);

/// Leaves out routes that are never taken, and appends a response of 404 where a later list would take what this one
/// leaves.
void close_host_routes(std::vector<HostRoutes>& all);

}  // namespace sluice::envoy
