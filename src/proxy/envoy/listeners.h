// Listeners of Envoy's as `listeners`.
#pragma once

#include "proxy/envoy/mapping_state.h"

namespace sluice::envoy {

/// Returns the list. `state.upstreams` must be complete.
config::Node map_listeners(MappingState& state);

}  // namespace sluice::envoy
