#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pool/check.h"
#include "pool/tier.h"

#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ASAN 1
#endif
#endif

#ifdef SLUICE_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace sluice {

// Free chunks are poisoned under AddressSanitizer, so that a use after the last reference is reported where it happens.
// In other builds these are nothing: chunks are never zeroed.

inline void poison([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#ifdef SLUICE_ASAN
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}

inline void unpoison([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#ifdef SLUICE_ASAN
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

// What lies at the beginning of a free chunk in debug builds. No more than the smallest chunk has: it costs the same
// for all, and touches no page that was not touched.
inline constexpr std::byte kFreePattern{0xdb};

inline void write_pattern(std::byte* data) { std::memset(data, static_cast<int>(kFreePattern), kMinChunkBytes); }

/// Ends the process when somebody wrote to a free chunk. Zeros are right too: its page was given back meanwhile.
inline void check_pattern(const std::byte* data) {
  const std::byte first = data[0];
  bool written_to_after_its_last_reference = first != kFreePattern && first != std::byte{0};
  for (size_t i = 1; i < kMinChunkBytes; ++i) written_to_after_its_last_reference |= data[i] != first;
  SLUICE_CHECK(!written_to_after_its_last_reference);
}

}  // namespace sluice
