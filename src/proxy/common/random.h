#pragma once

#include <cstdint>

namespace sluice {

/// Random numbers for choices that nobody has a reason to guess: xorshift64*, whose speed and spread are all that is
/// asked of it.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}

  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1d;
  }
  /// Less than `bound`. Precondition: bound > 0.
  uint64_t below(uint64_t bound) { return (next() >> 11) % bound; }

 private:
  uint64_t state_;
};

}  // namespace sluice
