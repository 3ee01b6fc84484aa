#include "proxy/http/proxy/paced_refusals.h"

#include "proxy/http/proxy/phases/phase_context.h"
#include "sluice/internal/check.h"

namespace sluice {

// A request that will be refused.
struct PacedRefusals::Held final : PhaseState {
  Held(const Phase& owner, PacedRefusals& list, PhaseContext& waiting)
      : PhaseState(owner), refusals(list), exchange(waiting), since_ms(waiting.now_ms()), previous(list.last_) {
    (previous ? previous->following : list.first_) = this;
    list.last_ = this;
    ++list.held_;
  }
  ~Held() override { stop(); }
  void stop() override {
    if (listed) refusals.remove(*this);
  }

  PacedRefusals& refusals;
  PhaseContext& exchange;
  const uint64_t since_ms;
  Held* previous;
  Held* following = nullptr;
  bool listed = true;
};

PacedRefusals::~PacedRefusals() { SLUICE_CHECK(first_ == nullptr); }

void PacedRefusals::remove(Held& held) {
  (held.previous ? held.previous->following : first_) = held.following;
  (held.following ? held.following->previous : last_) = held.previous;
  held.listed = false;
  --held_;
}

bool PacedRefusals::takes_credit() {
  if (credit_ < kServedPerRefusal) return false;
  credit_ -= kServedPerRefusal;
  return true;
}

PhaseResult PacedRefusals::on_request(PhaseContext& exchange) {
  const bool may_wait = held_ < kMostHeld && !worker_.in_reserve() && !overload_.reduces();
  // Those that came before come first.
  if (!may_wait || (first_ == nullptr && takes_credit())) return PhaseResult::fail(HttpEnd::kOverload);
  exchange.make_state<Held>(*this, *this, exchange);
  exchange.hold();
  if (!timer_.armed()) worker_.timers().arm(timer_, worker_.now_ms() + kPauseMs);
  return PhaseResult::wait();
}

bool PacedRefusals::is_due(const Held& held) const {
  return worker_.now_ms() - held.since_ms >= kMostWaitMs || worker_.in_reserve() || overload_.reduces();
}

void PacedRefusals::refuse_some() {
  while (first_ != nullptr && (takes_credit() || is_due(*first_))) {
    Held& held = *first_;
    remove(held);
    held.exchange.resume(PhaseResult::fail(HttpEnd::kOverload));
  }
  if (first_ != nullptr) worker_.timers().arm(timer_, worker_.now_ms() + kPauseMs);
}

}  // namespace sluice
