#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "sluice/internal/check.h"

namespace sluice {

/// The maximum size of a log line, including its newline.
inline constexpr size_t kMaxLogLineBytes = 8192;

/// A lock-free ring of bytes that passes log lines from one writer thread to one reader thread. Each line is
/// contiguous: where the longest line would not fit before the end of the ring's memory, the rest is left unused and
/// the lap ends early.
///
///     std::span<char> room = ring.begin();                          // On the writer's thread.
///     if (!room.empty() && ring.commit(format(room))) wake_the_other_side();
///
///     ring.release(write_some(ring.unread()));                      // On the reader's thread.
class LineRing {
 public:
  static constexpr size_t kBytes = size_t{256} << 10;
  /// For call_at(): no fill level triggers a wakeup.
  static constexpr uint64_t kNever = UINT64_MAX;

  // For the writer.

  /// Returns room for one line of up to kMaxLogLineBytes; empty if the ring is full or memory cannot be allocated.
  /// Allocates the ring's memory on the first call.
  std::span<char> begin() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    if (!has_room(head)) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (!has_room(head)) return {};
    }
    if (!bytes_) {
      bytes_.reset(new (std::nothrow) char[kBytes]);
      if (!bytes_) return {};
    }
    return {bytes_.get() + offset(head), kMaxLogLineBytes};
  }

  /// Publishes the line of `bytes` bytes, newline included, that was written into begin(). Returns true if the caller
  /// must wake the reader.
  [[nodiscard]] bool commit(size_t bytes) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    SLUICE_DCHECK(bytes > 0 && bytes <= kMaxLogLineBytes && bytes_[offset(head) + bytes - 1] == '\n');
    head += bytes;
    if (const uint64_t next = next_lap(head - 1); next - head < kMaxLogLineBytes) {
      lap_end_ = head;
      head = next;
    }
    head_.store(head, std::memory_order_release);
    // Keeps the compiler from reordering the store and the load; call_at() describes what the processor may still do.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const uint64_t enough = call_at_.load(std::memory_order_relaxed);
    if (head - tail_seen_ < enough) return false;
    tail_seen_ = tail_.load(std::memory_order_acquire);
    if (head - tail_seen_ < enough) return false;
    call_at_.store(kNever, std::memory_order_relaxed);
    return true;
  }

  // For the reader.

  /// Returns the lines that are committed and not yet released, in one or two parts. Each part ends with a complete
  /// line.
  std::array<iovec, 2> unread() {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    head_seen_ = head_.load(std::memory_order_acquire);
    if (head_seen_ == tail) return {};  // The memory may not be allocated yet.
    if (head_seen_ < next_lap(tail)) return {part(tail, head_seen_), part(0, 0)};
    return {part(tail, lap_end_), part(next_lap(tail), head_seen_)};
  }
  /// Frees the first `bytes` bytes of the last result of unread().
  void release(size_t bytes) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    uint64_t end = tail + bytes;
    if (head_seen_ >= next_lap(tail) && end >= lap_end_) end = next_lap(tail) + (end - lap_end_);
    SLUICE_DCHECK(end <= head_seen_);
    tail_.store(end, std::memory_order_release);
  }
  bool empty() const { return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire); }

  /// Arms a wakeup: the first commit() after which the ring holds about `fill` bytes or more returns true, once. A
  /// concurrent commit() may miss it, so a reader that would sleep indefinitely must check again after a while, when
  /// that commit has become visible. In exchange, a line costs no memory barrier, which would wait for its bytes to
  /// reach the cache.
  void call_at(uint64_t fill) { call_at_.store(fill, std::memory_order_relaxed); }

 private:
  // Heads and tails increase monotonically across laps.
  static constexpr size_t offset(uint64_t place) { return place % kBytes; }
  static constexpr uint64_t next_lap(uint64_t place) { return (place | (kBytes - 1)) + 1; }
  static_assert((kBytes & (kBytes - 1)) == 0 && kBytes >= 4 * kMaxLogLineBytes);

  // The last line of each lap begins at least kMaxLogLineBytes before the end of the lap. So when a line is long enough
  // to end a lap, the reader is past the last line of the previous lap, whose end lap_end_ held until then.
  bool has_room(uint64_t head) const { return head + kMaxLogLineBytes - tail_seen_ <= kBytes; }
  iovec part(uint64_t from, uint64_t to) { return {bytes_.get() + offset(from), static_cast<size_t>(to - from)}; }

  static constexpr size_t kCacheLine = 64;

  // Written by the writer.
  alignas(kCacheLine) std::atomic<uint64_t> head_{0};
  uint64_t tail_seen_ = 0;
  uint64_t lap_end_ = 0;  // The end of the lines in the lap before head_'s. Valid while the tail is in it.
  std::unique_ptr<char[]> bytes_;
  // Written by the reader; call_at_ by both sides, rarely.
  alignas(kCacheLine) std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> call_at_{kNever};
  uint64_t head_seen_ = 0;
};

}  // namespace sluice
