#pragma once

// The same as test/support/allocations.h, for a program in which another file may include that: its counter, and a
// counting malloc if no other file replaces malloc.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sluice/internal/poison.h"

namespace sluice::test {

inline std::atomic<uint64_t> allocations{0};

}  // namespace sluice::test

#if !defined(SLUICE_ASAN) && !defined(__SANITIZE_THREAD__)
extern "C" void* __libc_malloc(size_t bytes);                 // NOLINT
extern "C" void* __libc_calloc(size_t count, size_t bytes);   // NOLINT
extern "C" void* __libc_realloc(void* memory, size_t bytes);  // NOLINT

extern "C" [[gnu::weak]] void* malloc(size_t bytes) {
  sluice::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
extern "C" [[gnu::weak]] void* calloc(size_t count, size_t bytes) {
  sluice::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
extern "C" [[gnu::weak]] void* realloc(void* memory, size_t bytes) {
  sluice::test::allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, bytes);
}
#endif
