// The clock of workers whose loop a test runs: the real one plus an offset which the test changes. A worker reads its
// clock once per turn, when its wait has ended, so it perceives a jump between two turns as a long sleep.
//
// With SLUICE_TEST_CLOCK_JUMPS=1 the clock also jumps by itself at each wait that took real time: nearly to the next
// timer, but at most kLongestJumpMs. A worker that sleeps until its next timer and is woken by a socket just before it
// reads such times. Timeouts then expire after few turns, whatever their length.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "net/timer_wheel.h"
#include "net/worker.h"

namespace sluice::test {

class TestClock {
 public:
  static constexpr uint64_t kLongestJumpMs = 5000;
  /// A wait of at least this long counts as one that took real time.
  static constexpr uint64_t kRealWaitMs = 1;

  /// For Worker::Options::clock_us.
  static uint64_t now_us() {
    const uint64_t real_us = monotonic_us();
    if (jumps()) jump_to_next_timer(real_us / 1000);
    return real_us + ahead_ms_.load() * 1000;
  }
  /// Moves the clock forward; from any thread, also while a worker waits.
  static void jump(uint64_t ms) { ahead_ms_.fetch_add(ms); }
  static bool jumps() {
    static const bool value = [] {
      const char* text = getenv("SLUICE_TEST_CLOCK_JUMPS");
      return text != nullptr && std::strcmp(text, "1") == 0;
    }();
    return value;
  }

 private:
  static void jump_to_next_timer(uint64_t real_ms) {
    const uint64_t waited_ms = real_ms - std::exchange(last_real_ms_, real_ms);
    Worker* const worker = Worker::current();  // Null while one is being opened.
    if (worker == nullptr || waited_ms < kRealWaitMs) return;
    // From the previous turn: the time since then is part of the jump.
    const int64_t next_ms = worker->timers().next_ms();
    const uint64_t room_ms = next_ms < 0 ? kLongestJumpMs : static_cast<uint64_t>(next_ms);
    const uint64_t spent_ms = waited_ms + TimerWheel::kTickMs;
    if (room_ms > spent_ms) jump(std::min(room_ms - spent_ms, kLongestJumpMs));
  }

  static inline std::atomic<uint64_t> ahead_ms_{0};
  static inline thread_local uint64_t last_real_ms_ = UINT64_MAX;
};

}  // namespace sluice::test
