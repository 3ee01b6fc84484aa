#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "proxy/admin/admin_pages.h"
#include "proxy/log/log_line.h"
#include "sluice/file_pool.h"

namespace sluice {

namespace config {
struct Listener;
}
class OverloadState;
struct XdsCounters;

// The figures of the process, beside those of its workers (metrics_report.h). Each function formats some of them, one
// per line in the Prometheus text format.

/// The state of the process for a scrape.
struct ScrapeState {
  uint64_t generation = 0;
  int64_t applied_s = 0;  ///< Of the generation, in seconds since 1970.
  bool ready = false;
  std::vector<bool> responds;  ///< By worker.
};
/// The state, with the version of the program.
std::string format_scrape(const ScrapeState& state);

/// The counters of the admin listener.
std::string format_admin(const AdminCounters& counters);

/// The counters of the client of a control plane.
std::string format_xds(const XdsCounters& counters);

/// The memory in use, as it is compared with the marks of `overload`.
std::string format_overload(const OverloadState& state);

/// The counters of the body file.
std::string format_body_file(const FilePool::Stats& stats);

/// What the run-time log counts.
struct RunLogCounts {
  std::array<uint64_t, kLogLevels> lines{};  ///< By level.
  uint64_t dropped = 0;                      ///< Lines of the log that were dropped,
  uint64_t prints_dropped = 0;               ///< and of standard output.
  uint64_t errors = 0;                       ///< Writes that failed.
  uint64_t suppressed = 0;                   ///< Lines over a LogLimit.
};
std::string format_run_log(const RunLogCounts& counts);

/// The counters of a listener's access log.
std::string format_access_log(const config::Listener& listener, uint64_t written, uint64_t dropped, uint64_t errors);

}  // namespace sluice
