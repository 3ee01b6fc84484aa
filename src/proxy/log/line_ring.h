#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "pool/check.h"

namespace sluice {

/// No line of a log is longer, its end included.
inline constexpr size_t kMaxLogLineBytes = 8192;

/// Lines on their way from one thread to another: a ring of bytes without locks. Each line lies in one piece, so the
/// end of the ring's memory is left unused where the longest line would not fit; a lap then ends early.
///
///     std::span<char> room = ring.begin();                          // On the one side,
///     if (!room.empty() && ring.commit(format(room))) wake_the_other_side();
///
///     ring.release(write_some(ring.unread()));                      // on the other.
class LineRing {
 public:
  static constexpr size_t kBytes = size_t{256} << 10;
  /// For call_at: no number of bytes is worth a call.
  static constexpr uint64_t kNever = UINT64_MAX;

  // The side that writes lines.

  /// Room for one line of up to kMaxLogLineBytes; empty when the ring is full. Takes memory the first time.
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

  /// Hands over what was written into begin(): one line, with its end. True: the other side is to be woken.
  [[nodiscard]] bool commit(size_t bytes) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    SLUICE_DCHECK(bytes > 0 && bytes <= kMaxLogLineBytes && bytes_[offset(head) + bytes - 1] == '\n');
    head += bytes;
    if (const uint64_t next = next_lap(head - 1); next - head < kMaxLogLineBytes) {
      lap_end_ = head;
      head = next;
    }
    head_.store(head, std::memory_order_release);
    // In this order for the compiler too; what the processor makes of it, see call_at.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const uint64_t enough = call_at_.load(std::memory_order_relaxed);
    if (head - tail_seen_ < enough) return false;
    tail_seen_ = tail_.load(std::memory_order_acquire);
    if (head - tail_seen_ < enough) return false;
    call_at_.store(kNever, std::memory_order_relaxed);
    return true;
  }

  // The side that reads them.

  /// What was committed and not released, in one or two parts; each ends with a line.
  std::array<iovec, 2> unread() {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    head_seen_ = head_.load(std::memory_order_acquire);
    if (head_seen_ == tail) return {};  // There may be no memory yet.
    if (head_seen_ < next_lap(tail)) return {part(tail, head_seen_), part(0, 0)};
    return {part(tail, lap_end_), part(next_lap(tail), head_seen_)};
  }
  /// Gives back room: of so many bytes at the beginning of what unread() returned last.
  void release(size_t bytes) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    uint64_t end = tail + bytes;
    if (head_seen_ >= next_lap(tail) && end >= lap_end_) end = next_lap(tail) + (end - lap_end_);
    SLUICE_DCHECK(end <= head_seen_);
    tail_.store(end, std::memory_order_release);
  }
  bool empty() const { return tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_acquire); }

  /// Has the commit return true, once, after which about `fill` bytes or more lie in the ring. A commit that is under
  /// way may miss that: whoever would sleep without an end looks again a while later, when such a commit has surely
  /// come through. (So a line costs no barrier, which would wait for its bytes to reach the cache.)
  void call_at(uint64_t fill) { call_at_.store(fill, std::memory_order_relaxed); }

 private:
  // Heads and tails count on from lap to lap.
  static constexpr size_t offset(uint64_t place) { return place % kBytes; }
  static constexpr uint64_t next_lap(uint64_t place) { return (place | (kBytes - 1)) + 1; }
  static_assert((kBytes & (kBytes - 1)) == 0 && kBytes >= 4 * kMaxLogLineBytes);

  // In each lap the last line begins kMaxLogLineBytes before the end, or sooner. So when a line is long enough to
  // end a lap, the reader is past the last line of the one before, of which lap_end_ was until then.
  bool has_room(uint64_t head) const { return head + kMaxLogLineBytes - tail_seen_ <= kBytes; }
  iovec part(uint64_t from, uint64_t to) { return {bytes_.get() + offset(from), static_cast<size_t>(to - from)}; }

  static constexpr size_t kCacheLine = 64;

  // Written by the side that writes lines.
  alignas(kCacheLine) std::atomic<uint64_t> head_{0};
  uint64_t tail_seen_ = 0;
  uint64_t lap_end_ = 0;  // Where the lines of the lap before head_'s end. Valid while the tail is in that one.
  std::unique_ptr<char[]> bytes_;
  // By the other. call_at_ by both, rarely.
  alignas(kCacheLine) std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> call_at_{kNever};
  uint64_t head_seen_ = 0;
};

}  // namespace sluice
