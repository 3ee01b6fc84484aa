#include "test/proxy/http/proxy/clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<int64_t> ahead_ms{0};  // Includes the skips of tests' own threads.

}  // namespace

namespace sluice::test {

void skip_time(std::chrono::milliseconds by) { ahead_ms.fetch_add(by.count(), std::memory_order_relaxed); }
void reset_time() { ahead_ms.store(0, std::memory_order_relaxed); }

}  // namespace sluice::test

// Replaces the C library's function for the whole program.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_MONOTONIC) {
    const int64_t nanoseconds = time->tv_nsec + ahead_ms.load(std::memory_order_relaxed) % 1000 * 1'000'000;
    time->tv_sec += ahead_ms.load(std::memory_order_relaxed) / 1000 + nanoseconds / 1'000'000'000;
    time->tv_nsec = nanoseconds % 1'000'000'000;
  }
  return static_cast<int>(result);
}
