#pragma once

#include <cstddef>
#include <utility>

namespace sluice::inline v0_1 {

// Memory for a pool's own records. A block of a page or more is a separate mapping: its pages cost memory only once
// touched and return to the system at once, whereas malloc would keep much of it after a burst.

/// Allocates `bytes` of unspecified content, or returns null when there is no memory. Free it with the same number.
void* allocate_metadata_bytes(size_t bytes);
void free_metadata_bytes(void* memory, size_t bytes);

/// The sole owner of memory for objects that are never destroyed individually. Move-only.
template <typename T>
class MetadataMemory {
 public:
  MetadataMemory() = default;
  /// Memory for `count` objects, which are not constructed. Empty when there is no memory.
  explicit MetadataMemory(size_t count)
      : objects_(static_cast<T*>(allocate_metadata_bytes(count * sizeof(T)))), bytes_(count * sizeof(T)) {}
  MetadataMemory(MetadataMemory&& other) noexcept
      : objects_(std::exchange(other.objects_, nullptr)), bytes_(other.bytes_) {}
  MetadataMemory& operator=(MetadataMemory&& other) noexcept {
    MetadataMemory old(std::move(*this));
    objects_ = std::exchange(other.objects_, nullptr);
    bytes_ = other.bytes_;
    return *this;
  }
  ~MetadataMemory() {
    if (objects_) free_metadata_bytes(objects_, bytes_);
  }

  explicit operator bool() const { return objects_ != nullptr; }
  T* get() const { return objects_; }
  T& operator[](size_t index) const { return objects_[index]; }
  /// Leaves the memory to the caller.
  T* release() { return std::exchange(objects_, nullptr); }

 private:
  T* objects_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace sluice::inline v0_1
