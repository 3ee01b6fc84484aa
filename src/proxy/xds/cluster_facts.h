// What the configuration does not keep of clusters, for reports in Envoy's terms.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "proxy/envoy/mapping.h"
#include "proxy/xds/bootstrap.h"
#include "proxy/xds/resource_store.h"

namespace sluice::xds {

/// Where an endpoint is: its locality and its priority.
struct EndpointLocality {
  std::string region, zone, sub_zone;
  uint32_t priority = 0;

  auto operator<=>(const EndpointLocality&) const = default;
};

struct ClusterFacts {
  std::string upstream;        ///< Its name in the configuration; empty: it has no endpoints.
  std::string service_name;    ///< The name of its endpoints, by EDS; empty: its own.
  bool is_static = false;      ///< Of the bootstrap file.
  bool wants_reports = false;  ///< Its `lrs_server` is `self`: the control plane wants to know its load.
  std::map<std::string, EndpointLocality, std::less<>> places;  ///< By the text of the endpoint in the configuration.
};
/// By the name of the cluster.
using ClusterTable = std::map<std::string, ClusterFacts, std::less<>>;

/// The facts of all static clusters and of those in `in_use`. `names`: the upstreams of the configuration.
ClusterTable cluster_table(const Bootstrap& bootstrap, const ResourceStore& in_use, const envoy::UpstreamNames& names);

/// Whether one of the clusters wants reports.
bool wants_reports(const Bootstrap& bootstrap, const ResourceStore& in_use);

}  // namespace sluice::xds
