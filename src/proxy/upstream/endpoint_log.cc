#include "proxy/upstream/endpoint_log.h"

#include "absl/strings/str_cat.h"
#include "proxy/log/run_log.h"

namespace sluice {

namespace {

// More than for other kinds: each change says something of its own, and many endpoints may fail at once.
constexpr uint32_t kChangesPerSecond = 100;

std::string up_text(const EndpointTable& slots, uint64_t now_ms) {
  size_t present = 0, up = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const EndpointState& state = slots.state(i);
    present += state.present.load(std::memory_order_relaxed) ? 1 : 0;
    up += state.up(now_ms) ? 1 : 0;
  }
  return absl::StrCat(" (", up, " of ", present, " endpoints up)");
}

std::string start_of_line(const EndpointTable& slots, const std::string& endpoint) {
  return absl::StrCat("upstream \"", slots.config().name, "\": endpoint ", endpoint, " ");
}

}  // namespace

void log_endpoint(const EndpointTable& slots, size_t slot, uint64_t now_ms, std::string_view what,
                  std::string_view reason) {
  static thread_local LogLimit limit(kChangesPerSecond);
  if (!log_enabled(LogLevel::kWarning) || !log_admits(limit, now_ms)) return;
  const std::string endpoint = slots.describe(slot);
  log_line(LogLevel::kWarning,
           absl::StrCat(start_of_line(slots, endpoint), what, up_text(slots, now_ms), left_out_text(limit)),
           {.upstream = slots.config().name, .endpoint = endpoint, .reason = reason});
}

void log_endpoint_event(const EndpointTable& slots, size_t slot, std::string_view what) {
  if (!log_enabled(LogLevel::kDebug)) return;
  const std::string endpoint = slots.describe(slot);
  log_line(LogLevel::kDebug, absl::StrCat(start_of_line(slots, endpoint), what),
           {.upstream = slots.config().name, .endpoint = endpoint, .reason = what});
}

std::string after_text(uint64_t since_ms, uint64_t now_ms) {
  if (since_ms == 0 || now_ms < since_ms) return "";
  const uint64_t ms = now_ms - since_ms, seconds = ms / 1000, minutes = seconds / 60, hours = minutes / 60;
  if (seconds == 0) return absl::StrCat(" after ", ms, "ms");
  if (minutes == 0) return absl::StrCat(" after ", seconds, ".", ms % 1000 / 100, "s");
  if (hours == 0) return absl::StrCat(" after ", minutes, "m ", seconds % 60, "s");
  return absl::StrCat(" after ", hours, "h ", minutes % 60, "m");
}

}  // namespace sluice
