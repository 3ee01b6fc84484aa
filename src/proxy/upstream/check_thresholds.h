#pragma once

#include <cstdint>

namespace sluice {

/// What the results of an endpoint's checks make of it, one after the other. It counts as healthy at first; then the
/// first result decides, and from there so many in a row that say otherwise.
class CheckThresholds {
 public:
  /// Preconditions: neither is 0.
  CheckThresholds(uint32_t healthy_after, uint32_t unhealthy_after)
      : healthy_after_(healthy_after), unhealthy_after_(unhealthy_after) {}

  bool healthy() const { return healthy_; }
  /// Results in a row that say otherwise than healthy() does.
  uint32_t contrary() const { return contrary_; }

  /// Whether this result has changed healthy().
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
