// Copies and comparisons of texts that are mostly short, as names and values of fields are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

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

template <typename Word>
[[gnu::always_inline]] inline Word difference_at(const char* a, const char* b) {
  Word first, second;
  std::memcpy(&first, a, sizeof first);
  std::memcpy(&second, b, sizeof second);
  return first ^ second;
}

// Of at least one word.
template <typename Word>
[[gnu::always_inline]] inline bool equal_words(const char* a, const char* b, size_t bytes) {
  Word different = difference_at<Word>(a + bytes - sizeof(Word), b + bytes - sizeof(Word));
  for (size_t at = 0; at + sizeof(Word) < bytes; at += sizeof(Word)) {
    different = static_cast<Word>(different | difference_at<Word>(a + at, b + at));
  }
  return different == 0;
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

/// Compares like ==, but up to 32 bytes without a call.
[[gnu::always_inline]] inline bool equal_short(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  if (a.size() > 32) [[unlikely]]
    return std::memcmp(a.data(), b.data(), a.size()) == 0;
  if (a.size() >= 8) return internal::equal_words<uint64_t>(a.data(), b.data(), a.size());
  if (a.size() >= 4) return internal::equal_words<uint32_t>(a.data(), b.data(), a.size());
  return a.empty() || internal::equal_words<uint8_t>(a.data(), b.data(), a.size());
}

}  // namespace sluice
