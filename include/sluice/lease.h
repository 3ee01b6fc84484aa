#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"
#include "sluice/view.h"

namespace sluice::inline v0_1 {

/// A writable window onto a chunk. Its bytes belong to it alone, even if other windows share the chunk: exclusivity is
/// per byte range, and the chunk's reference count covers lifetime only. Move-only. It cannot be cloned: `freeze` it
/// first.
///
///     Lease lease = Lease::allocate(pool, 1500);
///     if (!lease) return wait_for_memory();
///     lease.grow_back(read(fd, lease.data(), lease.tailroom()));
///     buffer.append(std::move(lease));
class Lease {
 public:
  Lease() = default;
  /// Leases [offset, offset + size) of `chunk`. Precondition: the range lies within the chunk, which is writable and
  /// has no other reference.
  Lease(ChunkRef chunk, size_t offset, size_t size)
      : chunk_(std::move(chunk)), offset_(static_cast<uint32_t>(offset)), size_(static_cast<uint32_t>(size)) {
    SLUICE_CHECK(chunk_.has(offset, size) && (!chunk_ || chunk_.writable()));
  }
  /// Leases a range of a chunk that others refer to, for a caller that tracks the ranges itself, such as a ring whose
  /// buffers the kernel fills piece by piece. Takes over one reference. Precondition: no other window overlaps the
  /// range, now or later.
  static Lease of_range(Chunk* chunk, size_t offset, size_t size) {
    Lease lease;
    lease.chunk_ = ChunkRef::take(chunk);
    SLUICE_CHECK(chunk && chunk->kind != ChunkKind::kReadOnly && lease.chunk_.has(offset, size));
    lease.offset_ = static_cast<uint32_t>(offset);
    lease.size_ = static_cast<uint32_t>(size);
    return lease;
  }
  /// Returns an empty lease on a fresh chunk, with `headroom` bytes before it and at least `bytes` of tailroom. The
  /// lease converts to false if the pool's budget is used up. Precondition: headroom + bytes <= kMaxChunkBytes.
  static Lease allocate(ChunkPool& pool, size_t bytes, size_t headroom = 0) {
    SLUICE_CHECK(headroom <= kMaxChunkBytes && bytes <= kMaxChunkBytes - headroom);
    return Lease(ChunkRef::take(pool.get(bytes + headroom)), headroom, 0);
  }
  /// Leases memory that the caller owns. `release`, if not null, is called on the thread that drops the last reference.
  /// Precondition: nothing else uses the memory until then, and bytes < 2^31.
  static Lease adopt(void* data, size_t bytes, ReleaseFunction release, void* context = nullptr) {
    return Lease(
        ChunkRef::take(external_chunk(static_cast<std::byte*>(data), bytes, ChunkKind::kExternal, release, context)), 0,
        bytes);
  }
  Lease(Lease&& other) noexcept
      : chunk_(std::move(other.chunk_)), offset_(other.offset_), size_(std::exchange(other.size_, 0)) {}
  Lease& operator=(Lease&& other) noexcept {
    chunk_ = std::move(other.chunk_);
    offset_ = other.offset_;
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  explicit operator bool() const { return static_cast<bool>(chunk_); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::byte* data() { return chunk_ ? chunk_.data() + offset_ : nullptr; }
  const std::byte* data() const { return chunk_ ? chunk_.data() + offset_ : nullptr; }
  std::span<std::byte> bytes() { return {data(), size_}; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }

  /// The bytes before or after the window that this lease may grow into. 0 if others refer to the chunk.
  size_t headroom() const { return chunk_ && chunk_.writable() ? offset_ : 0; }
  size_t tailroom() const { return chunk_ && chunk_.writable() ? chunk_.capacity() - offset_ - size_ : 0; }

  /// Grows the window at its front or back by `count` bytes of unspecified contents. Precondition: the room is there.
  void grow_front(size_t count) {
    SLUICE_CHECK(count <= headroom());
    offset_ -= static_cast<uint32_t>(count);
    size_ += static_cast<uint32_t>(count);
  }
  void grow_back(size_t count) {
    SLUICE_CHECK(count <= tailroom());
    size_ += static_cast<uint32_t>(count);
  }
  /// Drops the first `count` bytes, or all but the first `count` bytes. Precondition: count <= size().
  void trim_front(size_t count) {
    SLUICE_CHECK(count <= size_);
    offset_ += static_cast<uint32_t>(count);
    size_ -= static_cast<uint32_t>(count);
  }
  void truncate(size_t count) {
    SLUICE_CHECK(count <= size_);
    size_ = static_cast<uint32_t>(count);
  }
  /// Keeps at most the first `count` bytes.
  void cap_length(size_t count) {
    if (count < size_) truncate(count);
  }

  /// Splits the lease: keeps the first `count` bytes and returns the rest. Both stay writable. Precondition: count <=
  /// size().
  Lease split_off(size_t count) {
    SLUICE_CHECK(count <= size_);
    Lease rest;
    rest.chunk_ = chunk_.share();
    rest.offset_ = offset_ + static_cast<uint32_t>(count);
    rest.size_ = size_ - static_cast<uint32_t>(count);
    size_ = static_cast<uint32_t>(count);
    return rest;
  }

  /// Converts the lease to a read-only view. The lease is empty afterwards.
  View freeze() && {
    View view;
    view.chunk_ = std::move(chunk_);
    view.offset_ = offset_;
    view.size_ = std::exchange(size_, 0);
    return view;
  }

 private:
  friend class Buffer;
  ChunkRef chunk_;
  uint32_t offset_ = 0;
  uint32_t size_ = 0;
};

}  // namespace sluice::inline v0_1
