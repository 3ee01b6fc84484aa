#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "proxy/config/model/overload.h"

namespace sluice {

/// Decides which share of the requests of a worker is refused, by how long its events wait.
///
/// An event waits at most as long as the turn of the loop in which it arrives, and a request then waits for a turn that
/// has room for it (ForwardQueue): the longer one of the two is the delay. Whether there is too much of it is decided
/// as by CoDel (RFC 8289): by the shortest delay of each tick, so that bursts that drain do not count, and only when it
/// has been above the target for a whole interval. How much is refused is decided as by PIE (RFC 8033): a share that a
/// proportional-integral controller adapts, as CoDel's own rule expects senders that slow down when they notice a loss.
///
/// The pressure goes from 0 to 1, or to 2 if requests of normal priority may be refused. Up to 1 it is the share of the
/// requests of low priority that are refused; what is above that, the share of those of normal priority. It skips the
/// part of low priority if no request has it.
class DelayControl {
 public:
  static constexpr uint64_t kTickMs = 100;

  struct Settings {
    uint64_t target_ms = 0;  ///< 0: nothing is refused.
    uint64_t interval_ms = 0;
    bool refuses_normal = false;  ///< Not only requests of low priority.
  };

  /// A turn has ended that began at `began_ms` and took `busy_ms`, without the wait before it. `wait_ms`: how long the
  /// first of the requests has waited that are left for the next turn; 0: none is.
  void note_turn(uint64_t began_ms, uint64_t busy_ms, uint64_t wait_ms, const Settings& settings) {
    least_ms_ = std::min(least_ms_, std::max(busy_ms, wait_ms));
    const uint64_t now_ms = began_ms + busy_ms;
    if (now_ms >= tick_ends_ms_) [[unlikely]]
      tick(now_ms, settings);
  }
  /// Whether some requests are to be refused.
  bool sheds() const { return pressure_ > 0; }
  /// Whether the next request, of this priority, is to be refused. Precondition: sheds().
  bool sheds(config::Priority priority) {
    if (priority == config::Priority::kHigh) return false;
    const bool low = priority == config::Priority::kLow;
    low_seen_ |= low;
    // The error of the share so far is carried on, so that it needs no random number and has no streaks.
    double& due = low ? low_due_ : normal_due_;
    due += low ? low_share() : normal_share();
    if (due < 1) return false;
    due -= 1;
    return true;
  }
  /// The share of the requests of low priority that is refused, from 0 to 1,
  double low_share() const { return std::min(pressure_, 1.0); }
  /// and of those of normal priority, from 0 to kMostShare.
  double normal_share() const { return std::clamp(pressure_ - 1, 0.0, kMostShare); }
  /// The delay of the last tick, in milliseconds.
  uint64_t delay_ms() const { return delay_ms_; }

 private:
  // Some requests always pass, so that the delay is that of requests and not of refusals.
  static constexpr double kMostShare = 0.98;

  void tick(uint64_t now_ms, const Settings& settings);

  uint64_t tick_ends_ms_ = 0;
  uint64_t least_ms_ = UINT64_MAX;  // The shortest delay of this tick.
  bool low_seen_ = false;           // Since the last tick.
  uint64_t above_since_ms_ = 0;     // When the delay rose above the target; 0: it is below.
  uint64_t delay_ms_ = 0;
  double pressure_ = 0;
  double low_due_ = 0, normal_due_ = 0;
};

}  // namespace sluice
