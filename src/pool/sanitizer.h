#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sluice/internal/check.h"
#include "sluice/tier.h"

// The functions that report to AddressSanitizer and ThreadSanitizer what they cannot see. The references are weak:
// whether the sanitizer is there is decided when the program is linked, not when this library is compiled. So a program
// under a sanitizer gets its reports with a library that was built without one, too. Only the library's source files
// include this header; nothing that is compiled with the flags of the library's users depends on a sanitizer.
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* data, size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* data, size_t bytes);
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
}

namespace sluice::inline v0_1 {

/// Whether AddressSanitizer watches this process.
inline bool under_asan() {
  return &__asan_poison_memory_region != nullptr && &__asan_unpoison_memory_region != nullptr;
}

/// Whether ThreadSanitizer watches this process. It does not see the atomic variables that only the library's source
/// files touch, where these are not instrumented: what one thread did before __tsan_release(address), it then takes to
/// be done before what another does after __tsan_acquire(address).
inline bool under_tsan() { return &__tsan_release != nullptr && &__tsan_acquire != nullptr; }

// Free chunks are poisoned under AddressSanitizer, so that a use after the last release is reported where it happens.
// Without it these functions do nothing: chunks are never zeroed.

inline void poison(const void* data, size_t bytes) {
  if (under_asan()) __asan_poison_memory_region(data, bytes);
}
inline void unpoison(const void* data, size_t bytes) {
  if (under_asan()) __asan_unpoison_memory_region(data, bytes);
}

// The pattern at the start of a free chunk in pools that check. It is as long as the smallest chunk, so that it costs
// the same for all tiers and touches no new page.
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
