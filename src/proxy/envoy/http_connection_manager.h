// Envoy's HttpConnectionManager as `http` of a listener.
#pragma once

#include <string>
#include <vector>

#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/virtual_hosts.h"

namespace sluice::envoy {

/// What one filter chain does with requests.
struct MappedManager {
  config::Node http = map_node();  ///< All keys of `http` but `routes`.
  std::vector<HostRoutes> lists;
  std::vector<std::string> readiness_paths;
  std::string codec;       ///< `HTTP1`, `HTTP2`, or empty: both.
  bool is_locked = false;  ///< Whether it must refuse all requests.
};

MappedManager map_manager(const Message& manager, bool has_tls, MappingState& state);

/// The routes of lists as `routes`.
config::Node route_list_node(const std::vector<HostRoutes>& lists, const std::vector<std::string>& readiness_paths);

}  // namespace sluice::envoy
