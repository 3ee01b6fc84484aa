#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/metrics/l4_counters.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/concurrency_control.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// An upstream on one worker: what all connections to it share, whatever their protocol. Configurations that have the
/// upstream unchanged share it.
struct WorkerUpstream {
  /// `index`: of the upstream in the configuration of `counters`. `worker`: see Balancer.
  WorkerUpstream(std::shared_ptr<UpstreamState> upstream, unsigned worker, const WorkerCounters& counters, size_t index)
      : state(std::move(upstream)),
        balancer(*state, worker, counters.balancers[index]),
        tls_sessions(state->size()),
        endpoints(counters.upstreams[index]),
        http_counters(counters.http_upstreams[index]),
        latencies(counters.upstream_latencies[index]) {}
  WorkerUpstream(const WorkerUpstream&) = delete;
  WorkerUpstream& operator=(const WorkerUpstream&) = delete;

  /// The counters of the configured or added endpoint that has the slot.
  EndpointCounters& counters_of(uint32_t slot) { return *endpoints[state->slots().configured(slot)]; }

  const std::shared_ptr<UpstreamState> state;
  Balancer balancer;
  SessionCache tls_sessions;
  const std::vector<std::shared_ptr<EndpointCounters>> endpoints;  ///< By EndpointTable::configured().
  const std::shared_ptr<UpstreamHttpCounters> http_counters;
  const std::shared_ptr<UpstreamLatencies> latencies;
  LearnedConcurrency learned;  ///< Of `adaptive_concurrency`.
};

/// The upstreams of a configuration on one worker, by index.
using WorkerUpstreams = std::vector<std::shared_ptr<WorkerUpstream>>;

/// An endpoint by its places.
struct EndpointPlace {
  uint32_t upstream;  ///< Index in WorkerUpstreams.
  uint32_t slot;
};
/// Finds a present endpoint by the name of its upstream and its address.
std::optional<EndpointPlace> find_endpoint(const WorkerUpstreams& upstreams, std::string_view upstream,
                                           std::string_view address);

}  // namespace sluice
