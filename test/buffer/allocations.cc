#include "test/buffer/allocations.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>

#include "test/support/sanitizers.h"

namespace {
constinit thread_local uint64_t count = 0;
}  // namespace

uint64_t sluice::test::allocations() { return count; }

#if defined(SLUICE_ASAN) || defined(__SANITIZE_THREAD__)

// A sanitizer has its own malloc, which calls back.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));

namespace {
[[maybe_unused]] const int kInstalled = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t) { ++count; }, [](const volatile void*) {});
}  // namespace

#else

// glibc's allocator under its other names. Its free, which is not replaced, accepts their memory.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t number, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

void* malloc(size_t bytes) noexcept {
  ++count;
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) noexcept {
  ++count;
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) noexcept {
  ++count;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  ++count;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  ++count;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}
}

#endif
