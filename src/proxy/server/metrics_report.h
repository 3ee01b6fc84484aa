#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pool/file_pool.h"
#include "proxy/config/model/config.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

class Worker;

/// Copies what a worker knows of itself into its gauges. On the worker's own thread.
void update_gauges(Worker& worker, WorkerGauges& gauges);

/// Every counter, summed over the workers, one per line in the Prometheus text format. Series by reason that are zero
/// are left out.
std::string format_stats(const config::Config& config, const ControlCounters& control,
                         const std::vector<std::unique_ptr<WorkerCounters>>& workers,
                         const std::vector<std::unique_ptr<UpstreamState>>& upstreams);

/// The same for the file where bodies wait.
std::string format_body_file(const FilePool::Stats& stats);

/// The same for the run-time log: lines dropped on standard error and standard output, and lines that a limit left out.
std::string format_run_log(uint64_t lines_dropped, uint64_t prints_dropped, uint64_t suppressed);

/// The same for a listener's access log.
std::string format_access_log(const config::Listener& listener, uint64_t written, uint64_t dropped, uint64_t errors);

}  // namespace sluice
