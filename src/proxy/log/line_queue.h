#pragma once

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "sluice/internal/check.h"

namespace sluice {

/// The maximum size of a log line, including its newline.
inline constexpr size_t kMaxLogLineBytes = 8192;

/// A lock-free queue of bytes that passes log lines from one writer thread to one reader thread. Each line is
/// contiguous. The lines lie in segments of one mapping, of which the writer always takes the lowest free one: so only
/// as much memory is touched as lines have waited at once, and trim() gives it back.
///
///     std::span<char> room = queue.begin();                          // On the writer's thread.
///     if (!room.empty() && queue.commit(format(room))) wake_the_other_side();
///
///     const LineQueue::Unread unread = queue.unread();               // On the reader's thread.
///     if (write_all(unread.parts)) queue.release(unread.bytes, unread.lines);
class LineQueue {
 public:
  static constexpr size_t kSegmentBytes = size_t{64} << 10, kSegments = 32;
  /// The most that may wait; but for the rest of each segment, where a longest line would not fit.
  static constexpr size_t kBytes = kSegments * kSegmentBytes;
  /// For call_at(): no fill level triggers a wakeup.
  static constexpr uint64_t kNever = UINT64_MAX;
  /// Pieces of the queue, in order; empty ones are at the end.
  using Parts = std::array<iovec, kSegments>;
  /// What is committed and not yet released. Each part ends with a complete line.
  struct Unread {
    Parts parts{};
    size_t bytes = 0, lines = 0;
  };

  LineQueue() = default;
  ~LineQueue() {
    if (memory_) munmap(memory_, kBytes);
  }
  LineQueue(const LineQueue&) = delete;
  LineQueue& operator=(const LineQueue&) = delete;

  // For the writer.

  /// Returns room for one line of up to kMaxLogLineBytes; empty if the queue is full or memory cannot be mapped.
  std::span<char> begin() {
    if (used_ + kMaxLogLineBytes > kSegmentBytes && !take_segment()) return {};
    return {segment(writing_) + used_, kMaxLogLineBytes};
  }

  /// Publishes the line of `bytes` bytes, newline included, that was written into begin(). Returns true if the caller
  /// must wake the reader.
  [[nodiscard]] bool commit(size_t bytes) {
    SLUICE_DCHECK(bytes > 0 && bytes <= kMaxLogLineBytes && segment(writing_)[used_ + bytes - 1] == '\n');
    used_ += bytes;
    Position head = head_.load(std::memory_order_relaxed);
    head.bytes += static_cast<uint32_t>(bytes);
    ++head.lines;
    head_.store(head, std::memory_order_release);
    // Keeps the compiler from reordering the store and the load; call_at() describes what the processor may still do.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const uint64_t enough = call_at_.load(std::memory_order_relaxed);
    if (head.bytes - tail_seen_ < enough) return false;
    tail_seen_ = tail_.load(std::memory_order_acquire).bytes;
    if (head.bytes - tail_seen_ < enough) return false;
    call_at_.store(kNever, std::memory_order_relaxed);
    return true;
  }

  // For the reader.

  Unread unread() const {
    const Position head = head_.load(std::memory_order_acquire), tail = tail_.load(std::memory_order_relaxed);
    Unread unread{.bytes = head.bytes - tail.bytes, .lines = head.lines - tail.lines};
    size_t at = reading_, offset = released_, rest = unread.bytes;
    for (size_t i = 0; rest > 0; offset = 0) {
      const size_t bytes = std::min(rest, end_of(at) - offset);
      if (bytes > 0) unread.parts[i++] = {segment(at) + offset, bytes};
      rest -= bytes;
      if (rest > 0) at = next_[at];
    }
    return unread;
  }
  /// Frees the first `bytes` bytes of the last result of unread(), which are `lines` complete lines.
  void release(size_t bytes, size_t lines) {
    Position tail = tail_.load(std::memory_order_relaxed);
    tail.bytes += static_cast<uint32_t>(bytes);
    tail.lines += static_cast<uint32_t>(lines);
    tail_.store(tail, std::memory_order_release);
    for (;;) {
      const size_t end = end_of(reading_), step = std::min(bytes, end - released_);
      released_ += step;
      bytes -= step;
      if (released_ < end) return;
      const size_t done = reading_;
      reading_ = next_[done];
      released_ = 0;
      ends_[done].store(0, std::memory_order_relaxed);
      touched_ |= bit(done);
      free_.fetch_or(bit(done), std::memory_order_release);
    }
  }
  bool empty() const {
    return tail_.load(std::memory_order_relaxed).bytes == head_.load(std::memory_order_acquire).bytes;
  }

  /// Gives the memory of free segments back to the system: at most one segment stays for an empty queue.
  void trim() {
    for (size_t i = 0; touched_ != 0 && i < kSegments; ++i) {
      if ((touched_ & bit(i)) == 0 || (free_.fetch_and(~bit(i), std::memory_order_acquire) & bit(i)) == 0) continue;
      madvise(segment(i), kSegmentBytes, MADV_DONTNEED);
      touched_ &= ~bit(i);
      free_.fetch_or(bit(i), std::memory_order_release);
    }
  }

  /// Arms a wakeup: the first commit() after which the queue holds about `fill` bytes or more returns true, once. A
  /// concurrent commit() may miss it, so a reader that would sleep indefinitely must check again after a while, when
  /// that commit has become visible. In exchange, a line costs no memory barrier, which would wait for its bytes to
  /// reach the cache.
  void call_at(uint64_t fill) { call_at_.store(fill, std::memory_order_relaxed); }

 private:
  // All bytes and lines so far, modulo 2^32. Both change at once, so that a reader need not count lines.
  struct Position {
    uint32_t bytes = 0, lines = 0;
  };
  static_assert(std::atomic<Position>::is_always_lock_free && kBytes < UINT32_MAX);
  using Set = uint32_t;
  static_assert(kSegments == sizeof(Set) * 8 && kSegmentBytes >= 4 * kMaxLogLineBytes);
  static constexpr Set bit(size_t i) { return Set{1} << i; }

  char* segment(size_t i) const { return memory_ + i * kSegmentBytes; }
  // Where the lines of a segment end; kOpen if the writer may still add lines.
  static constexpr size_t kOpen = SIZE_MAX;
  size_t end_of(size_t i) const {
    const size_t end = ends_[i].load(std::memory_order_acquire);
    return end == 0 ? kOpen : end;
  }

  bool map() {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    madvise(memory, kBytes, MADV_NOHUGEPAGE);  // One line must not touch all of it.
    memory_ = static_cast<char*>(memory);
    return true;
  }
  bool take_segment() {
    if (!memory_ && !map()) return false;
    Set free = free_.load(std::memory_order_relaxed);
    for (;; free = free_.load(std::memory_order_relaxed)) {
      if (free == 0) return false;
      const Set lowest = free & (~free + 1);
      if ((free_.fetch_and(~lowest, std::memory_order_acquire) & lowest) != 0) break;  // Else trim() has it.
    }
    const auto taken = static_cast<uint8_t>(std::countr_zero(free));
    if (std::exchange(used_before_, true)) {
      next_[writing_] = taken;
      ends_[writing_].store(static_cast<uint32_t>(used_), std::memory_order_release);
    }
    writing_ = taken;
    used_ = 0;
    return true;
  }

  static constexpr size_t kCacheLine = 64;

  // Written by the writer.
  alignas(kCacheLine) std::atomic<Position> head_{Position()};  // What was committed.
  uint32_t tail_seen_ = 0;                                      // Of tail_, bytes.
  bool used_before_ = false;
  size_t writing_ = 0;                     // The segment.
  size_t used_ = kSegmentBytes;            // Bytes of it. At first there is none.
  char* memory_ = nullptr;                 // The mapping.
  std::array<uint8_t, kSegments> next_{};  // The segment behind each. The reader reads it when ends_ says so.
  // Written by the reader; call_at_ by both sides, rarely.
  alignas(kCacheLine) std::atomic<Position> tail_{Position()};  // What was released.
  std::atomic<uint64_t> call_at_{kNever};
  size_t reading_ = 0;   // The segment. The first that the writer takes is the lowest.
  size_t released_ = 0;  // Bytes of it.
  Set touched_ = 0;      // Free segments that have memory.
  // Written by both sides, once for each segment.
  alignas(kCacheLine) std::atomic<Set> free_{~Set{0}};
  std::array<std::atomic<uint32_t>, kSegments> ends_{};  // 0: the writer may still add lines.
};

}  // namespace sluice
