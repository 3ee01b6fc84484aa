#pragma once

#include <openssl/mem.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice {

/// An allocator that wipes memory before it frees it.
template <typename T>
struct WipingAllocator {
  using value_type = T;
  WipingAllocator() = default;
  template <typename U>
  explicit WipingAllocator(const WipingAllocator<U>&) {}
  T* allocate(size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* memory, size_t count) {
    OPENSSL_cleanse(memory, count * sizeof(T));
    std::allocator<T>().deallocate(memory, count);
  }
  bool operator==(const WipingAllocator&) const { return true; }
};

/// Bytes that hold keys. Their memory is wiped when it is freed, also when the vector grows.
using SecretBytes = std::vector<uint8_t, WipingAllocator<uint8_t>>;

}  // namespace sluice
