#pragma once

#include <memory>
#include <vector>

#include "proxy/config/model/address_groups.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/listener_state.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/rate_limit/rate_limiter.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

class AccessLogWriter;

/// A configuration with the state that all workers share. A generation that replaces another one shares with it the
/// state of all that has not changed.
struct Generation {
  /// The first generation.
  Generation(config::Snapshot<config::Config> configuration, unsigned workers);
  /// The generation that replaces `before`. An upstream that has not changed keeps its state; one that has takes over
  /// the health of the endpoints that it had before, and the addresses of names. A listener keeps its state if neither
  /// it, nor what its addresses accept, nor any upstream has changed, nor a rate limit that it names, and its limits in
  /// any case. A rate limit goes on counting unless what it counts has changed.
  Generation(config::Snapshot<config::Config> configuration, const Generation& before);

  /// Whether `listener` is the state of a listener of this generation.
  bool has(const ListenerState& listener) const;

  config::Snapshot<config::Config> config;
  std::shared_ptr<const config::AddressGroups> groups;  ///< Of its listeners.
  std::vector<std::shared_ptr<ListenerState>> listeners;
  std::vector<std::shared_ptr<UpstreamState>> upstreams;
  std::vector<std::shared_ptr<const RateLimiter>> rate_limits;
  std::vector<std::shared_ptr<WorkerCounters>> counters;  ///< By worker.
};

/// A generation as one worker gets it.
struct WorkerGeneration {
  WorkerGeneration(const Generation& generation, unsigned worker)
      : groups(generation.groups),
        listeners(generation.listeners),
        upstreams(generation.upstreams),
        counters(generation.counters[worker]) {
    for (size_t i = 0; i < generation.rate_limits.size(); ++i) {
      rate_limits.push_back({generation.rate_limits[i], counters->rate_limits[i]});
    }
  }

  std::shared_ptr<const config::AddressGroups> groups;
  std::vector<std::shared_ptr<ListenerState>> listeners;
  std::vector<std::shared_ptr<UpstreamState>> upstreams;
  std::shared_ptr<WorkerCounters> counters;
  WorkerRateLimits rate_limits;
  /// By listener. The worker owns them; none: it has an acceptor for this listener already, or another listener accepts
  /// for it.
  std::vector<std::vector<ListenSocket>> sockets;
  std::vector<AccessLogWriter*> access_logs;  ///< The worker's, by listener; null entries allowed. May be empty.
};

}  // namespace sluice
