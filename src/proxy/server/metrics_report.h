#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

class Worker;

/// Copies a worker's current state into its gauges. Call it on the worker's own thread.
void update_gauges(Worker& worker, WorkerGauges& gauges);

/// How many sessions of this kind were reset because their time to drain was over.
uint64_t resets_of(const std::vector<std::shared_ptr<WorkerCounters>>& workers, SessionKind kind);

/// Formats every counter, summed over the workers, one per line in the Prometheus text format. Series by reason are
/// omitted while they are zero.
std::string format_stats(const config::Config& config, const ControlCounters& control,
                         const std::vector<std::shared_ptr<WorkerCounters>>& workers,
                         const std::vector<std::shared_ptr<UpstreamState>>& upstreams);

}  // namespace sluice
