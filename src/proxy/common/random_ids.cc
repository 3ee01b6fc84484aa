#include "proxy/common/random_ids.h"

#include <sys/random.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sluice/internal/check.h"

namespace sluice {

RandomIds::RandomIds() {
  // getrandom(2) returns up to 256 bytes in full once the kernel's generator is initialized.
  const ssize_t got = getrandom(state_.data(), sizeof state_, 0);
  SLUICE_CHECK(got == static_cast<ssize_t>(sizeof state_));
}

namespace {

// The hexadecimal digits of `value`, the lowest one in the lowest byte.
constexpr uint64_t hex_digits(uint32_t value) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  uint64_t digits = value;
  digits = (digits | digits << 16) & 0x0000ffff0000ffff;
  digits = (digits | digits << 8) & 0x00ff00ff00ff00ff;
  digits = (digits | digits << 4) & 0x0f0f0f0f0f0f0f0f;
  const uint64_t letters = (digits + 6 * kOnes) >> 4 & kOnes;  // 1 in the bytes of digits above 9.
  return digits + '0' * kOnes + ('a' - '9' - 1) * letters;
}
static_assert(hex_digits(0xfa907812) == 0x6661'3930'3738'3132);

}  // namespace

void RandomIds::fill(std::span<char> digits) {
  constexpr size_t kOfWord = 16;
  SLUICE_DCHECK(digits.size() % kOfWord == 0);
  for (size_t done = 0; done < digits.size(); done += kOfWord) {
    uint64_t word = next();
    while (word == 0) word = next();
    const std::array text{hex_digits(static_cast<uint32_t>(word)), hex_digits(static_cast<uint32_t>(word >> 32))};
    std::memcpy(digits.data() + done, text.data(), kOfWord);
  }
}

}  // namespace sluice
