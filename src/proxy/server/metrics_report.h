#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxy/admin/admin_pages.h"
#include "proxy/config/model/config.h"
#include "proxy/log/log_line.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/upstream/endpoint.h"
#include "sluice/file_pool.h"

namespace sluice {

class OverloadState;
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

/// The state of the process for a scrape.
struct ScrapeState {
  uint64_t generation = 0;
  int64_t applied_s = 0;  ///< Of the generation, in seconds since 1970.
  bool ready = false;
  std::vector<bool> responds;  ///< By worker.
};
/// Formats it, with the version of the program, in the same format.
std::string format_scrape(const ScrapeState& state);

/// Formats the counters of the admin listener in the same format.
std::string format_admin(const AdminCounters& counters);

/// Formats the counters of the body file in the same format.
std::string format_body_file(const FilePool::Stats& stats);

/// Formats the memory in use, as it is compared with the marks of `overload`, in the same format.
/// The counters of the client of a control plane.
std::string format_xds(const XdsCounters& counters);
std::string format_overload(const OverloadState& state);

/// What the run-time log counts.
struct RunLogCounts {
  std::array<uint64_t, kLogLevels> lines{};  ///< By level.
  uint64_t dropped = 0;                      ///< Lines of the log that were dropped,
  uint64_t prints_dropped = 0;               ///< and of standard output.
  uint64_t errors = 0;                       ///< Writes that failed.
  uint64_t suppressed = 0;                   ///< Lines over a LogLimit.
};
/// Formats them in the same format.
std::string format_run_log(const RunLogCounts& counts);

/// Formats the counters of a listener's access log in the same format.
std::string format_access_log(const config::Listener& listener, uint64_t written, uint64_t dropped, uint64_t errors);

}  // namespace sluice
