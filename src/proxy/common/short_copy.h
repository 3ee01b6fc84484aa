#pragma once

#include <cstddef>
#include <cstring>

namespace sluice {

namespace internal {

// Of at least one block and at most two, which overlap where there are less.
template <size_t block>
[[gnu::always_inline]] inline void copy_two_blocks(char* to, const char* from, size_t bytes) {
  char first[block], last[block];
  std::memcpy(first, from, block);
  std::memcpy(last, from + bytes - block, block);
  std::memcpy(to, first, block);
  std::memcpy(to + bytes - block, last, block);
}

}  // namespace internal

/// Copies like memcpy(), but up to 32 bytes, as nearly all names and most values of fields have, without a call. `from`
/// may be null if there are no bytes.
[[gnu::always_inline]] inline void copy_short(void* to, const void* from, size_t bytes) {
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  if (bytes > 32) [[unlikely]] {
    std::memcpy(target, source, bytes);
  } else if (bytes >= 16) {
    internal::copy_two_blocks<16>(target, source, bytes);
  } else if (bytes >= 8) {
    internal::copy_two_blocks<8>(target, source, bytes);
  } else if (bytes >= 4) {
    internal::copy_two_blocks<4>(target, source, bytes);
  } else if (bytes >= 2) {
    internal::copy_two_blocks<2>(target, source, bytes);
  } else if (bytes == 1) {
    *target = *source;
  }
}

}  // namespace sluice
