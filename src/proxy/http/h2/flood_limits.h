#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/http/h2/limits.h"

namespace sluice {

/// A rate limit with bursts, in 8 bytes: it stores the time at which all past events will have been paid for.
class Http2Rate {
 public:
  /// Counts one more event at `now_ms`. Returns false if that exceeds `burst` events at once and `per_10s` in the long
  /// run.
  bool take(uint64_t now_ms, uint32_t burst, uint32_t per_10s) {
    const uint64_t now_us = now_ms * 1000;
    const uint64_t each_us = 10'000'000 / std::max(per_10s, uint32_t{1});
    paid_us_ = std::max(paid_us_, now_us) + each_us;
    return paid_us_ - now_us <= each_us * burst;
  }

 private:
  uint64_t paid_us_ = 0;
};

/// Limits actions that cost a peer little and us much. Each function records one event. It returns null if the event is
/// tolerated, or else an error text that names the limit: the connection must then end with ENHANCE_YOUR_CALM.
///
/// reset() covers rapid reset (CVE-2023-44487) and resets that a peer provokes (CVE-2025-8671); streams also keep their
/// slots until their receivers have released them. Floods of SETTINGS, PING, PRIORITY, WINDOW_UPDATE, and empty
/// frames (CVE-2019-9511 to -9518) have a function each. Small DATA frames have no limit: a stream of gRPC may pass any
/// number of small messages, each a frame, and pays for them with its turns. CONTINUATION and header bombs are limited
/// where header blocks are read.
class Http2Abuse {
 public:
  explicit Http2Abuse(const Http2Limits& limits)
      : resets_left_(limits.resets),
        window_updates_left_(limits.window_updates),
        on_closed_left_(limits.frames_on_closed),
        unused_left_(limits.frames_unused_per_stream) {}

  void set_now(uint64_t now_ms) { now_ms_ = now_ms; }

  /// Consumes a PING earned by data in either direction, and returns whether there was one. gRPC peers send such PINGs
  /// to measure the bandwidth-delay product.
  bool earned_ping() {
    if (pings_earned_ == 0) return false;
    --pings_earned_;
    return true;
  }
  const char* ping(const Http2Limits& limits, Http2Counters& counters);
  const char* settings(const Http2Limits& limits, Http2Counters& counters);
  const char* reply(const Http2Limits& limits, Http2Counters& counters);
  const char* glitch(const Http2Limits& limits, Http2Counters& counters);
  const char* reset(Http2Counters& counters);
  const char* unused_frame(Http2Counters& counters);
  const char* frame_on_closed(Http2Counters& counters);
  const char* window_update(Http2Counters& counters);
  /// A DATA frame with `bytes` of data.
  const char* data(uint32_t bytes, bool end, const Http2Limits& limits, Http2Counters& counters);

  // Events that earn a peer more allowance.
  void stream_opened(const Http2Limits& limits) {
    earn(unused_left_, limits.frames_unused_per_stream);
    earn(window_updates_left_, 2);
    earn(on_closed_left_, limits.frames_on_closed_per_stream);
  }
  void stream_completed(const Http2Limits& limits) {
    if (resets_left_ < limits.resets_saved) ++resets_left_;
  }
  void data_sent(const Http2Limits& limits) {
    earn(window_updates_left_, limits.window_updates_per_data);
    earn_ping(limits);
  }

 private:
  // The most allowance that even a long well-behaved peer can accumulate.
  static constexpr uint32_t kMostEarned = 100'000;
  static void earn(uint32_t& left, uint32_t more) { left = std::max(left, std::min(left + more, kMostEarned)); }

  void earn_ping(const Http2Limits& limits) {
    if (pings_earned_ < limits.pings_saved) ++pings_earned_;
  }

  uint64_t now_ms_ = 0;
  Http2Rate pings_, settings_, replies_, glitches_;
  uint32_t resets_left_;
  uint32_t window_updates_left_;
  uint32_t on_closed_left_;
  uint32_t unused_left_;
  uint32_t pings_earned_ = 0;
  uint16_t empty_data_ = 0;  // Consecutive frames.
};

}  // namespace sluice
