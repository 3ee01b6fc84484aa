#pragma once

// Counts the process's heap allocations. Include it in one source file of a program: it replaces malloc and similar
// functions. Under a sanitizer, which has its own malloc, nothing is counted and `kAllocationsCounted` is false.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "test/support/sanitizers.h"

namespace sluice::test {

inline std::atomic<uint64_t> allocations{0};

#if defined(SLUICE_ASAN) || defined(__SANITIZE_THREAD__)
inline constexpr bool kAllocationsCounted = false;
#else
inline constexpr bool kAllocationsCounted = true;
#endif

}  // namespace sluice::test

#if !defined(SLUICE_ASAN) && !defined(__SANITIZE_THREAD__)
// glibc's own names for the replaced functions.
extern "C" void* __libc_malloc(size_t bytes);                 // NOLINT
extern "C" void* __libc_calloc(size_t count, size_t bytes);   // NOLINT
extern "C" void* __libc_realloc(void* memory, size_t bytes);  // NOLINT

extern "C" void* malloc(size_t bytes) {
  sluice::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
extern "C" void* calloc(size_t count, size_t bytes) {
  sluice::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* memory, size_t bytes) {
  sluice::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, bytes);
}
#endif
