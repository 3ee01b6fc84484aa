#pragma once

#include <array>
#include <cstdint>

#include "proxy/config/model/retry.h"

namespace sluice {

/// What keeps repetitions from making a failure worse: of the last ten seconds, they are at most a share of the
/// requests, or a small number. So an upstream that fails all gets (100 + percent) % of what clients ask, and not a
/// multiple. An endpoint that closes kept connections under requests has not failed by that: as long as it answers,
/// those come on top.
class RetryBudgetMeter {
 public:
  explicit RetryBudgetMeter(const config::RetryBudget& budget) : budget_(budget) {}

  /// A request is sent for the first time.
  void note_request(uint64_t now_ms) {
    turn(now_ms);
    ++slots_[second_ % kSeconds].requests;
    ++requests_;
  }
  /// A request was answered, with no 5xx.
  void note_answer(uint64_t now_ms) {
    turn(now_ms);
    ++slots_[second_ % kSeconds].answers;
    ++answers_;
  }
  /// Whether one may be sent once more.
  bool has_room(uint64_t now_ms) {
    turn(now_ms);
    return retries_ < budget_.min || (retries_ + 1) * 100 <= requests_ * budget_.percent;
  }
  /// The same; then it counts.
  bool take(uint64_t now_ms) {
    if (!has_room(now_ms)) return false;
    ++slots_[second_ % kSeconds].retries;
    ++retries_;
    return true;
  }
  /// The same for one that a kept connection has perhaps lost before anybody saw it: each answer pays for one.
  bool take_unseen(uint64_t now_ms) {
    turn(now_ms);
    if (unseen_ >= answers_) return take(now_ms);
    ++slots_[second_ % kSeconds].unseen;
    ++unseen_;
    return true;
  }

 private:
  static constexpr uint64_t kSeconds = 10;
  struct Slot {
    uint32_t requests = 0, retries = 0, answers = 0, unseen = 0;
  };

  // Forgets the seconds that are over.
  void turn(uint64_t now_ms) {
    const uint64_t second = now_ms / 1000;
    for (uint64_t gone = 0; second_ < second && gone < kSeconds; ++gone) {
      Slot& slot = slots_[++second_ % kSeconds];
      requests_ -= slot.requests;
      retries_ -= slot.retries;
      answers_ -= slot.answers;
      unseen_ -= slot.unseen;
      slot = Slot();
    }
    second_ = second;
  }

  const config::RetryBudget& budget_;
  std::array<Slot, kSeconds> slots_{};  // One a second.
  uint64_t second_ = 0;
  uint64_t requests_ = 0, retries_ = 0, answers_ = 0, unseen_ = 0;  // Sums of the slots.
};

}  // namespace sluice
