#include "proxy/overload/worker_overload.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/log/run_log.h"

namespace sluice {

namespace {

// Requests may be refused for a moment now and then. The log has one line for all of it, unless it pauses this long.
constexpr uint64_t kQuietMs = 10'000;

}  // namespace

WorkerOverload& WorkerOverload::none() {
  // One for each thread, as workers write to it.
  static thread_local OverloadCounters counters;
  static thread_local WorkerOverload overload(OverloadState::none(), counters, 1, 0);
  return overload;
}

void WorkerOverload::note_shedding(uint64_t now_ms) {
  const uint64_t refused = counters_.actions[static_cast<size_t>(OverloadAction::kRefuseRequest)].value();
  const uint64_t seen = std::exchange(shed_seen_, refused);
  if (refused != seen) {
    last_shed_ms_ = now_ms;
    if (reported_) return;
    reported_ = true;
    shed_since_ms_ = now_ms;
    shed_before_ = seen;
    log_line(
        LogLevel::kWarning,
        absl::StrCat("worker ", index_, ": events wait ", delay_.delay_ms(),
                     " ms for their turn, longer than overload.delay.target (", state_.delay_target_ms(),
                     "ms): requests get 503 (overload), those of low priority first; add processors or instances"));
  } else if (reported_ && now_ms - last_shed_ms_ > kQuietMs) {
    reported_ = false;
    log_line(LogLevel::kInfo,
             absl::StrCat("worker ", index_, ": ", refused - shed_before_, " requests were refused in ",
                          (last_shed_ms_ - shed_since_ms_) / 1000, " s because events waited for too long"));
  }
}

}  // namespace sluice
