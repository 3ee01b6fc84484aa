#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/upstream/endpoint.h"
#include "sluice/file_pool.h"

namespace sluice {

class Worker;

/// Copies a worker's current state into its gauges. Call it on the worker's own thread.
void update_gauges(Worker& worker, WorkerGauges& gauges);

/// Formats every counter, summed over the workers, one per line in the Prometheus text format. Series by reason are
/// omitted while they are zero.
std::string format_stats(const config::Config& config, const ControlCounters& control,
                         const std::vector<std::unique_ptr<WorkerCounters>>& workers,
                         const std::vector<std::unique_ptr<UpstreamState>>& upstreams);

/// Formats the counters of the body file in the same format.
std::string format_body_file(const FilePool::Stats& stats);

/// Formats the counters of the run-time log in the same format: lines dropped on standard error and standard output,
/// and lines suppressed by a limit.
std::string format_run_log(uint64_t lines_dropped, uint64_t prints_dropped, uint64_t suppressed);

/// Formats the counters of a listener's access log in the same format.
std::string format_access_log(const config::Listener& listener, uint64_t written, uint64_t dropped, uint64_t errors);

}  // namespace sluice
