#pragma once

#include <sys/uio.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "buffer/lease.h"
#include "buffer/view.h"
#include "buffer/window_chain.h"
#include "pool/chunk_pool.h"

namespace sluice {

/// Bytes as a chain of windows onto chunks. Passing a buffer on moves windows, never bytes.
///
/// Three windows are held inside the 64-byte object; more go to blocks that are chunks themselves. An empty buffer
/// holds nothing. Move-only; not thread-safe, but may be handed to another thread as a whole.
///
///     Buffer line = input.split_front(newline + 1);   // shares a chunk that is cut in two
///     output.append(std::move(line));
///
/// Verbs that take a `ChunkPool` copy or allocate; they do all or nothing, and say when the pool's budget is met.
class Buffer {
 public:
  static constexpr size_t npos = static_cast<size_t>(-1);

  Buffer() = default;
  Buffer(Buffer&& other) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      clear();
      windows_.take(other.windows_);
    }
    return *this;
  }
  ~Buffer() {
    if (windows_.in_blocks()) [[unlikely]] {
      drop_blocks();
    } else {
      for (uint32_t i = 0, count = windows_.count(); i < count; ++i) chunk_unref(windows_.within(i).chunk);
    }
  }

  size_t size() const { return windows_.bytes(); }
  bool empty() const { return windows_.empty(); }

  // ---- Windows ----

  /// Iterates over the bytes, one span per window.
  ///
  ///     for (std::span<const std::byte> window : buffer.windows()) hash.update(window);
  class Windows;
  Windows windows() const;
  size_t window_count() const { return windows_.count(); }
  /// The bytes of window `index`, for those who know that there are few: it walks. Precondition: index <
  /// window_count().
  std::span<const std::byte> window(size_t index) const;
  /// The bytes of the last window. Precondition: not empty.
  std::span<const std::byte> back() const { return {windows_.back().data(), windows_.back().size}; }
  /// The bytes of window `index` for writing, or an empty span when they are shared: see make_writable.
  /// Precondition: index < window_count().
  std::span<std::byte> writable_window(size_t index);

  // ---- Adding, without a copy ----

  /// Takes a window to the end or the front. Empty windows are dropped. A window that continues its neighbour in the
  /// same chunk becomes one with it. O(1).
  void append(Lease&& lease) {
    append_window({lease.chunk_.release(), lease.offset_, std::exchange(lease.size_, 0), true});
  }
  void append(View&& view) {
    append_window({view.chunk_.release(), view.offset_, std::exchange(view.size_, 0), false});
  }
  void prepend(Lease&& lease) {
    prepend_window({lease.chunk_.release(), lease.offset_, std::exchange(lease.size_, 0), true});
  }
  void prepend(View&& view) {
    prepend_window({view.chunk_.release(), view.offset_, std::exchange(view.size_, 0), false});
  }
  /// Takes all of `other`'s windows to the end or the front; it is empty afterwards. O(1) however long both are.
  void append(Buffer&& other);
  void prepend(Buffer&& other);

  // ---- Adding by copy ----

  /// Copies `bytes` to the end: into the tailroom of the last window when that is ours alone, then into fresh chunks of
  /// `pool`. False, and nothing appended, when the pool's budget is met.
  [[nodiscard]] bool append_copy(ChunkPool& pool, std::span<const std::byte> bytes);
  [[nodiscard]] bool append_copy(ChunkPool& pool, std::string_view text) {
    return append_copy(pool, std::as_bytes(std::span(text)));
  }
  /// The same into fresh chunks, also where the budget is met: for little that is bounded elsewhere, and that something
  /// would break without.
  void append_copy_beyond_budget(ChunkPool& pool, std::span<const std::byte> bytes);
  void append_copy_beyond_budget(ChunkPool& pool, std::string_view text) {
    append_copy_beyond_budget(pool, std::as_bytes(std::span(text)));
  }
  /// Copies `bytes` to the front: into the headroom of the first window when that is ours alone, else into fresh chunks
  /// that leave `headroom` bytes free before them, for the headers of outer layers. Precondition: headroom <
  /// kMaxChunkBytes.
  [[nodiscard]] bool prepend_copy(ChunkPool& pool, std::span<const std::byte> bytes, size_t headroom = 64);
  /// Takes a small window by copying it (up to kPackBytes, where that costs less than a window of its own and pins
  /// less), a larger one as it is, and one that continues the last as a part of that. Never fails: where the budget is
  /// met, nothing is copied.
  void append_packed(ChunkPool& pool, View&& view);
  /// The same for each of `other`'s windows; it is empty afterwards. Precondition: `other` is not this buffer.
  void append_packed(ChunkPool& pool, Buffer&& other);
  static constexpr size_t kPackBytes = 512;  // docs/decisions/packing.md has the measurement.
  static constexpr size_t kPackChunkBytes = 4096;
  /// Appends `count` bytes of the value `fill`. Writes into fresh memory or tailroom that is ours alone, never into a
  /// shared chunk.
  [[nodiscard]] bool grow(ChunkPool& pool, size_t count, std::byte fill = std::byte{0});
  /// Room for at least `min_bytes` that continues this buffer where possible: write to it, truncate it to what was
  /// written, and append() it. Dropped, nothing has happened. Empty when the budget is met.
  /// Precondition: 0 < min_bytes <= kMaxChunkBytes.
  ///
  ///     Lease room = buffer.reserve(pool, 1500);
  ///     room.truncate(read(fd, room.data(), room.size()));
  ///     buffer.append(std::move(room));
  [[nodiscard]] Lease reserve(ChunkPool& pool, size_t min_bytes);
  /// Reads up to `count` bytes straight into this buffer's own memory: calls `read(std::span<std::byte>)` until there
  /// are so many. It returns how many it has put there; with 0 (the end) or less (an error) it ends this, as the
  /// pool's budget does. Returns how many bytes were appended.
  ///
  ///     input.append_from(pool, 1 << 20, [&](std::span<std::byte> to) { return read(fd, to.data(), to.size()); });
  template <typename Read>
  size_t append_from(ChunkPool& pool, size_t count, Read&& read);
  /// Bytes that prepend_copy / append_copy / reserve find without a new chunk.
  size_t headroom() const;
  size_t tailroom() const;

  // ---- Taking away ----

  /// Forgets the first `count` bytes. Precondition: count <= size().
  void trim_front(size_t count) {
    SLUICE_CHECK(count <= size());
    while (count > 0) {
      const size_t first = windows_.front().size;
      if (count < first) return windows_.move_front(-static_cast<int64_t>(count));
      count -= first;
      drop_front_window();
    }
  }
  /// Keeps only the first `count` bytes. Precondition: count <= size().
  void truncate(size_t count) {
    SLUICE_CHECK(count <= size());
    while (size() > count) {
      const size_t excess = size() - count;
      if (excess < windows_.back().size) return windows_.move_back(-static_cast<int64_t>(excess));
      drop_back_window();
    }
  }
  /// Keeps at most the first `count` bytes.
  void cap_length(size_t count) {
    if (count < size()) truncate(count);
  }
  /// Cuts off the first `count` bytes and returns them. A window that is cut stays writable on both sides if it was.
  /// O(1) near both ends; in between it walks over blocks of 13 windows. Precondition: count <= size().
  Buffer split_front(size_t count);
  /// Drops everything.
  void clear() {
    if (windows_.in_blocks()) [[unlikely]]
      return drop_blocks();
    while (!empty()) drop_front_window();
  }

  // ---- Sharing ----

  /// A second buffer of the same bytes; both are read-only afterwards, which is why this is not const.
  Buffer clone() {
    Buffer copy;
    if (windows_.in_blocks()) [[unlikely]] {
      clone_blocks(copy);
    } else {
      for (uint32_t i = 0, count = windows_.count(); i < count; ++i) share(windows_.within(i));
      copy.windows_.copy_within(windows_);
    }
    return copy;
  }
  /// The same for a part; only windows that it touches become read-only. Precondition: offset + count <= size().
  Buffer clone(size_t offset, size_t count);
  /// A copy of the bytes that shares nothing; nothing when the budget is met.
  [[nodiscard]] std::optional<Buffer> deep_clone(ChunkPool& pool) const;

  // ---- Reading ----

  /// Copies out up to `to.size()` bytes from `offset` on; returns how many. Counted as copied.
  size_t copy_out(size_t offset, std::span<std::byte> to) const;
  /// All bytes as a string. Counted as copied.
  std::string to_string() const;
  /// The first `count` bytes as one span: in place when they lie in one window, else copied into `scratch`. The buffer
  /// does not change. Precondition: count <= size() and count <= scratch.size().
  std::span<const std::byte> fetch(size_t count, std::span<std::byte> scratch) const {
    return fetch(0, count, scratch);
  }
  /// The same from `offset` on. Precondition: offset + count <= size().
  std::span<const std::byte> fetch(size_t offset, size_t count, std::span<std::byte> scratch) const {
    SLUICE_CHECK(offset <= size() && count <= size() - offset && count <= scratch.size());
    if (count == 0) return {};
    const Window& first = windows_.front();
    if (offset + count <= first.size) [[likely]]
      return {first.data() + offset, count};
    return fetch_beyond_first(offset, count, scratch);
  }
  /// Calls `visit(std::span<const std::byte>)` for the pieces of a range, in their order.
  /// Precondition: offset + count <= size().
  template <typename Visit>
  void apply(size_t offset, size_t count, Visit&& visit) const;
  /// Hands the first `count` bytes to `write(std::span<const std::byte>)`, window by window, until it returns less than
  /// it was given. Returns how many bytes it took in all. The buffer does not change: trim_front what was written.
  /// Precondition: count <= size().
  template <typename Write>
  size_t write_to(size_t count, Write&& write) const;
  /// Where `byte` or `text` first occurs at or behind `from`, or npos.
  size_t find(std::byte byte, size_t from = 0) const;
  size_t find(std::string_view text, size_t from = 0) const;
  bool starts_with(std::string_view text) const;
  /// As std::memcmp compares.
  std::strong_ordering operator<=>(const Buffer& other) const;
  bool operator==(const Buffer& other) const { return size() == other.size() && *this <=> other == 0; }
  bool operator==(std::string_view text) const { return size() == text.size() && starts_with(text); }
  /// The Internet checksum (RFC 1071) of the bytes from `offset` on, not complemented: the sum that goes on with more.
  /// Precondition: offset <= size().
  uint16_t checksum(size_t offset = 0) const;

  // ---- Writing ----

  /// Makes a range ours alone: copies exactly those of its bytes that are shared, and leaves the other holders' as they
  /// are. Afterwards its windows are writable. False, and nothing changed, when the budget is met.
  /// Precondition: offset + count <= size().
  [[nodiscard]] bool make_writable(ChunkPool& pool, size_t offset, size_t count);
  /// Overwrites the bytes from `offset` on, by copy on write. Precondition: offset + bytes.size() <= size(), and
  /// `bytes` are not this buffer's own.
  [[nodiscard]] bool write_at(ChunkPool& pool, size_t offset, std::span<const std::byte> bytes);
  /// Makes a range contiguous and returns it: in place when it is already, else copied into one chunk that takes its
  /// place; of more than kMaxChunkBytes into one of the heap, which no pool's budget bounds. An empty span when the
  /// budget is met, or the heap has no more. Valid until the buffer changes.
  /// Precondition: offset + count <= size(), and 0 < count < 2^31.
  std::span<const std::byte> pull_up(ChunkPool& pool, size_t offset, size_t count);
  /// The same for all of it; an empty buffer's is an empty span. Precondition: size() < 2^31.
  std::span<const std::byte> flatten(ChunkPool& pool) {
    return empty() ? std::span<const std::byte>() : pull_up(pool, 0, size());
  }

  // ---- For system calls and ciphers ----

  /// Describes the first windows, at most `to.size()` of them, for sendmsg; returns how many were filled.
  size_t fill_iovecs(std::span<iovec> to) const;
  /// One piece of an AEAD call that works in place, laid out as BoringSSL's CRYPTO_IOVEC (EVP_AEAD_CTX_openv).
  struct InOut {
    std::byte* out;
    const std::byte* in;
    size_t bytes;
  };
  /// Describes a range for working in place; returns how many pieces were filled, or 0 when `to` is too small or part
  /// of the range is shared (make_writable first). Precondition: offset + count <= size().
  size_t fill_in_place(size_t offset, size_t count, std::span<InOut> to);

  // ---- What it costs ----

  /// What this buffer keeps from being reused. For several buffers of one holder: PinnedBytes.
  struct Pinned {
    /// Capacity of its chunks, its own blocks included. Of a chunk with several windows onto it, this buffer's share,
    /// but as much as it can reach.
    size_t bytes = 0;
    size_t wasted = 0;  ///< ... of which it can reach no byte.
  };
  Pinned pinned() const;
  size_t pinned_bytes() const { return pinned().bytes; }
  /// Moves the bytes into one chunk of the smallest tier that holds them, if that is at most half of what its chunks
  /// have, each counted once and in full, whoever holds them too: what a connection does with leftovers before it
  /// waits. True if it copied.
  bool compact(ChunkPool& pool);

 private:
  friend class PinnedBytes;
  void pack(ChunkPool& pool, Window window);
  void append_window(Window window) {
    if (window.size == 0) {
      if (window.chunk) chunk_unref(window.chunk);
    } else if (!empty() && windows_.back().continued_by(window)) {
      windows_.move_back(window.size);
      chunk_unref(window.chunk);
    } else {
      windows_.push_back(window);
    }
  }
  void prepend_window(Window window) {
    if (window.size == 0) {
      if (window.chunk) chunk_unref(window.chunk);
    } else if (empty()) {
      windows_.push_back(window);  // To the first place, which is less work than the one before it.
    } else if (window.continued_by(windows_.front())) {
      windows_.move_front(window.size);
      chunk_unref(window.chunk);
    } else {
      windows_.push_front(window);
    }
  }
  Buffer cut_front(size_t count, bool ask);
  // One more reference. What is read-only already is not written to: who copies the window next would wait for that.
  static void share(Window& window) {
    if (window.exclusive) window.exclusive = 0;
    chunk_ref(window.chunk);
  }
  void clone_blocks(Buffer& copy);
  void drop_blocks();
  void drop_front_window() { chunk_unref(windows_.pop_front().chunk); }
  void drop_back_window() { chunk_unref(windows_.pop_back().chunk); }
  std::span<const std::byte> fetch_beyond_first(size_t offset, size_t count, std::span<std::byte> scratch) const;
  bool append_copy_to_several(ChunkPool& pool, std::span<const std::byte> bytes);
  bool fill_fresh(ChunkPool& pool, size_t headroom, std::span<const std::byte> bytes, size_t least = 0);
  size_t next_chunk_bytes() const;
  template <typename Visit>
  void apply_windows(size_t offset, size_t count, Visit&& visit) const;

  WindowChain windows_;
};
static_assert(sizeof(Buffer) == 64);

/// See Buffer::windows(). Valid until the buffer changes.
class Buffer::Windows {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::span<const std::byte>;
    using difference_type = ptrdiff_t;
    using pointer = const value_type*;
    using reference = value_type;

    Iterator() = default;
    explicit Iterator(const WindowChain& windows) : at_(windows) {}
    std::span<const std::byte> operator*() const { return {at_->data(), at_->size}; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    WindowChain::Iterator at_;
  };

  explicit Windows(const WindowChain& windows) : windows_(windows) {}
  Iterator begin() const { return Iterator(windows_); }
  Iterator end() const { return Iterator(); }

 private:
  const WindowChain& windows_;
};

inline Buffer::Windows Buffer::windows() const { return Windows(windows_); }

// Visits the windows that a range touches, each with the offset in it and the number of bytes.
template <typename Visit>
void Buffer::apply_windows(size_t offset, size_t count, Visit&& visit) const {
  for (Window& window : windows_) {
    if (count == 0) return;
    if (offset >= window.size) {
      offset -= window.size;
      continue;
    }
    const size_t piece = window.size - offset < count ? window.size - offset : count;
    visit(window, offset, piece);
    count -= piece;
    offset = 0;
  }
}

template <typename Read>
size_t Buffer::append_from(ChunkPool& pool, size_t count, Read&& read) {
  size_t appended = 0;
  while (appended < count) {
    const size_t left = count - appended;
    Lease room = reserve(pool, tailroom() > 0 ? 1 : left < kMaxChunkBytes ? left : kMaxChunkBytes);
    if (!room) break;
    room.cap_length(left);
    const auto got = read(room.bytes());
    if (!(got > 0)) break;
    room.truncate(static_cast<size_t>(got));
    append(std::move(room));
    appended += static_cast<size_t>(got);
  }
  return appended;
}

template <typename Write>
size_t Buffer::write_to(size_t count, Write&& write) const {
  SLUICE_CHECK(count <= size());
  size_t written = 0;
  for (std::span<const std::byte> window : windows()) {
    if (written == count) break;
    if (window.size() > count - written) window = window.first(count - written);
    const auto took = write(window);
    if (took > 0) written += static_cast<size_t>(took);
    if (!(took > 0) || static_cast<size_t>(took) < window.size()) break;
  }
  return written;
}

template <typename Visit>
void Buffer::apply(size_t offset, size_t count, Visit&& visit) const {
  SLUICE_CHECK(offset <= size() && count <= size() - offset);
  apply_windows(offset, count, [&](const Window& window, size_t at, size_t bytes) {
    visit(std::span<const std::byte>(window.data() + at, bytes));
  });
}

}  // namespace sluice
