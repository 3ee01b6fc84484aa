#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

/// A read-only window onto a chunk, which it keeps alive. Any number of views may overlap, on different threads too;
/// one view belongs to one thread at a time. Move-only; `clone` is explicit and O(1).
///
///     View rest = frame.clone();
///     rest.trim_front(kHeaderBytes);
///     parse(rest.bytes());
class View {
 public:
  View() = default;
  /// Views [offset, offset + size) of `chunk`. Precondition: the range lies within the chunk, and nothing writes to it
  /// from now on.
  View(ChunkRef chunk, size_t offset, size_t size)
      : chunk_(std::move(chunk)), offset_(static_cast<uint32_t>(offset)), size_(static_cast<uint32_t>(size)) {
    SLUICE_CHECK(chunk_.has(offset, size));
  }
  /// Views memory that the caller owns and nothing changes, such as a mapped file or a literal. `release`, if not null,
  /// is called on the thread that drops the last reference. The memory is never written to. Precondition: bytes < 2^31.
  static View adopt(const void* data, size_t bytes, ReleaseFunction release, void* context = nullptr) {
    std::byte* start = static_cast<std::byte*>(const_cast<void*>(data));
    return View(ChunkRef::take(external_chunk(start, bytes, ChunkKind::kReadOnly, release, context)), 0, bytes);
  }
  View(View&& other) noexcept
      : chunk_(std::move(other.chunk_)), offset_(other.offset_), size_(std::exchange(other.size_, 0)) {}
  View& operator=(View&& other) noexcept {
    chunk_ = std::move(other.chunk_);
    offset_ = other.offset_;
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const std::byte* data() const { return size_ ? chunk_.data() + offset_ : nullptr; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }

  /// Not const: one view must not be cloned on two threads at once. That makes a sole holder's clone cheap.
  View clone() { return View(offset_, size_, chunk_.share()); }

  /// Drops the first `count` bytes. Precondition: count <= size().
  void trim_front(size_t count) {
    SLUICE_CHECK(count <= size_);
    offset_ += static_cast<uint32_t>(count);
    size_ -= static_cast<uint32_t>(count);
  }
  /// Keeps only the first `count` bytes. Precondition: count <= size().
  void truncate(size_t count) {
    SLUICE_CHECK(count <= size_);
    size_ = static_cast<uint32_t>(count);
  }
  /// Keeps at most the first `count` bytes.
  void cap_length(size_t count) {
    if (count < size_) truncate(count);
  }

 private:
  friend class Buffer;
  friend class Lease;
  /// For a range that is known to lie within the chunk.
  View(uint32_t offset, uint32_t size, ChunkRef&& chunk) : chunk_(std::move(chunk)), offset_(offset), size_(size) {}

  ChunkRef chunk_;
  uint32_t offset_ = 0;
  uint32_t size_ = 0;
};

}  // namespace sluice::inline v0_1
