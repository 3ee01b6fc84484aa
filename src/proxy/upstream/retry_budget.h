#pragma once

#include <array>
#include <cstdint>

#include "proxy/config/model/retry.h"

namespace sluice {

/// Limits retries so that they do not amplify a failure: over the last ten seconds they are at most a percentage of the
/// requests, or a small fixed number. So an upstream that fails everything gets (100 + percent) % of the clients'
/// requests, not a multiple. An endpoint that closes idle connections while requests are sent on them has not failed:
/// as long as it responds, retries of such requests come on top.
class RetryBudgetMeter {
 public:
  explicit RetryBudgetMeter(const config::RetryBudget& budget) : budget_(budget) {}

  /// Counts the first attempt of a request.
  void note_request(uint64_t now_ms) {
    turn(now_ms);
    ++slots_[second_ % kSeconds].requests;
    ++requests_;
  }
  /// Counts a response without a 5xx status.
  void note_response(uint64_t now_ms) {
    turn(now_ms);
    ++slots_[second_ % kSeconds].responses;
    ++responses_;
  }
  /// Whether the budget allows a retry.
  bool has_room(uint64_t now_ms) {
    turn(now_ms);
    return retries_ < budget_.min || (retries_ + 1) * 100 <= requests_ * budget_.percent;
  }
  /// Counts a retry if the budget allows it; returns whether it does.
  bool take(uint64_t now_ms) {
    if (!has_room(now_ms)) return false;
    ++slots_[second_ % kSeconds].retries;
    ++retries_;
    return true;
  }
  /// Like take(), for a request that an idle connection may have lost before the endpoint saw it: each successful
  /// response pays for one such retry.
  bool take_unseen(uint64_t now_ms) {
    turn(now_ms);
    if (unseen_ >= responses_) return take(now_ms);
    ++slots_[second_ % kSeconds].unseen;
    ++unseen_;
    return true;
  }

 private:
  static constexpr uint64_t kSeconds = 10;
  struct Slot {
    uint32_t requests = 0, retries = 0, responses = 0, unseen = 0;
  };

  // Drops the counts of seconds that have left the interval.
  void turn(uint64_t now_ms) {
    const uint64_t second = now_ms / 1000;
    for (uint64_t gone = 0; second_ < second && gone < kSeconds; ++gone) {
      Slot& slot = slots_[++second_ % kSeconds];
      requests_ -= slot.requests;
      retries_ -= slot.retries;
      responses_ -= slot.responses;
      unseen_ -= slot.unseen;
      slot = Slot();
    }
    second_ = second;
  }

  const config::RetryBudget budget_;
  std::array<Slot, kSeconds> slots_{};  // One for each second.
  uint64_t second_ = 0;
  uint64_t requests_ = 0, retries_ = 0, responses_ = 0, unseen_ = 0;  // Sums over the slots.
};

}  // namespace sluice
