// ClusterLoadAssignments of Envoy's as endpoints of an upstream.
#pragma once

#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/message.h"

namespace sluice::envoy {

/// Puts the endpoints of `assignment` into `upstream`. `by_name`: host names are possible.
/// `by_locality`: a locality has the share that its weight says, without one none; otherwise all are used alike.
void map_endpoints(const Message& assignment, bool by_name, bool by_locality, MappedUpstream& upstream);

}  // namespace sluice::envoy
