#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/numeric/int128.h"

namespace sluice {

/// The generic cell rate algorithm, in its form of virtual scheduling (ITU-T Recommendation I.371, annex A): for each
/// key there is one number, the theoretical arrival time (TAT) of its next event. An event conforms unless it comes
/// earlier than that by more than the tolerance; then the TAT moves on by the emission interval. This is a token bucket
/// of `burst` tokens that fills at the rate, without a timer.
///
/// An event that is too early by no more than the delay may count all the same, if it waits until it conforms. The TAT
/// has moved on by then, so the events that wait are one emission interval apart, and bounded in number.
///
/// Time is counted in ticks, of which an emission interval has exactly kTicks whatever the rate, so the rate is not
/// rounded, and single events are judged to within a tick. It is kept in kTimeBits bits, so it wraps, after 2^32
/// emission intervals: 71 minutes at 1,000,000 per second, 16 months at 100. A TAT that nobody has touched for as long
/// as that could look as if it lay ahead; see ahead().
///
/// For a limit of bytes, made by of_bytes(), a tick is one byte. Bytes are never refused: each piece of them is counted
/// at once and waits for its turn, which comes when the TAT with the piece is ahead by no more than the burst. The time
/// wraps after 1 TiB, and the TAT is never ahead by more than the burst and kMaxOwedBytes.
class Gcra {
 public:
  static constexpr int kTimeBits = 40;
  static constexpr uint64_t kTimeMask = (uint64_t{1} << kTimeBits) - 1;
  static constexpr int64_t kTicks = 256;
  static constexpr uint64_t kMaxPerSecond = 1'000'000;
  static constexpr uint32_t kMaxBurst = 1'000'000;
  static constexpr uint64_t kMaxDelayNs = 60'000'000'000;
  /// Pieces that wait in total, at most, and for how long. It takes 60,000 bodies that wait at once to reach it at a
  /// fast rate. Beyond it the rate is exceeded: each body may pass a piece within that time.
  static constexpr uint64_t kMaxOwedBytes = uint64_t{1} << 30, kMaxOwedNs = 60'000'000'000;

  /// `events` in each `period_ns`. At most kMaxPerSecond, kMaxBurst and kMaxDelayNs; all but the delay are above 0.
  Gcra(uint64_t events, uint64_t period_ns, uint32_t burst, uint64_t delay_ns = 0)
      : ticks_per_ns_(static_cast<uint64_t>((absl::uint128(events * kTicks) << 64) / period_ns)),
        shift_(64),
        tolerance_((int64_t{burst} - 1) * kTicks),
        reach_(tolerance_ + static_cast<int64_t>(absl::uint128(delay_ns) * (events * kTicks) / period_ns)),
        believed_(reach_ + kTicks + static_cast<int64_t>(ticks_of(kSkewNs)) + 1),
        period_ns_(period_ns),
        ticks_per_period_(events * kTicks) {}

  /// For `bytes` in each `period_ns`: at most 2^34 in a second, and a burst of at most 2^36 bytes.
  static Gcra of_bytes(uint64_t bytes, uint64_t period_ns, uint64_t burst) { return {Bytes{bytes}, period_ns, burst}; }

  /// The time of CLOCK_MONOTONIC, in nanoseconds, as ticks.
  uint64_t ticks_at(uint64_t now_ns) const { return ticks_of(now_ns) & kTimeMask; }

  /// How far the TAT lies ahead of `now`. Negative: the key has had its whole burst again for that long. A TAT farther
  /// ahead than any can be is one that the time has overtaken by a whole turn of the counter.
  int64_t ahead(uint64_t tat, uint64_t now) const {
    constexpr int kShift = 64 - kTimeBits;
    const int64_t distance = static_cast<int64_t>((tat - now) << kShift) >> kShift;
    return distance <= believed_ ? distance : distance - (int64_t{1} << kTimeBits);
  }
  /// Whether an event conforms.
  bool conforms(int64_t ahead) const { return ahead <= tolerance_; }
  /// Whether an event counts: it conforms, or may wait until it does.
  bool counts(int64_t ahead) const { return ahead <= reach_; }
  /// The TAT after an event that counts.
  static uint64_t next(int64_t ahead, uint64_t now) {
    return (now + static_cast<uint64_t>((ahead > 0 ? ahead : 0) + kTicks)) & kTimeMask;
  }
  /// How long an event that does not conform is too early, in nanoseconds.
  uint64_t wait_ns(int64_t ahead) const { return ns_of(ahead - tolerance_); }
  /// How long after an event that does not count the next one does.
  uint64_t refusal_ns(int64_t ahead) const { return ns_of(ahead - reach_); }

  /// How far the TAT lies ahead once so many bytes are counted. A negative number gives them back.
  int64_t ahead_with(int64_t ahead, int64_t bytes) const {
    return std::clamp<int64_t>(std::max<int64_t>(ahead, 0) + bytes, 0, reach_);
  }
  /// How long a piece waits with which the TAT lies that far ahead, in nanoseconds.
  uint64_t turn_ns(int64_t ahead) const { return ahead > tolerance_ ? ns_of(ahead - tolerance_) : 0; }
  /// The TAT that lies that far ahead.
  static uint64_t tat(int64_t ahead, uint64_t now) { return (now + static_cast<uint64_t>(ahead)) & kTimeMask; }

 private:
  // By how much the clocks that two threads have read may differ once they use them: one may have been preempted.
  static constexpr uint64_t kSkewNs = 1'000'000'000;

  struct Bytes {
    uint64_t count;
  };
  // A tick may be shorter than a nanosecond, so less of ticks_per_ns_ is a fraction.
  static constexpr int kByteShift = 59;

  Gcra(Bytes bytes, uint64_t period_ns, uint64_t burst)
      : ticks_per_ns_(static_cast<uint64_t>((absl::uint128(bytes.count) << kByteShift) / period_ns)),
        shift_(kByteShift),
        tolerance_(static_cast<int64_t>(burst)),
        reach_(tolerance_ + static_cast<int64_t>(std::min(ticks_of(kMaxOwedNs), kMaxOwedBytes))),
        believed_(reach_ + static_cast<int64_t>(ticks_of(kSkewNs)) + 1),
        period_ns_(period_ns),
        ticks_per_period_(bytes.count) {}

  uint64_t ticks_of(uint64_t ns) const { return static_cast<uint64_t>((absl::uint128(ns) * ticks_per_ns_) >> shift_); }
  // Rounded up.
  uint64_t ns_of(int64_t positive) const {
    const absl::uint128 ticks = static_cast<uint64_t>(positive);
    return static_cast<uint64_t>((ticks * period_ns_ + (ticks_per_period_ - 1)) / ticks_per_period_);
  }

  uint64_t ticks_per_ns_;  // In units of 2^-shift_.
  int shift_;
  int64_t tolerance_;  // In ticks: the emission interval times burst - 1.
  int64_t reach_;      // The tolerance and the delay.
  int64_t believed_;   // The farthest ahead that a TAT can be, with the skew of clocks.
  uint64_t period_ns_, ticks_per_period_;
};

}  // namespace sluice
