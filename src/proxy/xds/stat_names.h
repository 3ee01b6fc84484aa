// What Envoy's statistics call the parts of the configuration that a control plane has sent.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/config/load/yaml.h"

namespace sluice::xds {

struct StatNames {
  /// The names of clusters, by upstream.
  std::unordered_map<std::string, std::string> clusters;
  /// The `stat_prefix` of the HTTP connection managers, or TCP proxies, of the listener at an address. Empty: they have
  /// different ones.
  std::unordered_map<std::string, std::string> http_prefixes, tcp_prefixes;
  size_t active_clusters = 0, warming_clusters = 0;
  size_t active_listeners = 0, warming_listeners = 0;

  /// Notes what a message envoy.config.listener.v3.Listener has.
  void add_listener(const config::Node& listener);
};

}  // namespace sluice::xds
