// What became of clusters and listeners, in the form of Envoy's admin pages, for the tools of Envoy's control planes.
#pragma once

#include <string>
#include <vector>

#include "proxy/config/load/yaml.h"
#include "proxy/xds/cluster_facts.h"
#include "proxy/xds/load_source.h"

namespace sluice::xds {

/// envoy.admin.v3.Clusters, in JSON: clusters with the addresses that they have now. Callable on any thread.
std::string cluster_statuses(const ClusterTable& table, const LoadView& view);

/// envoy.admin.v3.Listeners, in JSON. `listeners`: messages envoy.config.listener.v3.Listener.
std::string listener_statuses(const std::vector<const config::Node*>& listeners);

}  // namespace sluice::xds
