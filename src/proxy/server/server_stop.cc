// The end of the process, in phases: shutdown_delay, draining, resets.

#include <chrono>
#include <cstdlib>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/config/load/print.h"
#include "proxy/log/run_log.h"
#include "proxy/resolve/resolver.h"
#include "proxy/server/metrics_report.h"
#include "proxy/server/server.h"
#include "proxy/server/worker_thread.h"

namespace sluice {

namespace {

// Time for sockets to close after all sessions were ended; then the process exits anyway.
constexpr std::chrono::seconds kShutDownTimeout{5};
// Time for workers to stop accepting, which takes them a turn; a worker that makes no progress must not delay the end.
constexpr std::chrono::seconds kStopAcceptingTimeout{5};

}  // namespace

// Begins the phase that follows the present one.
void Server::end_phase() {
  const auto now = std::chrono::steady_clock::now();
  switch (phase_) {
    case Phase::kServing:
      return;
    case Phase::kDelaying:
      phase_ = Phase::kDraining;
      deadline_ = now + generation_.config->shutdown_timeout;
      for (auto& predecessor : predecessors_) predecessor->report_leaving();
      return stop_accepting();
    case Phase::kMovingOut:
      leave_to_successor();
      break;
    case Phase::kDraining:
      break;
    case Phase::kShuttingDown:
      // No session should need more time. If one does, exiting is better than hanging.
      log_line(LogLevel::kError, "sessions did not end in time; exiting anyway");
      RunLog::process().stop();
      std::_Exit(1);
  }
  log_line(LogLevel::kWarning, "shutdown_timeout is over: ending the remaining sessions");
  phase_ = Phase::kShuttingDown;
  deadline_ = now + kShutDownTimeout;
  for (auto& worker : workers_) worker->shut_down();
}

void Server::stop_accepting() {
  const auto timeout = std::chrono::steady_clock::now() + kStopAcceptingTimeout;
  manager_.stopping(absl::StrCat("draining: ", global_connections_.active(), " connections open"));
  sockets_.close();
  std::vector<std::future<void>> stopped;
  for (auto& worker : workers_) stopped.push_back(worker->drain());
  // No connection may be accepted once the log says so.
  for (std::future<void>& each : stopped) (void)each.wait_until(timeout);
  log_line(LogLevel::kInfo, absl::StrCat("draining: no new connections; ", global_connections_.active(),
                                         " open, up to ", config::print_duration(generation_.config->shutdown_timeout),
                                         " to end; another signal ends them now"));
}

void Server::log_resets() {
  std::vector<std::string> kinds;
  for (size_t kind = 0; kind < kSessionKindCount; ++kind) {
    const uint64_t all = resets_of(generation_.counters, static_cast<SessionKind>(kind));
    const uint64_t more = all - std::exchange(logged_resets_[kind], all);
    if (more > 0) kinds.push_back(absl::StrCat(more, " ", session_kind_name(static_cast<SessionKind>(kind))));
  }
  if (!kinds.empty())
    log_line(LogLevel::kWarning,
             absl::StrCat("sessions reset because their time to end was over: ", absl::StrJoin(kinds, ", ")));
}

}  // namespace sluice
