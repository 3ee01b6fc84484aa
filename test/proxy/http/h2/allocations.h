#pragma once

// The same as test/support/allocations.h, for a program in which another file may include that: its counter, and a
// counting malloc if no other file replaces malloc.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "test/support/sanitizers.h"

namespace sluice::test {

inline std::atomic<uint64_t> allocations{0};

/// The fewest allocations during 100 calls, of ten rounds: another thread may allocate now and then.
template <class Call>
uint64_t allocations_of_calls(const Call& call) {
  uint64_t fewest = UINT64_MAX;
  for (int round = 0; round < 10; ++round) {
    const uint64_t before = allocations;
    for (int i = 0; i < 100; ++i) call();
    fewest = std::min<uint64_t>(fewest, allocations - before);
  }
  return fewest;
}

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
