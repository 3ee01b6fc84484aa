#pragma once

#include <cstddef>

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

}  // namespace sluice
