#include "proxy/common/random_ids.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proxy/common/characters.h"
#include "sluice/internal/check.h"

namespace sluice {

RandomIds::RandomIds() {
  // getrandom(2) returns up to 256 bytes in full once the kernel's generator is initialized.
  const ssize_t got = getrandom(state_.data(), sizeof state_, 0);
  SLUICE_CHECK(got == static_cast<ssize_t>(sizeof state_));
}

namespace {

// The sixteen hexadecimal digits of `word`, the lowest one first.
Characters hex_digits(uint64_t word) {
  constexpr uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f;
  const auto low = std::bit_cast<Characters>(std::array{word & kNibbles, uint64_t{0}}),
             high = std::bit_cast<Characters>(std::array{word >> 4 & kNibbles, uint64_t{0}});
  // What SSE2 does in one instruction.
  const Characters digits = __builtin_shufflevector(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return digits + '0' + ((digits > 9) & ('a' - '9' - 1));
}

}  // namespace

void RandomIds::fill(std::span<char> digits) {
  constexpr size_t kOfWord = 16;
  SLUICE_DCHECK(digits.size() % kOfWord == 0);
  for (size_t done = 0; done < digits.size(); done += kOfWord) {
    uint64_t word = next();
    while (word == 0) word = next();
    const Characters text = hex_digits(word);
    std::memcpy(digits.data() + done, &text, kOfWord);
  }
}

}  // namespace sluice
