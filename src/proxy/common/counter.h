#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

/// A counter with one writer (its worker) and any number of readers. Adding is a plain add, without a locked
/// instruction.
class Counter {
 public:
  void add(uint64_t count = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  /// Takes back what add() has added: of a figure that goes up and down.
  void subtract(uint64_t count = 1) { add(-count); }
  Counter& operator++() {
    add();
    return *this;
  }
  void set(uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }
  operator uint64_t() const { return value(); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace sluice
