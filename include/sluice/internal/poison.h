#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sluice/internal/check.h"
#include "sluice/tier.h"

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

namespace sluice::inline v0_1 {

// Free chunks are poisoned under AddressSanitizer, so that a use after the last release is reported where it happens.
// In other builds these functions do nothing: chunks are never zeroed.

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

// The pattern at the start of a free chunk in debug builds. It is as long as the smallest chunk, so that it costs the
// same for all tiers and touches no new page.
inline constexpr std::byte kFreePattern{0xdb};

inline void write_pattern(std::byte* data) { std::memset(data, static_cast<int>(kFreePattern), kMinChunkBytes); }

/// Aborts if a free chunk was written to. Zeros are valid too: the chunk's pages may have been returned to the system.
inline void check_pattern(const std::byte* data) {
  const std::byte first = data[0];
  bool written_to_after_its_last_reference = first != kFreePattern && first != std::byte{0};
  for (size_t i = 1; i < kMinChunkBytes; ++i) written_to_after_its_last_reference |= data[i] != first;
  SLUICE_CHECK(!written_to_after_its_last_reference);
}

}  // namespace sluice::inline v0_1
