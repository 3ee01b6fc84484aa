#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace sluice {

/// Hears that memory has become scarce (`high`), or has ceased to be.
using PressureFunction = void (*)(void* context, bool high);

/// A bound on the memory of several pools together, in bytes of address space with pages behind it. A pool takes from
/// it in whole slabs (256 KiB) where it would take a slab from its arena, and gives back with the slab's pages; chunks
/// that come and go do not touch it. Thread-safe, every call of it. Outlives the pools that use it.
///
///     Budget all(size_t{1} << 30);
///     ChunkPool a({.budget_bytes = 768 << 20, .shared = &all}), b({.budget_bytes = 768 << 20, .shared = &all});
class Budget {
 public:
  explicit Budget(size_t bytes) : bytes_(bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Takes `bytes`, or nothing and returns false when that would exceed the bound.
  [[nodiscard]] bool take(size_t bytes) {
    size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > bytes_ || used > bytes_ - bytes) {
        refused_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!used_.compare_exchange_weak(used, used + bytes));
    if (used + bytes > high_ && !pressed_) [[unlikely]]
      look_at_marks();
    return true;
  }
  /// Precondition: they were taken.
  void give_back(size_t bytes) {
    if (used_.fetch_sub(bytes) - bytes < low_ && pressed_) [[unlikely]]
      look_at_marks();
  }

  /// Called with `high` true once used_bytes() has risen above `high_bytes`, and then with false once it has fallen
  /// below `low_bytes`; and so on, in turns, never two calls at once. On the thread that took or gave back what did it,
  /// or on this one if the mark is passed already. It must not use this budget or a pool that does: it sets a flag, or
  /// wakes the workers, which stop reading. A null function ends it; when this returns, the one before is not running.
  /// Precondition: low_bytes <= high_bytes.
  void set_pressure(size_t high_bytes, size_t low_bytes, PressureFunction function, void* context);
  /// Whether the high mark was passed, and the low one not yet.
  bool pressed() const { return pressed_; }

  size_t bytes() const { return bytes_; }
  size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// How often take() met the bound. A pool that sees this grow gives back what it does not use without waiting for it
  /// to age.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  void look_at_marks();

  const size_t bytes_;
  std::atomic<size_t> used_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<size_t> high_{SIZE_MAX};
  std::atomic<size_t> low_{0};
  std::atomic<bool> pressed_{false};
  std::mutex marks_;  // Whoever changes what follows, or calls it. Taken only where a mark is passed.
  PressureFunction pressure_ = nullptr;
  void* pressure_context_ = nullptr;
};

}  // namespace sluice
