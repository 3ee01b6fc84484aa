// Clusters of Envoy's as upstreams.
#pragma once

#include "proxy/envoy/mapping_state.h"

namespace sluice::envoy {

/// Fills `state.upstreams` with all clusters, those without endpoints included.
void map_clusters(MappingState& state);

}  // namespace sluice::envoy
