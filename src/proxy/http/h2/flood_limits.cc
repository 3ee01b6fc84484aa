#include "proxy/http/h2/flood_limits.h"

namespace sluice {
namespace {

const char* over(Counter& counter, const char* error) {
  ++counter;
  return error;
}

bool spend(uint32_t& left) {
  if (left == 0) return false;
  --left;
  return true;
}

}  // namespace

const char* Http2Abuse::ping(const Http2Limits& limits, Http2Counters& counters) {
  if (pings_.take(now_ms_, limits.pings_burst, limits.pings_per_10s)) return nullptr;
  return over(counters.over_pings, "too many PING frames");
}

const char* Http2Abuse::settings(const Http2Limits& limits, Http2Counters& counters) {
  if (settings_.take(now_ms_, limits.settings_burst, limits.settings_per_10s)) return nullptr;
  return over(counters.over_settings, "too many SETTINGS frames");
}

const char* Http2Abuse::reply(const Http2Limits& limits, Http2Counters& counters) {
  if (replies_.take(now_ms_, limits.replies_burst, limits.replies_per_10s)) return nullptr;
  return over(counters.over_replies, "too many frames that require a reply");
}

const char* Http2Abuse::glitch(const Http2Limits& limits, Http2Counters& counters) {
  ++counters.glitches;
  if (glitches_.take(now_ms_, limits.glitches_burst, limits.glitches_per_10s)) return nullptr;
  return over(counters.over_glitches, "too many oddities");
}

const char* Http2Abuse::reset(Http2Counters& counters) {
  if (spend(resets_left_)) return nullptr;
  return over(counters.over_resets, "too many streams were reset");
}

const char* Http2Abuse::unused_frame(Http2Counters& counters) {
  ++counters.frames_unused;
  if (spend(unused_left_)) return nullptr;
  return over(counters.over_frames_unused, "too many PRIORITY or unknown frames");
}

const char* Http2Abuse::frame_on_closed(Http2Counters& counters) {
  ++counters.frames_on_closed;
  if (spend(on_closed_left_)) return nullptr;
  return over(counters.over_frames_on_closed, "too many frames on closed streams");
}

const char* Http2Abuse::window_update(Http2Counters& counters) {
  if (spend(window_updates_left_)) return nullptr;
  return over(counters.over_window_updates, "too many WINDOW_UPDATE frames");
}

const char* Http2Abuse::data(uint32_t bytes, bool end, const Http2Limits& limits, Http2Counters& counters) {
  if (bytes > 0 || end) {
    empty_data_ = 0;
    earn_ping(limits);
  } else if (++empty_data_ > limits.empty_data) {
    return over(counters.over_empty_data, "too many empty DATA frames in a row");
  }
  return nullptr;
}

}  // namespace sluice
