#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proxy/config/model/overload.h"
#include "proxy/metrics/overload_counters.h"
#include "proxy/overload/delay_control.h"
#include "proxy/overload/overload_state.h"

namespace sluice {

/// The overload of one worker: that of the process, and that of its own loop. Used on the worker's thread, unless noted
/// otherwise.
class WorkerOverload {
 public:
  /// `state` and `counters` outlive it. `workers`: of the process. `index`: of this one, for the log.
  WorkerOverload(const OverloadState& state, OverloadCounters& counters, unsigned workers, unsigned index)
      : state_(state), counters_(counters), workers_(workers), index_(index) {}
  WorkerOverload(const WorkerOverload&) = delete;
  WorkerOverload& operator=(const WorkerOverload&) = delete;

  /// One that is never overloaded.
  static WorkerOverload& none();

  MemoryLevel level() const { return state_.level(); }
  bool reduces() const { return level() != MemoryLevel::kNormal; }
  uint64_t reduced_ms(uint64_t timeout_ms) const { return state_.reduced_ms(timeout_ms); }
  /// What this worker's connections should still free; 0: nothing.
  uint64_t excess_bytes() {
    const uint64_t excess = state_.excess_bytes() / workers_;
    if (excess == 0 || state_.readings() - closed_at_ >= kReadingsToShow) closed_bytes_ = 0;
    return std::max(excess > closed_bytes_ ? excess - closed_bytes_ : 0, recalled_bytes_);
  }
  /// A turn has ended: so many bytes that this worker borrowed are in use and claimed by another one. True if
  /// connections are to be closed for them, which is so when that lasts.
  bool note_recalled(uint64_t now_ms, uint64_t bytes) {
    recalled_bytes_ = 0;
    if (bytes == 0) {
      recalled_since_ms_ = 0;
      return false;
    }
    if (recalled_since_ms_ == 0) recalled_since_ms_ = now_ms;
    if (now_ms - recalled_since_ms_ < kRecallGraceMs) return false;
    recalled_bytes_ = bytes;
    return true;
  }
  /// A connection that held so much was closed.
  void note_closed(size_t bytes) {
    if (closed_bytes_ == 0) closed_at_ = state_.readings();
    closed_bytes_ += bytes;
    recalled_bytes_ -= std::min<uint64_t>(recalled_bytes_, bytes);
    count(OverloadAction::kCloseConnection);
    counters_.closed_bytes.add(bytes);
  }

  /// A turn of the loop has ended: see DelayControl.
  void note_turn(uint64_t began_ms, uint64_t busy_ms, uint64_t wait_ms) {
    delay_.note_turn(began_ms, busy_ms, wait_ms,
                     {state_.delay_target_ms(), state_.delay_interval_ms(), state_.refuses_normal()});
    if (delay_.sheds() || reported_) [[unlikely]]
      note_shedding(began_ms + busy_ms);
  }
  /// Whether requests are refused at all.
  bool sheds() const { return delay_.sheds(); }
  /// Whether the next request is refused, and counts it then.
  bool sheds(config::Priority priority) {
    if (!delay_.sheds(priority)) return false;
    count(OverloadAction::kRefuseRequest);
    return true;
  }
  const DelayControl& delay() const { return delay_; }

  void count(OverloadAction action) { counters_.add(action); }
  /// Copies what changes with each turn into the counters.
  void update_counters() {
    counters_.delay_ms.set(delay_.delay_ms());
    counters_.shed_percent.set(static_cast<uint64_t>(delay_.low_share() * 100));
  }

 private:
  // What is freed returns to the system within a quarter of a second, with a reading each 20 ms: Worker::set_scarce().
  static constexpr uint32_t kReadingsToShow = 15;

  // Paused connections usually return memory sooner than that.
  static constexpr uint64_t kRecallGraceMs = 200;

  void note_shedding(uint64_t now_ms);

  const OverloadState& state_;
  OverloadCounters& counters_;
  const unsigned workers_, index_;
  DelayControl delay_;
  uint64_t closed_bytes_ = 0;       // What connections held that were closed, as far as no reading shows it.
  uint32_t closed_at_ = 0;          // The number of readings then.
  uint64_t recalled_bytes_ = 0;     // As noted, less what connections held that were closed since.
  uint64_t recalled_since_ms_ = 0;  // 0: nothing is recalled.
  // For the log.
  bool reported_ = false;       // The log has that requests are refused.
  uint64_t last_shed_ms_ = 0;   // When the last one was.
  uint64_t shed_since_ms_ = 0;  // When the first one was, of those that the log will sum up.
  uint64_t shed_before_ = 0;    // How many had been refused before it.
  uint64_t shed_seen_ = 0;      // How many had been refused at the last look.
};

}  // namespace sluice
