#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <new>

namespace sluice {

// Memory for a pool's own records. A page or more is a mapping of its own, of which pages cost memory only once touched
// and which goes back to the system at once: after a burst malloc would keep much of it.

struct FreeOwnMemory {
  FreeOwnMemory() : mapped_bytes(0) {}
  explicit FreeOwnMemory(size_t mapped) : mapped_bytes(mapped) {}
  void operator()(void* memory) const {
    if (mapped_bytes) {
      munmap(memory, mapped_bytes);
    } else {
      ::operator delete(memory);
    }
  }
  size_t mapped_bytes;  // Or 0.
};

/// Room for objects that are never destroyed one by one.
template <typename T>
using MetadataMemory = std::unique_ptr<T[], FreeOwnMemory>;

/// Room for `count` objects, none of which is begun; null when there is no memory.
template <typename T>
MetadataMemory<T> own_memory(size_t count) {
  static const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = count * sizeof(T);
  if (bytes < page_bytes) {
    return MetadataMemory<T>(static_cast<T*>(::operator new(bytes, std::nothrow)), FreeOwnMemory());
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return MetadataMemory<T>(mapped == MAP_FAILED ? nullptr : static_cast<T*>(mapped), FreeOwnMemory(bytes));
}

}  // namespace sluice
