#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice::inline v0_1 {

/// Called with `high` true when memory becomes scarce, and with false when enough is available.
using PressureFunction = void (*)(void* context, bool high);

/// A memory bound that several pools share, in bytes of address space backed by pages. A pool takes from it in whole
/// slabs (256 KiB) when it takes a slab from its arena, and gives back when it returns the slab's pages. Handing out or
/// releasing a single chunk does not touch the budget. All functions are thread-safe. The budget must outlive the pools
/// that use it.
///
///     Budget all(size_t{1} << 30);
///     ChunkPool a({.budget_bytes = 768 << 20, .shared = &all}), b({.budget_bytes = 768 << 20, .shared = &all});
class Budget {
 public:
  explicit Budget(size_t bytes) : bytes_(bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Takes `bytes` and returns true, or takes nothing and returns false if that would exceed the bound.
  [[nodiscard]] bool take(size_t bytes) {
    size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_ || used > bytes_ - bytes) {
        refused_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!used_.compare_exchange_weak(used, used + bytes));
    if (used + bytes > high_ && !pressed_) [[unlikely]]
      update_pressure();
    return true;
  }
  /// Precondition: the bytes were taken.
  void give_back(size_t bytes) {
    if (used_.fetch_sub(bytes) - bytes < low_ && pressed_) [[unlikely]]
      update_pressure();
  }

  /// Sets the pressure callback. It runs with `high` true when used_bytes() rises above `high_bytes`, then with false
  /// when used_bytes() falls below `low_bytes`, and so on alternately; two calls never overlap. It runs on the thread
  /// whose take or give_back crossed the mark, or on this thread if the high mark is exceeded already. The callback
  /// must not use this budget or a pool that does: it may set a flag or wake the workers, which then stop reading. A
  /// null function removes the callback. When this returns, the previous callback is not running. Precondition:
  /// low_bytes <= high_bytes.
  void set_pressure(size_t high_bytes, size_t low_bytes, PressureFunction function, void* context);
  /// Whether the high mark was crossed and the low mark has not been crossed since.
  bool pressed() const { return pressed_; }

  size_t bytes() const { return bytes_; }
  size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// Number of failed take() calls. A pool that sees this number grow gives back its unused memory without waiting for
  /// it to age.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  /// Bytes that take() would still grant.
  size_t available_bytes() const {
    const size_t used = used_bytes();
    return used < bytes_ ? bytes_ - used : 0;
  }

  // For pools that lend memory to one another (BudgetShare), which keep these.

  /// Of the bytes in use, those that pools have beyond what they are guaranteed.
  size_t borrowed_bytes() const { return borrowed_.load(std::memory_order_relaxed); }
  /// The bytes that pools are guaranteed, need, and do not have yet.
  size_t claimed_bytes() const { return claimed_.load(std::memory_order_relaxed); }
  /// Adds `bytes` modulo 2^64, so that a negative change can be added, too.
  void change_borrowed(size_t bytes) { borrowed_.fetch_add(bytes, std::memory_order_relaxed); }
  void change_claimed(size_t bytes) { claimed_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  void update_pressure();

  const size_t bytes_;
  std::atomic<size_t> used_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<size_t> borrowed_{0}, claimed_{0};
  std::atomic<size_t> high_{SIZE_MAX};
  std::atomic<size_t> low_{0};
  std::atomic<bool> pressed_{false};
  // Held while the fields below change and while the callback runs. Locked only when a mark is crossed. Not std::mutex,
  // because <mutex> costs all who include this header compile time.
  pthread_mutex_t marks_ = PTHREAD_MUTEX_INITIALIZER;
  PressureFunction pressure_ = nullptr;
  void* pressure_context_ = nullptr;
};

}  // namespace sluice::inline v0_1
