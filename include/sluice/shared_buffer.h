#pragma once

#include <sys/uio.h>

#include <compare>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "sluice/buffer.h"

namespace sluice::inline v0_1 {

/// Immutable bytes that any number of threads may clone, read and drop at the same time, such as an entry of a cache or
/// a message for many subscribers. A handle of 16 bytes to a constant `Buffer` with an atomic reference count.
/// Move-only; `clone` is explicit. The same handle may be used by several threads at once as long as none of them moves
/// it, assigns to it or destroys it.
///
///     SharedBuffer message = SharedBuffer::from(std::move(frame));
///     for (Subscriber& subscriber : subscribers) subscriber.output.append(message.to_buffer());  // On any thread.
///
/// The bytes stay where they are: in chunks of the pool that they came from, and in its budget, until the last handle
/// and the last buffer made of them are dropped, on whichever thread. As for any chunk, the pool must live until then;
/// a pool of `thread_pool()` does, even after its thread has ended. `copy_of` depends on no pool.
class SharedBuffer {
 public:
  /// An empty one.
  SharedBuffer() = default;
  /// Takes over a buffer without copying; `bytes` is empty afterwards. Its leases become read-only. If there is no
  /// memory for the handle (about 150 bytes of the heap), the process ends.
  static SharedBuffer from(Buffer&& bytes) noexcept;
  /// Copies `bytes` into one piece of the heap, which no pool's budget bounds, or returns nothing if there is no
  /// memory. Counted as copied. Precondition: bytes.size() < 2^31.
  [[nodiscard]] static std::optional<SharedBuffer> copy_of(const Buffer& bytes);

  SharedBuffer(SharedBuffer&&) noexcept = default;
  SharedBuffer& operator=(SharedBuffer&&) noexcept = default;

  /// Returns another handle on the same bytes. O(1).
  SharedBuffer clone() const { return SharedBuffer(state_); }
  /// Shares a part. Keeps the chunks of that part only. O(windows up to its end). Precondition: offset + count <=
  /// size().
  SharedBuffer slice(size_t offset, size_t count) const { return from(to_buffer(offset, count)); }
  /// Returns a buffer of the calling thread with the same bytes, or a part of them, without copying. It may be changed
  /// like any buffer: its windows are read-only while others hold the bytes. Precondition: offset + count <= size().
  Buffer to_buffer() const;
  Buffer to_buffer(size_t offset, size_t count) const;

  /// The bytes for reading, with all const verbs of a Buffer, and for a Cursor. Valid while a handle on them exists.
  const Buffer& buffer() const;
  size_t size() const { return buffer().size(); }
  bool empty() const { return size() == 0; }
  /// Iterates over the bytes, one span per window.
  Buffer::Windows windows() const { return buffer().windows(); }
  /// Fills `to` with the first windows, for writev, and returns the number of entries filled.
  size_t fill_iovecs(std::span<iovec> to) const { return buffer().fill_iovecs(to); }
  /// Returns all bytes as a string. Counted as copied.
  std::string to_string() const { return buffer().to_string(); }
  /// Orders by the bytes, as std::memcmp does; a prefix comes first.
  std::strong_ordering operator<=>(const SharedBuffer& other) const { return buffer() <=> other.buffer(); }
  bool operator==(const SharedBuffer& other) const { return state_ == other.state_ || buffer() == other.buffer(); }
  bool operator==(std::string_view text) const { return buffer() == text; }

 private:
  struct State;
  explicit SharedBuffer(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace sluice::inline v0_1
