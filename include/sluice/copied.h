#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice::inline v0_1 {

/// Payload bytes that this thread has copied in user space since it started (`sluice_copied_bytes_total`). Plain
/// forwarding copies none.
inline constinit thread_local uint64_t copied_bytes = 0;

/// memcpy with a byte count. Every payload copy goes through it. The ranges must not overlap.
inline void counted_copy(void* to, const void* from, size_t bytes) {
  copied_bytes += bytes;
  std::memcpy(to, from, bytes);
}

/// Copies the first and the last word of a range; the two words may overlap. Precondition: sizeof(Word) <= bytes <= 2 *
/// sizeof(Word).
template <typename Word>
void copy_ends(void* to, const void* from, size_t bytes) {
  const size_t rest = bytes - sizeof(Word);
  Word first, last;
  std::memcpy(&first, from, sizeof(Word));
  std::memcpy(&last, static_cast<const std::byte*>(from) + rest, sizeof(Word));
  std::memcpy(to, &first, sizeof(Word));
  std::memcpy(static_cast<std::byte*>(to) + rest, &last, sizeof(Word));
}

/// Like counted_copy, for sizes that are usually small, such as a header's. Up to 16 bytes take two word copies, which
/// is less than libc needs to dispatch on the size. Precondition: bytes > 0.
inline void counted_copy_few(void* to, const void* from, size_t bytes) {
  if (bytes > 16) [[unlikely]]
    return counted_copy(to, from, bytes);
  copied_bytes += bytes;
  if (bytes >= 8) {
    copy_ends<uint64_t>(to, from, bytes);
  } else if (bytes >= 4) {
    copy_ends<uint32_t>(to, from, bytes);
  } else if (bytes >= 2) {
    copy_ends<uint16_t>(to, from, bytes);
  } else {
    copy_ends<uint8_t>(to, from, bytes);
  }
}

}  // namespace sluice::inline v0_1
