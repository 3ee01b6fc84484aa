#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace sluice {

/// Makes ids that nobody else makes: bits of xoshiro256** (Blackman and Vigna), which the kernel's generator has
/// started. No system call and no lock for each; one per thread. Ids are no secrets: who sees some can tell the next.
class RandomIds {
 public:
  RandomIds();  ///< Started by getrandom(2).
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

  /// Fills `digits` with hexadecimal ones in lower case, of which at least one is not 0. Precondition: a multiple
  /// of 16.
  void fill(std::span<char> digits);

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace sluice
