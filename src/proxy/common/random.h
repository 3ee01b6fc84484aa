#pragma once

#include <cstdint>

namespace sluice {

/// A fast generator of random numbers for choices that need not be unpredictable: xorshift64*. Not for secrets.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}

  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }
  /// A number below `bound`. Precondition: bound > 0.
  uint64_t below(uint64_t bound) { return (next() >> 11) % bound; }

 private:
  uint64_t state_;
};

}  // namespace sluice
