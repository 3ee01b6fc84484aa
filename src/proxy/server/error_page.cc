#include "proxy/server/error_page.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace sluice {

namespace {

std::string line_time(int64_t ms) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(ms), absl::UTCTimeZone());
}

}  // namespace

void write_recent_lines(const RunLog& log, JsonWriter& json) {
  json.member("warnings", log.lines(LogLevel::kWarning)).member("errors", log.lines(LogLevel::kError));
  json.member("limit", RecentLines::kLines).key("lines").begin_array();
  for (const RecentLines::Line& kept : log.recent().lines()) {
    const LogRecord& line = kept.last;
    json.begin_object().member("time", line_time(line.time_ms)).member("level", log_level_name(line.level));
    json.member("text", line.text).member("times", kept.times).member("first", line_time(kept.first_ms));
    const auto part = [&](std::string_view name, const std::string& value) {
      json.key(name);
      value.empty() ? json.null() : json.value(value);
    };
    part("listener", line.listener);
    part("client", line.client);
    part("upstream", line.upstream);
    part("endpoint", line.endpoint);
    part("reason", line.reason);
    json.end_object();
  }
  json.end_array();
}

}  // namespace sluice
