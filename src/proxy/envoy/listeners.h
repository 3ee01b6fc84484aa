// Listeners of Envoy's as `listeners`.
#pragma once

#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/result_names.h"

namespace sluice::envoy {

/// Returns the list. `state.upstreams` must be complete. Adds the names of its items to `names`.
config::Node map_listeners(MappingState& state, ListenerNames& names);

}  // namespace sluice::envoy
