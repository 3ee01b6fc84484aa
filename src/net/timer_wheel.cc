#include "net/timer_wheel.h"

#include <algorithm>

#include "sluice/internal/check.h"

namespace sluice {

TimerWheel::TimerWheel(uint64_t now_ms) : now_ms_(now_ms), tick_(now_ms / kTickMs) {
  for (auto& wheel : wheels_) {
    for (Timer& head : wheel) head.next_ = head.previous_ = &head;
  }
  for_next_.next_ = for_next_.previous_ = &for_next_;
}

void TimerWheel::link(Timer& head, Timer& timer) {
  timer.previous_ = head.previous_;
  timer.next_ = &head;
  head.previous_->next_ = &timer;
  head.previous_ = &timer;
}

// Moves the timers of a list that is not empty to one that has not been used.
void TimerWheel::move(Timer& from, Timer& to) {
  to.next_ = from.next_;
  to.previous_ = from.previous_;
  to.next_->previous_ = to.previous_->next_ = &to;
  from.next_ = from.previous_ = &from;
}

void TimerWheel::arm(Timer& timer, uint64_t due_ms) {
  timer.cancel();
  // Round up, and never into the tick being fired: a timer must not fire early or twice.
  timer.due_tick_ = std::max((due_ms + kTickMs - 1) / kTickMs, tick_ + 1);
  place(timer);
}

void TimerWheel::arm_for_next(Timer& timer) {
  timer.cancel();
  link(for_next_, timer);
}

// Level n holds timers due within 64^(n+1) ticks, in slots that are 64^n ticks wide.
void TimerWheel::place(Timer& timer) {
  const uint64_t ahead = timer.due_tick_ - tick_;
  int level = 0;
  while (level < kLevels - 1 && ahead >= uint64_t{1} << (kSlotBits * (level + 1))) ++level;
  constexpr uint64_t kFarthest = (uint64_t{1} << (kSlotBits * kLevels)) - 1;
  const uint64_t tick = ahead > kFarthest ? tick_ + kFarthest : timer.due_tick_;
  const int shift = kSlotBits * level;
  link(wheels_[level][(tick >> shift) & (kSlots - 1)], timer);
  next_tick_ = std::min(next_tick_, tick >> shift << shift);
}

// Moves the timers of the current slot at `level` to the finer wheels.
void TimerWheel::cascade(int level) {
  Timer& head = wheels_[level][(tick_ >> (kSlotBits * level)) & (kSlots - 1)];
  Timer moved;
  if (empty(head)) return;
  move(head, moved);
  while (!empty(moved)) {
    Timer& timer = *moved.next_;
    timer.cancel();
    place(timer);
  }
  moved.next_ = moved.previous_ = nullptr;
}

// Those that are armed meanwhile are for the call after this one.
void TimerWheel::fire_for_next() {
  Timer due;
  move(for_next_, due);
  while (!empty(due)) {
    Timer& timer = *due.next_;
    timer.cancel();
    timer.fire_(timer.context_);
  }
  due.next_ = due.previous_ = nullptr;
}

void TimerWheel::fire_slot(Timer& slot) {
  while (!empty(slot)) {
    Timer& timer = *slot.next_;
    timer.cancel();
    if (timer.due_tick_ > tick_) {
      place(timer);  // It was due beyond the reach of the wheels.
    } else {
      timer.fire_(timer.context_);
    }
  }
}

void TimerWheel::set_now(uint64_t now_ms) {
  SLUICE_DCHECK(now_ms >= now_ms_);
  now_ms_ = now_ms;
}

void TimerWheel::advance(uint64_t now_ms) {
  set_now(now_ms);
  if (!empty(for_next_)) fire_for_next();
  const uint64_t until = now_ms / kTickMs;
  while (tick_ < until) {
    if (next_tick_ > until) {
      tick_ = until;
      return;
    }
    tick_ = std::max(tick_ + 1, next_tick_);
    for (int level = kLevels - 1; level > 0; --level) {
      if ((tick_ & ((uint64_t{1} << (kSlotBits * level)) - 1)) == 0) cascade(level);
    }
    fire_slot(wheels_[0][tick_ & (kSlots - 1)]);
    next_tick_ = find_next_tick();
  }
}

// Returns the next tick at which a non-empty slot becomes current.
uint64_t TimerWheel::find_next_tick() const {
  uint64_t soonest = UINT64_MAX;
  for (int level = 0; level < kLevels; ++level) {
    const int shift = kSlotBits * level;
    const uint64_t current = tick_ >> shift;
    // Slot `current` of a coarser level was emptied when it became current; its timers now are one revolution ahead.
    for (uint64_t step = 1; step <= kSlots; ++step) {
      if (empty(wheels_[level][(current + step) & (kSlots - 1)])) continue;
      soonest = std::min(soonest, (current + step) << shift);
      break;
    }
  }
  return soonest;
}

int64_t TimerWheel::next_ms() const {
  if (!empty(for_next_)) return 0;
  if (next_tick_ == UINT64_MAX) return -1;
  const uint64_t due_ms = next_tick_ * kTickMs;
  return due_ms > now_ms_ ? static_cast<int64_t>(due_ms - now_ms_) : 0;
}

}  // namespace sluice
