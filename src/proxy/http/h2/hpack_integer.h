// Integers of HPACK: RFC 7541 section 5.1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::hpack {

/// The most bytes that put_integer() writes for 32 bits.
inline constexpr size_t kIntegerBytes = 6;

/// Writes an integer behind a pattern in the same byte; returns what follows it.
inline std::byte* put_integer(std::byte* to, uint8_t pattern, unsigned prefix_bits, size_t value) {
  const size_t most = (size_t{1} << prefix_bits) - 1;
  if (value < most) {
    *to++ = static_cast<std::byte>(pattern | value);
    return to;
  }
  *to++ = static_cast<std::byte>(pattern | most);
  for (value -= most; value >= 128; value >>= 7) *to++ = static_cast<std::byte>(value % 128 + 128);
  *to++ = static_cast<std::byte>(value);
  return to;
}

}  // namespace sluice::hpack
