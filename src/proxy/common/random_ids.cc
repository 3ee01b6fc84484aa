#include "proxy/common/random_ids.h"

#include <sys/random.h>

#include <cstddef>

#include "sluice/internal/check.h"

namespace sluice {

RandomIds::RandomIds() {
  // getrandom(2) returns up to 256 bytes in full once the kernel's generator is initialized.
  const ssize_t got = getrandom(state_.data(), sizeof state_, 0);
  SLUICE_CHECK(got == static_cast<ssize_t>(sizeof state_));
}

void RandomIds::fill(std::span<char> digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr size_t kOfWord = 16;
  SLUICE_DCHECK(digits.size() % kOfWord == 0);
  for (size_t done = 0; done < digits.size(); done += kOfWord) {
    uint64_t word = next();
    while (word == 0) word = next();
    for (size_t i = 0; i < kOfWord; ++i) digits[done + i] = kDigits[word >> (4 * i) & 15];
  }
}

}  // namespace sluice
