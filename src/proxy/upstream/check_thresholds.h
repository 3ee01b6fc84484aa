#pragma once

#include <cstdint>

namespace sluice {

/// Turns the results of an endpoint's health checks into a healthy or unhealthy state. The endpoint starts healthy; the
/// first result sets the state, and afterwards a number of contrary results in a row changes it.
class CheckThresholds {
 public:
  /// Precondition: neither threshold is 0.
  CheckThresholds(uint32_t healthy_after, uint32_t unhealthy_after)
      : healthy_after_(healthy_after), unhealthy_after_(unhealthy_after) {}

  bool healthy() const { return healthy_; }
  /// The number of results in a row that contradict healthy().
  uint32_t contrary() const { return contrary_; }

  /// Records a result. Returns whether it changed healthy().
  bool take(bool passed) {
    const bool first = !decided_;
    decided_ = true;
    if (passed == healthy_) {
      contrary_ = 0;
      return false;
    }
    ++contrary_;
    if (!first && contrary_ < (healthy_ ? unhealthy_after_ : healthy_after_)) return false;
    healthy_ = passed;
    contrary_ = 0;
    return true;
  }

 private:
  uint32_t healthy_after_, unhealthy_after_;
  uint32_t contrary_ = 0;
  bool healthy_ = true;
  bool decided_ = false;
};

}  // namespace sluice
