#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "buffer/view.h"
#include "pool/check.h"
#include "pool/chunk_pool.h"

namespace sluice {

/// A writable window onto a chunk. Its bytes belong to it alone, even when other windows share the chunk: exclusivity
/// is per byte range, the chunk's reference count is lifetime only. Move-only, and it cannot be cloned: `freeze` it
/// first.
///
///     Lease lease = Lease::allocate(pool, 1500);
///     if (!lease) return wait_for_memory();
///     lease.grow_back(read(fd, lease.data(), lease.tailroom()));
///     buffer.append(std::move(lease));
class Lease {
 public:
  Lease() = default;
  /// Exclusive use of [offset, offset + size) of `chunk`. Precondition: the range lies within the chunk, to which
  /// nobody else refers, and which may be written.
  Lease(ChunkRef chunk, size_t offset, size_t size)
      : chunk_(std::move(chunk)), offset_(static_cast<uint32_t>(offset)), size_(static_cast<uint32_t>(size)) {
    SLUICE_CHECK(chunk_.has(offset, size) && (!chunk_ || chunk_.writable()));
  }
  /// Exclusive use of a range of a chunk to which others refer too: for who keeps account of its ranges, as a ring does
  /// of the buffers that the kernel fills piece by piece. Takes over one reference. Precondition: no other window
  /// overlaps the range, now or later.
  static Lease of_range(Chunk* chunk, size_t offset, size_t size) {
    Lease lease;
    lease.chunk_ = ChunkRef::take(chunk);
    SLUICE_CHECK(chunk && chunk->kind != ChunkKind::kReadOnly && lease.chunk_.has(offset, size));
    lease.offset_ = static_cast<uint32_t>(offset);
    lease.size_ = static_cast<uint32_t>(size);
    return lease;
  }
  /// An empty lease at the start of a fresh chunk with at least `bytes` of tailroom after `headroom`; false in a
  /// boolean context when the pool's budget is met. Precondition: headroom + bytes <= kMaxChunkBytes.
  static Lease allocate(ChunkPool& pool, size_t bytes, size_t headroom = 0) {
    SLUICE_CHECK(headroom <= kMaxChunkBytes && bytes <= kMaxChunkBytes - headroom);
    return Lease(ChunkRef::take(pool.get(bytes + headroom)), headroom, 0);
  }
  /// Memory of the caller, for as long as anybody refers to it; then `release` gets it back, on whichever thread that
  /// is. Precondition: nobody else uses it meanwhile, and bytes < 2^31.
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

  /// Bytes before / after the window that this lease may grow into: all of the chunk's when nobody else refers to the
  /// chunk, none otherwise.
  size_t headroom() const { return chunk_ && chunk_.writable() ? offset_ : 0; }
  size_t tailroom() const { return chunk_ && chunk_.writable() ? chunk_.capacity() - offset_ - size_ : 0; }

  /// Grows the window by `count` bytes of unspecified contents at its front / back. Precondition: the room is there.
  void grow_front(size_t count) {
    SLUICE_CHECK(count <= headroom());
    offset_ -= static_cast<uint32_t>(count);
    size_ += static_cast<uint32_t>(count);
  }
  void grow_back(size_t count) {
    SLUICE_CHECK(count <= tailroom());
    size_ += static_cast<uint32_t>(count);
  }
  /// Gives up the first `count` bytes / all but the first `count` bytes. Precondition: count <= size().
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

  /// Cuts the lease in two: keeps the first `count` bytes and returns the rest. Both stay writable.
  /// Precondition: count <= size().
  Lease split_off(size_t count) {
    SLUICE_CHECK(count <= size_);
    Lease rest;
    rest.chunk_ = chunk_.share();
    rest.offset_ = offset_ + static_cast<uint32_t>(count);
    rest.size_ = size_ - static_cast<uint32_t>(count);
    size_ = static_cast<uint32_t>(count);
    return rest;
  }

  /// Gives up the right to write. The lease is empty afterwards.
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

}  // namespace sluice
