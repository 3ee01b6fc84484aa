#pragma once

#include <cstddef>
#include <cstdint>

#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/overload/worker_overload.h"

namespace sluice {

/// The requests that a worker refuses because it is overloaded: when each gets its response.
///
/// A refusal costs a good part of what it costs to serve a small request. If each were sent at once, a client that
/// sends the next request as soon as it has the response would make the worker do little else. So at most one refusal
/// is sent for each kServedPerRefusal requests that are admitted. The others wait, first in, first out, for kMostWaitMs
/// at most: then a connection of HTTP/1.1 causes no more than one refusal in that time.
///
/// They are held by their exchanges, so there are no more than connections and their streams admit. While memory is
/// short, nothing waits.
class PacedRefusals final : public Phase {
 public:
  static constexpr uint64_t kServedPerRefusal = 8;
  static constexpr uint64_t kMostWaitMs = 1000;
  /// More do not wait.
  static constexpr size_t kMostHeld = 20'000;

  PacedRefusals(Worker& worker, WorkerOverload& overload) : worker_(worker), overload_(overload) {}
  ~PacedRefusals() override;

  /// A request was admitted while others are refused.
  void note_admitted() {
    if (credit_ < kMostCredit) ++credit_;
  }
  /// The request is refused: now, or after a wait.
  PhaseResult on_request(PhaseContext& exchange) override;
  size_t held() const { return held_; }

 private:
  // In admitted requests. The first refusals are sent at once, so that a short overload is like one without a pace.
  static constexpr uint64_t kMostCredit = kServedPerRefusal * 64;
  static constexpr uint64_t kPauseMs = 10;
  struct Held;

  bool takes_credit();
  bool is_due(const Held& held) const;
  void refuse_some();
  void remove(Held& held);

  Worker& worker_;
  WorkerOverload& overload_;
  Timer timer_{[](void* self) { static_cast<PacedRefusals*>(self)->refuse_some(); }, this};
  Held* first_ = nullptr;
  Held* last_ = nullptr;
  size_t held_ = 0;
  uint64_t credit_ = kMostCredit;
};

}  // namespace sluice
