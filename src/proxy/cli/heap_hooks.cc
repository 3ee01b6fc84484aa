// Hooks of the program's heap for profiles of allocations. They are in the program alone: the library leaves the heap
// of the program that uses it as it is, and under a sanitizer the heap is the sanitizer's. The linker makes what the
// program calls as malloc() a call of __wrap_malloc(), and so on (--wrap, see src/CMakeLists.txt); the functions
// themselves stay those of the C library, or of a library that is preloaded in its place. Shared libraries call those
// directly.
//
// While no profile is in progress, that is a load and a branch for each allocation.

#include <cstddef>
#include <cstdlib>
#include <new>

#include "proxy/profile/allocation_sampler.h"

extern "C" {
void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_realloc(void* memory, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);

void* __wrap_malloc(size_t bytes) {
  if (sluice::AllocationSampler::samples_heap()) [[unlikely]]
    sluice::AllocationSampler::note_heap(bytes, __builtin_return_address(0));
  return __real_malloc(bytes);
}

void* __wrap_calloc(size_t count, size_t bytes) {
  if (sluice::AllocationSampler::samples_heap()) [[unlikely]] {
    size_t all = 0;
    if (!__builtin_mul_overflow(count, bytes, &all))
      sluice::AllocationSampler::note_heap(all, __builtin_return_address(0));
  }
  return __real_calloc(count, bytes);
}

// Counts as an allocation of the new size.
void* __wrap_realloc(void* memory, size_t bytes) {
  if (sluice::AllocationSampler::samples_heap()) [[unlikely]]
    sluice::AllocationSampler::note_heap(bytes, __builtin_return_address(0));
  return __real_realloc(memory, bytes);
}

void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  if (sluice::AllocationSampler::samples_heap()) [[unlikely]]
    sluice::AllocationSampler::note_heap(bytes, __builtin_return_address(0));
  return __real_aligned_alloc(alignment, bytes);
}
}

namespace {

// Until there is memory, or no handler that could make some.
template <class Allocate>
void* allocate_or_throw(Allocate allocate) {
  while (true) {
    if (void* const memory = allocate()) [[likely]]
      return memory;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

// The library's other forms of new and delete call these.

void* operator new(size_t bytes) {
  return allocate_or_throw([bytes] { return std::malloc(bytes == 0 ? 1 : bytes); });
}

void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  // aligned_alloc() takes multiples only.
  return allocate_or_throw(
      [=] { return std::aligned_alloc(align, bytes == 0 ? align : (bytes + align - 1) & ~(align - 1)); });
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
