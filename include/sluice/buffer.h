#pragma once

#include <sys/uio.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/chunk_pool.h"
#include "sluice/internal/window_chain.h"
#include "sluice/lease.h"
#include "sluice/view.h"

namespace sluice::inline v0_1 {

class ChunkCounter;

/// A byte sequence held as a chain of windows onto chunks. Passing a buffer on moves windows, never bytes.
///
/// The 64-byte object holds three windows; more go to blocks that are chunks themselves. An empty buffer holds no
/// chunks. Move-only. Not thread-safe, but a whole buffer may be handed to another thread.
///
///     Buffer line = input.split_front(newline + 1);   // shares a chunk that is cut in two
///     output.append(std::move(line));
///
/// Functions that take a `ChunkPool` copy or allocate. They do all or nothing, and their result shows when the pool's
/// budget is used up.
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
  /// Returns the bytes of window `index`. Walks the chain, so use it only for short ones. Precondition: index <
  /// window_count().
  std::span<const std::byte> window(size_t index) const;
  /// Returns the bytes of the last window. Precondition: not empty.
  std::span<const std::byte> back() const { return {windows_.back().data(), windows_.back().size}; }
  /// Returns the bytes of window `index` for writing, or an empty span if they are shared (see make_writable).
  /// Precondition: index < window_count().
  std::span<std::byte> writable_window(size_t index);

  // ---- Adding without copying ----

  /// Adds a window at the end or the front. Empty windows are dropped. A window adjacent to its neighbor in the same
  /// chunk is merged with it. O(1).
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
  /// Moves all of `other`'s windows to the end or the front of this buffer; `other` is empty afterwards. O(1)
  /// regardless of the number of windows.
  void append(Buffer&& other);
  void prepend(Buffer&& other);

  // ---- Adding by copying ----

  /// Copies `bytes` to the end: into the tailroom of the last window if that window holds its chunk's only reference,
  /// then into fresh chunks of `pool`. If the pool's budget is used up, returns false and appends nothing.
  [[nodiscard]] bool append_copy(ChunkPool& pool, std::span<const std::byte> bytes);
  [[nodiscard]] bool append_copy(ChunkPool& pool, std::string_view text) {
    return append_copy(pool, std::as_bytes(std::span(text)));
  }
  /// Like append_copy, but always into fresh chunks, and beyond the budget if necessary. Only for small amounts that
  /// are bounded elsewhere and must not fail.
  void append_copy_beyond_budget(ChunkPool& pool, std::span<const std::byte> bytes);
  void append_copy_beyond_budget(ChunkPool& pool, std::string_view text) {
    append_copy_beyond_budget(pool, std::as_bytes(std::span(text)));
  }
  /// Copies `bytes` to the front: into the headroom of the first window if that window holds its chunk's only
  /// reference, then into fresh chunks that keep `headroom` bytes free before them for the headers of outer layers. If
  /// the pool's budget is used up, returns false and prepends nothing. Precondition: headroom < kMaxChunkBytes.
  [[nodiscard]] bool prepend_copy(ChunkPool& pool, std::span<const std::byte> bytes, size_t headroom = 64);
  /// Appends a window. A window that continues the last one is merged with it. A window of up to kPackBytes is copied,
  /// since that costs less than a separate window and pins less memory. A larger one is added as it is. Never fails: if
  /// the budget is used up, nothing is copied.
  void append_packed(ChunkPool& pool, View&& view);
  /// Packs each of `other`'s windows in this way; `other` is empty afterwards. Precondition: `other` is not this
  /// buffer.
  void append_packed(ChunkPool& pool, Buffer&& other);
  static constexpr size_t kPackBytes = 512;  // Measured in docs/internals/decisions/packing.md.
  static constexpr size_t kPackChunkBytes = 4096;
  /// Appends `count` bytes of the value `fill`. Writes into fresh memory or unshared tailroom, never into a shared
  /// chunk.
  [[nodiscard]] bool grow(ChunkPool& pool, size_t count, std::byte fill = std::byte{0});
  /// Returns a lease of at least `min_bytes` that continues this buffer where possible. Write to it, truncate it to the
  /// bytes written, and append() it. Dropping it has no effect. Empty if the budget is used up. Precondition: 0 <
  /// min_bytes <= kMaxChunkBytes.
  ///
  ///     Lease room = buffer.reserve(pool, 1500);
  ///     room.truncate(read(fd, room.data(), room.size()));
  ///     buffer.append(std::move(room));
  [[nodiscard]] Lease reserve(ChunkPool& pool, size_t min_bytes);
  /// Reads up to `count` bytes directly into this buffer's memory: calls `read(std::span<std::byte>)` until `count`
  /// bytes are read. `read` returns the number of bytes it stored; 0 (the end) or a negative value (an error) ends the
  /// loop, as does the pool's budget. Returns the number of bytes appended.
  ///
  ///     input.append_from(pool, 1 << 20, [&](std::span<std::byte> to) { return read(fd, to.data(), to.size()); });
  template <typename Read>
  size_t append_from(ChunkPool& pool, size_t count, Read&& read);
  /// The number of bytes that prepend_copy, or append_copy and reserve, can place without a new chunk.
  size_t headroom() const;
  size_t tailroom() const;

  // ---- Removing ----

  /// Drops the first `count` bytes. Precondition: count <= size().
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
  /// Removes the first `count` bytes and returns them. If the cut goes through a writable window, both sides stay
  /// writable. O(1) near both ends; elsewhere it walks over blocks of 13 windows. Precondition: count <= size().
  Buffer split_front(size_t count);
  /// Removes the bytes up to the first `delimiter` at or after `from`, and the delimiter, and returns the bytes before
  /// it; shares the chunk that is cut. Nothing, and no change, if there is no delimiter. The caller bounds what it
  /// waits for, and after more has arrived need not search again what it has: `from` may be the previous size() minus
  /// (delimiter.size() - 1). Precondition: the delimiter is not empty.
  ///
  ///     while (std::optional<Buffer> line = input.split_until("\r\n")) handle(*line);
  ///     if (input.size() > kMaxLineBytes) return close("the line is too long");
  [[nodiscard]] std::optional<Buffer> split_until(std::string_view delimiter, size_t from = 0);
  /// Drops all bytes.
  void clear() {
    if (windows_.in_blocks()) [[unlikely]]
      return drop_blocks();
    while (!empty()) drop_front_window();
  }

  // ---- Sharing ----

  /// Returns a second buffer with the same bytes. Both are read-only afterwards, so this is not const.
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
  /// Clones a part. Only the windows in that range become read-only. Precondition: offset + count <= size().
  Buffer clone(size_t offset, size_t count);
  /// Returns a copy of the bytes that shares no chunk, or nothing if the budget is used up.
  [[nodiscard]] std::optional<Buffer> deep_clone(ChunkPool& pool) const;

  // ---- Reading ----

  /// Copies up to `to.size()` bytes from `offset` on and returns their number. Counted as copied.
  size_t copy_out(size_t offset, std::span<std::byte> to) const;
  /// Returns all bytes as a string. Counted as copied.
  std::string to_string() const;
  /// Describes the buffer for a log: its size, its windows, and the first `max_bytes` bytes with escapes, so that the
  /// text is printable ASCII on one line (at most four characters a byte). With 0 no byte of the payload is shown.
  /// `buffer` in a stream or in a format of abseil (%v, StrCat) is describe().
  ///
  ///     23 bytes in 2 windows: "GET / HTTP/1.1\r\nHost: "...
  std::string describe(size_t max_bytes = 64) const;
  friend std::ostream& operator<<(std::ostream& out, const Buffer& buffer);
  template <typename Sink>
  friend void AbslStringify(Sink& sink, const Buffer& buffer) {
    sink.Append(buffer.describe());
  }
  /// Returns up to `max_bytes` bytes from `offset` on in lines of 16, as `hexdump -C` prints them: the offset, the
  /// bytes in hexadecimal, and as ASCII. Empty if offset >= size().
  std::string hex_dump(size_t offset = 0, size_t max_bytes = 256) const;
  /// Returns the first `count` bytes as one span: in place if one window holds them, else copied into `scratch`. The
  /// buffer does not change. Precondition: count <= size() and count <= scratch.size().
  std::span<const std::byte> fetch(size_t count, std::span<std::byte> scratch) const {
    return fetch(0, count, scratch);
  }
  /// Returns `count` bytes from `offset` on, in the same way. Precondition: offset + count <= size(), and count <=
  /// scratch.size().
  std::span<const std::byte> fetch(size_t offset, size_t count, std::span<std::byte> scratch) const {
    SLUICE_CHECK(offset <= size() && count <= size() - offset && count <= scratch.size());
    if (count == 0) return {};
    const Window& first = windows_.front();
    if (offset + count <= first.size) [[likely]]
      return {first.data() + offset, count};
    return fetch_beyond_first(offset, count, scratch);
  }
  /// Calls `visit(std::span<const std::byte>)` for each piece of a range, in order. Precondition: offset + count <=
  /// size().
  template <typename Visit>
  void apply(size_t offset, size_t count, Visit&& visit) const;
  /// Passes the first `count` bytes to `write(std::span<const std::byte>)`, window by window, until it returns less
  /// than the size of its argument. Returns the total that `write` accepted. The buffer does not change: call
  /// trim_front afterwards. Precondition: count <= size().
  template <typename Write>
  size_t write_to(size_t count, Write&& write) const;
  /// Returns the offset of the first occurrence of `byte` or `text` at or after `from`, or npos.
  size_t find(std::byte byte, size_t from = 0) const;
  size_t find(std::string_view text, size_t from = 0) const;
  bool starts_with(std::string_view text) const;
  /// Orders buffers as std::memcmp does; a prefix comes first.
  std::strong_ordering operator<=>(const Buffer& other) const;
  bool operator==(const Buffer& other) const { return size() == other.size() && *this <=> other == 0; }
  bool operator==(std::string_view text) const { return size() == text.size() && starts_with(text); }
  /// Returns the Internet checksum (RFC 1071) of the bytes from `offset` on, not complemented, so that it can be
  /// combined with further sums. Precondition: offset <= size().
  uint16_t checksum(size_t offset = 0) const;

  // ---- Writing ----

  /// Makes a range writable by copying exactly its shared bytes; the other holders' bytes stay as they are. If the
  /// budget is used up, returns false and no byte changes. Precondition: offset + count <= size().
  [[nodiscard]] bool make_writable(ChunkPool& pool, size_t offset, size_t count);
  /// Overwrites the bytes from `offset` on with copy-on-write. If the budget is used up, returns false and no byte
  /// changes. Precondition: offset + bytes.size() <= size(), and `bytes` do not alias this buffer.
  [[nodiscard]] bool write_at(ChunkPool& pool, size_t offset, std::span<const std::byte> bytes);
  /// Makes a range contiguous and returns it. If one window holds the range, it stays in place. Otherwise it is copied
  /// into one chunk that replaces it; a range of more than kMaxChunkBytes goes into a heap chunk, which no budget
  /// bounds. Empty if the budget is used up or the heap has no memory. Valid until the buffer changes. Precondition:
  /// offset + count <= size(), and 0 < count < 2^31.
  std::span<const std::byte> pull_up(ChunkPool& pool, size_t offset, size_t count);
  /// Makes the whole buffer contiguous with pull_up. An empty buffer gives an empty span. Precondition: size() < 2^31.
  std::span<const std::byte> flatten(ChunkPool& pool) {
    return empty() ? std::span<const std::byte>() : pull_up(pool, 0, size());
  }

  // ---- For system calls and ciphers ----

  /// Fills `to` with the first windows, for sendmsg, and returns the number of entries filled.
  size_t fill_iovecs(std::span<iovec> to) const;
  /// One piece of an in-place AEAD call, laid out like BoringSSL's CRYPTO_IOVEC (EVP_AEAD_CTX_openv).
  struct InOut {
    std::byte* out;
    const std::byte* in;
    size_t bytes;
  };
  /// Fills `to` with the pieces of a range for in-place processing and returns their number. Returns 0 if `to` is too
  /// small or part of the range is shared (call make_writable first). Precondition: offset + count <= size().
  size_t fill_in_place(size_t offset, size_t count, std::span<InOut> to);

  // ---- Memory cost ----

  /// The memory that this buffer pins. For several buffers of one holder, use PinnedBytes.
  struct Pinned {
    /// Capacity of the chunks, including the buffer's own blocks. A chunk with several windows onto it counts with this
    /// buffer's share, but at least with the bytes that this buffer covers.
    size_t bytes = 0;
    size_t wasted = 0;  ///< ... of those, bytes that no window of this buffer covers.
  };
  Pinned pinned() const;
  size_t pinned_bytes() const { return pinned().bytes; }
  /// Copies all bytes into one chunk of the smallest fitting tier if that is at most half of what this buffer's chunks
  /// hold. Each chunk counts once and in full, even if others hold it too. A connection does this with leftover bytes
  /// before it waits. True if it copied.
  bool compact(ChunkPool& pool);

 private:
  friend class PinnedBytes;
  /// The memory that counted windows pin, and as many bytes of window blocks.
  static Pinned pinned_by(const ChunkCounter& chunks, size_t block_bytes);
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
      windows_.push_back(window);  // The first slot is cheaper to fill than the one before it.
    } else if (window.continued_by(windows_.front())) {
      windows_.move_front(window.size);
      chunk_unref(window.chunk);
    } else {
      windows_.push_front(window);
    }
  }
  Buffer cut_front(size_t count, bool keep_writable);
  // Adds a reference. Does not write to a window that is read-only already: copying it next would wait for that store.
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

/// The range type of Buffer::windows(). Valid until the buffer changes.
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

// Visits the windows that overlap a range. Passes each window, the offset in it, and the number of bytes.
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

}  // namespace sluice::inline v0_1
