#include "sluice/internal/metadata_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace sluice::inline v0_1 {

namespace {

bool is_mapped(size_t bytes) {
  static const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes >= page_bytes;
}

}  // namespace

void* allocate_metadata_bytes(size_t bytes) {
  if (!is_mapped(bytes)) return ::operator new(bytes, std::nothrow);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

void free_metadata_bytes(void* memory, size_t bytes) {
  if (is_mapped(bytes)) {
    munmap(memory, bytes);
  } else {
    ::operator delete(memory);
  }
}

}  // namespace sluice::inline v0_1
