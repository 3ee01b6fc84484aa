#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <new>

namespace sluice::inline v0_1 {

// Memory for a pool's own records. A block of a page or more is a separate mapping: its pages cost memory only once
// touched and return to the system at once, whereas malloc would keep much of it after a burst.

struct MetadataDeleter {
  MetadataDeleter() : mapped_bytes(0) {}
  explicit MetadataDeleter(size_t mapped) : mapped_bytes(mapped) {}
  void operator()(void* memory) const {
    if (mapped_bytes) {
      munmap(memory, mapped_bytes);
    } else {
      ::operator delete(memory);
    }
  }
  size_t mapped_bytes;  // 0 if the memory came from operator new.
};

/// Memory for objects that are never destroyed individually.
template <typename T>
using MetadataMemory = std::unique_ptr<T[], MetadataDeleter>;

/// Allocates memory for `count` objects without constructing them. Null when there is no memory.
template <typename T>
MetadataMemory<T> allocate_metadata(size_t count) {
  static const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = count * sizeof(T);
  if (bytes < page_bytes) {
    return MetadataMemory<T>(static_cast<T*>(::operator new(bytes, std::nothrow)), MetadataDeleter());
  }
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return MetadataMemory<T>(mapped == MAP_FAILED ? nullptr : static_cast<T*>(mapped), MetadataDeleter(bytes));
}

}  // namespace sluice::inline v0_1
