// Clusters of Envoy's as upstreams.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "proxy/envoy/mapping_state.h"

namespace sluice::envoy {

/// A cluster as it was mapped, and what that depends on.
struct CachedCluster {
  const config::Node* tree = nullptr;
  Lookups lookups;
  Findings findings;
  std::shared_ptr<const MappedUpstream> mapped;
  bool is_used = false;  ///< By the last mapping.
  // With the keys that its use needs. Null: not made yet.
  std::shared_ptr<const config::Node> out;
  UpstreamUse use;  ///< That of `out`.
};
/// By the name of the cluster.
using ClusterCache = std::unordered_map<std::string, CachedCluster>;

/// Fills `state.upstreams` with all clusters, those without endpoints included. Maps those that `cache` does not have
/// as they are now.
void map_clusters(MappingState& state, ClusterCache& cache);

/// The upstream of a cluster, with what its use needs or forbids. Findings are added at each call.
const std::shared_ptr<const config::Node>& finished_upstream(CachedCluster& cached, const std::string& cluster,
                                                             const UpstreamUse& use, Findings& findings);

}  // namespace sluice::envoy
