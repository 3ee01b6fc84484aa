#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// A bound on the memory of several pools together, in bytes of address space with pages behind it. A pool takes from
/// it in whole slabs (256 KiB) where it would take a slab from its arena, and gives back with the slab's pages; chunks
/// that come and go do not touch it. Thread-safe. Outlives the pools that use it.
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
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  /// Precondition: they were taken.
  void give_back(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  size_t bytes() const { return bytes_; }
  size_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// How often take() met the bound. A pool that sees this grow gives back what it does not use without waiting for it
  /// to age.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  const size_t bytes_;
  std::atomic<size_t> used_{0};
  std::atomic<uint64_t> refused_{0};
};

}  // namespace sluice
