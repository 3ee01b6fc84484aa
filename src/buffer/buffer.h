#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "buffer/lease.h"
#include "buffer/view.h"
#include "pool/chunk_pool.h"

namespace sluice {

/// Bytes as a chain of windows onto chunks. Passing a buffer on moves windows, never bytes.
///
/// Three windows are held inside the 64-byte object; more go to a ring that is itself a chunk of the current pool. An
/// empty buffer holds nothing. Move-only; not thread-safe, but may be handed to another thread as a whole.
///
///     Buffer line = input.split_front(newline + 1);   // O(1) per window, shares a chunk cut in two
///     output.append(std::move(line));
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer() { clear(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t window_count() const { return count_; }
  /// The bytes of window `index`. Precondition: index < window_count().
  std::span<const std::byte> window(size_t index) const;
  /// The bytes of window `index` for writing, or an empty span when it is a view. Precondition: index < window_count().
  std::span<std::byte> writable_window(size_t index);

  /// Takes a window to the end or the front. Empty windows are dropped. A window that continues its neighbour in the
  /// same chunk becomes one with it.
  void append(Lease&& lease) {
    append_window({lease.chunk_.release(), lease.offset_, std::exchange(lease.size_, 0), true});
  }
  void append(View&& view) {
    append_window({view.chunk_.release(), view.offset_, std::exchange(view.size_, 0), false});
  }
  /// Takes all of `other`'s windows; it is empty afterwards. O(1) when this is empty.
  void append(Buffer&& other);
  void prepend(Lease&& lease) {
    prepend_window({lease.chunk_.release(), lease.offset_, std::exchange(lease.size_, 0), true});
  }
  void prepend(View&& view) {
    prepend_window({view.chunk_.release(), view.offset_, std::exchange(view.size_, 0), false});
  }

  /// Copies `bytes` to the end: into the tailroom of the last window when that is ours alone, then into fresh chunks of
  /// `pool`. All or nothing: false, and nothing appended, when the pool's budget is met.
  [[nodiscard]] bool append_copy(ChunkPool& pool, std::span<const std::byte> bytes);

  /// Forgets the first `count` bytes. Precondition: count <= size().
  void trim_front(size_t count);
  /// Keeps only the first `count` bytes. Precondition: count <= size().
  void truncate(size_t count);
  /// Cuts off the first `count` bytes and returns them. A window that is cut stays writable on both sides if it was.
  /// Precondition: count <= size().
  Buffer split_front(size_t count);
  /// Drops everything, also the ring.
  void clear();

  /// A second buffer of the same bytes; both are read-only afterwards, which is why this is not const.
  Buffer clone();

  /// Copies out up to `to.size()` bytes from `offset` on; returns how many. Counted as copied.
  size_t copy_out(size_t offset, std::span<std::byte> to) const;
  /// The first `count` bytes as one span: in place when they lie in one window, else copied into `scratch`. The buffer
  /// does not change. Precondition: count <= size() and count <= scratch.size().
  std::span<const std::byte> fetch(size_t count, std::span<std::byte> scratch) const;

  /// Describes the first windows, at most `to.size()` of them, for sendmsg or an AEAD; returns how many were filled.
  size_t fill_iovecs(std::span<iovec> to) const;

  /// Capacity of the chunks that this buffer keeps from being reused, its ring included; a chunk held by several
  /// holders is shared out.
  size_t pinned_bytes() const;
  /// Moves the bytes into one chunk of the smallest tier that holds them, if that frees at least half of what they pin;
  /// what a connection does with leftovers before it waits. True if it copied.
  bool settle(ChunkPool& pool);

 private:
  struct Window {
    Chunk* chunk;  // Owns one reference.
    uint32_t offset;
    uint32_t size : 31;
    uint32_t exclusive : 1;

    Window() = default;
    Window(Chunk* c, uint32_t o, uint32_t s, bool e) : chunk(c), offset(o), size(s & 0x7fffffffu), exclusive(e) {}
    std::byte* data() const { return chunk->data + offset; }
    bool continued_by(const Window& next) const {
      return chunk == next.chunk && offset + size == next.offset && exclusive == next.exclusive;
    }
  };
  static_assert(sizeof(Window) == 16);
  static constexpr uint32_t kInline = 3;
  struct Ring {
    Chunk* chunk;  // Metadata chunk whose data is Window[mask + 1].
    uint32_t mask;
  };

  bool spilled() const { return spilled_; }
  Window* ring_windows() const { return reinterpret_cast<Window*>(ring_.chunk->data); }
  Window& at(size_t index) {
    const uint32_t slot = head_ + static_cast<uint32_t>(index);
    if (spilled_) return ring_windows()[slot & ring_.mask];
    return inline_[slot < kInline ? slot : slot - kInline];
  }
  const Window& at(size_t index) const { return const_cast<Buffer*>(this)->at(index); }
  uint32_t capacity() const { return spilled_ ? ring_.mask + 1 : kInline; }

  void append_window(Window window);
  void prepend_window(Window window);
  void pop_front_window();
  void forget_front_window();
  void pop_back_window();
  void reserve_windows(uint32_t count);
  void take_from(Buffer& other);
  void became_empty();

  union {
    Window inline_[kInline];
    Ring ring_;
  };
  uint64_t size_ = 0;
  uint32_t head_ = 0;
  uint32_t count_ : 31 = 0;
  uint32_t spilled_ : 1 = 0;
};
static_assert(sizeof(Buffer) == 64);

}  // namespace sluice
