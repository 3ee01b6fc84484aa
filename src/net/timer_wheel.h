#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

class TimerWheel;

/// A timer embedded in the object that it wakes. Not copyable; canceled when destroyed.
///
///     Timer timer{[](void* self) { static_cast<Session*>(self)->on_timeout(); }, this};
///     wheel.arm(timer, wheel.now_ms() + 5'000);
class Timer {
 public:
  using Fire = void (*)(void* context);
  Timer(Fire fire, void* context) : fire_(fire), context_(context) {}
  ~Timer() { cancel(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  bool armed() const { return next_ != nullptr; }
  void cancel();

 private:
  friend class TimerWheel;
  Timer() = default;  // A list head.
  Timer* next_ = nullptr;
  Timer* previous_ = nullptr;
  uint64_t due_tick_ = 0;
  Fire fire_ = nullptr;
  void* context_ = nullptr;
};

/// Timers in four wheels of 64 slots with a finest tick of 4 ms. Arming and canceling are O(1) and allocate nothing. A
/// timer fires at its deadline or up to one tick later, never earlier. The wheels reach about 18 hours ahead; timers
/// due later wait at their end and are placed again from there.
class TimerWheel {
 public:
  static constexpr uint64_t kTickMs = 4;

  explicit TimerWheel(uint64_t now_ms);

  /// Arms or re-arms `timer` for `due_ms`, on the clock that `advance` uses.
  void arm(Timer& timer, uint64_t due_ms);
  /// Arms or re-arms `timer` for the next call of `advance`, however soon that is.
  void arm_for_next(Timer& timer);

  /// Sets the current time without firing timers. The loop calls it when a wait ends, before it handles the
  /// completions: a timeout counts from the event, not from before the wait.
  void set_now(uint64_t now_ms);
  /// Fires the timers due at `now_ms`. A timer may arm or cancel any timer, itself included, and may destroy its owner.
  void advance(uint64_t now_ms);
  uint64_t now_ms() const { return now_ms_; }

  /// Milliseconds until `advance` may have something to do, or -1 if no timer is armed. May be early (a timer was
  /// canceled or only moves to a finer wheel), never late. After `advance` it is 0 only if a timer is armed for the
  /// next call. O(1).
  int64_t next_ms() const;

 private:
  static constexpr int kLevels = 4;
  static constexpr int kSlotBits = 6;
  static constexpr uint64_t kSlots = 1 << kSlotBits;

  void place(Timer& timer);
  void cascade(int level);
  void fire_for_next();
  void fire_slot(Timer& slot);
  uint64_t find_next_tick() const;
  static bool empty(const Timer& head) { return head.next_ == &head; }
  static void link(Timer& head, Timer& timer);
  static void move(Timer& from, Timer& to);

  // List heads. Emptiness is read from the heads; Timer::cancel would have to maintain a bitmap.
  Timer wheels_[kLevels][kSlots];
  Timer for_next_;
  uint64_t now_ms_;
  uint64_t tick_;                    // The last tick fired.
  uint64_t next_tick_ = UINT64_MAX;  // No slot with timers becomes current before this tick.
};

inline void Timer::cancel() {
  if (next_ == nullptr) return;
  previous_->next_ = next_;
  next_->previous_ = previous_;
  next_ = previous_ = nullptr;
}

}  // namespace sluice
