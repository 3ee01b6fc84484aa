#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace sluice {

/// Makes unique ids from the bits of xoshiro256** (Blackman and Vigna), seeded by the kernel's generator. An id takes
/// no system call and no lock; use one object per thread. Ids are not secret: an observer of some can predict the next.
class RandomIds {
 public:
  RandomIds();  ///< Seeds the state with getrandom(2).
  explicit constexpr RandomIds(const std::array<uint64_t, 4>& state) : state_(state) {}

  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9, shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Fills `digits` with lower-case hexadecimal digits, at least one of which is not 0. Precondition: the size is a
  /// multiple of 16.
  void fill(std::span<char> digits);

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace sluice
