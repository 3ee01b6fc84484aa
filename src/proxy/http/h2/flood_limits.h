#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/http/h2/limits.h"

namespace sluice {

/// Events at a sustained rate with bursts, in 8 bytes: the time at which all that happened would be paid for.
class Http2Rate {
 public:
  /// One more at `now_ms`; false if that is over `burst` at once and `per_10s` in the long run.
  bool take(uint64_t now_ms, uint32_t burst, uint32_t per_10s) {
    const uint64_t now_us = now_ms * 1000;
    const uint64_t each_us = 10'000'000 / std::max(per_10s, uint32_t{1});
    paid_us_ = std::max(paid_us_, now_us) + each_us;
    return paid_us_ - now_us <= each_us * burst;
  }

 private:
  uint64_t paid_us_ = 0;
};

/// Judges what costs a peer little and us much. Each function is told of one event, and answers with the error, a text
/// that names the limit, where the connection is to end with ENHANCE_YOUR_CALM; null where it is borne.
///
/// Rapid reset (CVE-2023-44487) and resets that a peer makes us send (CVE-2025-8671): reset(), and streams keep their
/// place until their receiver has released them. Floods of SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty and tiny
/// frames (CVE-2019-9511 to -9518): a function each. CONTINUATION and header bombs are judged where blocks are read.
class Http2Abuse {
 public:
  explicit Http2Abuse(const Http2Limits& limits)
      : resets_left_(limits.resets),
        window_updates_left_(limits.window_updates),
        on_closed_left_(limits.frames_on_closed),
        unused_left_(limits.frames_unused_per_stream) {}

  void set_now(uint64_t now_ms) { now_ms_ = now_ms; }

  /// Whether one has been earned by data in either direction: gRPC's peers measure with them how much is under way.
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
  /// A DATA frame that carries `bytes`.
  const char* data(uint32_t bytes, bool end, const Http2Limits& limits, Http2Counters& counters);

  // What earns a peer more.
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
  // A peer that was good for long has still only so much to spend.
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
  uint32_t data_bytes_ = 0;  // Of the last
  uint16_t data_frames_ = 0;
  uint16_t empty_data_ = 0;  // In a row.
};

}  // namespace sluice
