#include "proxy/log/log_line.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "absl/strings/str_cat.h"
#include "proxy/common/utf8.h"
#include "proxy/log/line_writer.h"

namespace sluice {

namespace {

constexpr std::string_view kCutMark = "...";

// The parts of a JSON line. With its punctuation and numbers it stays below kMaxRunLogLineBytes.
constexpr size_t kJsonMessageBytes = 2048, kJsonReasonBytes = 512, kJsonNameBytes = 256;
static_assert(kJsonMessageBytes + kJsonReasonBytes + 4 * kJsonNameBytes + 256 <= kMaxRunLogLineBytes);

// Of syslog: the facility `daemon`, and severities (RFC 5424 section 6.2.1).
constexpr int kFacility = 3;

int severity_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 7;
    case LogLevel::kInfo:
      return 6;
    case LogLevel::kWarning:
      return 4;
    case LogLevel::kError:
      return 3;
  }
  return 3;
}

std::string time_text(int64_t ms) {
  std::array<char, 32> time;
  LineWriter writer(time.data());
  writer.time(ms);
  return {time.data(), writer.end()};
}

// Whether the character of `size` bytes at the front is safe to write. Not: control characters of ASCII and of
// Unicode (U+0080 to U+009F), and the separators of lines and paragraphs (U+2028, U+2029).
bool is_visible(std::string_view text, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (size == 1) return byte(0) >= 0x20 && byte(0) != 0x7f;
  if (size == 2) return byte(0) != 0xc2 || byte(1) >= 0xa0;
  return !(size == 3 && byte(0) == 0xe2 && byte(1) == 0x80 && (byte(2) == 0xa8 || byte(2) == 0xa9));
}

// Appends `text`, up to a size of `line` of `max`.
void append_visible(std::string& line, std::string_view text, size_t max) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  size_t cut = line.size();  // Where kCutMark goes if the text does not fit.
  while (!text.empty()) {
    if (line.size() + kCutMark.size() <= max) cut = line.size();
    const size_t size = utf8_bytes(text);
    const bool visible = size > 0 && is_visible(text, size);
    const size_t taken = visible ? size : 1, written = visible ? size : 4;
    if (line.size() + written > max) {
      line.resize(cut);
      line += kCutMark;
      return;
    }
    if (visible) {
      line += text.substr(0, taken);
    } else {
      const auto byte = static_cast<unsigned char>(text.front());
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
    text.remove_prefix(taken);
  }
}

void append_member(std::string& line, std::string_view key, std::string_view value, size_t max) {
  if (value.empty()) return;
  std::array<char, kJsonMessageBytes> room;
  LineWriter writer(room.data());
  writer.json_text(value, max);
  absl::StrAppend(&line, line.back() == '{' ? "\"" : ",\"", key, "\":\"", std::string_view(room.data(), writer.end()),
                  "\"");
}

std::string json_of(const LogRecord& record) {
  std::string line = "{";
  append_member(line, "ts", time_text(record.time_ms), kJsonNameBytes);
  append_member(line, "level", log_level_name(record.level), kJsonNameBytes);
  absl::StrAppend(&line, ",\"pid\":", getpid());
  append_member(line, "message", record.text, kJsonMessageBytes);
  append_member(line, "listener", record.listener, kJsonNameBytes);
  append_member(line, "client", record.client, kJsonNameBytes);
  append_member(line, "upstream", record.upstream, kJsonNameBytes);
  append_member(line, "endpoint", record.endpoint, kJsonNameBytes);
  append_member(line, "reason", record.reason, kJsonReasonBytes);
  line += '}';
  return line;
}

// A value of a header of RFC 5424: visible ASCII without spaces.
std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "-";
  const std::string text = name.data();
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  return plain && !text.empty() ? text : "-";
}

std::string front_of(const LogRecord& record, LogStyle style, LogFraming framing) {
  switch (framing) {
    case LogFraming::kJournal:
      return absl::StrCat("<", severity_of(record.level), ">");
    case LogFraming::kSyslog:
      return syslog_header(record.time_ms, record.level, "-");
    case LogFraming::kPlain:
      break;
  }
  if (style == LogStyle::kJson) return "";
  return absl::StrCat(time_text(record.time_ms), " ", log_level_name(record.level), " sluice: ");
}

}  // namespace

std::string syslog_header(int64_t time_ms, LogLevel level, std::string_view kind) {
  return absl::StrCat("<", kFacility * 8 + severity_of(level), ">1 ", time_text(time_ms), " ", host_name(), " sluice ",
                      getpid(), " ", kind, " - ");
}

std::string_view log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// Longer texts are cut anyway; a copy of all of it would only take memory.
LogRecord::LogRecord(int64_t now_ms, LogLevel its_level, std::string_view its_text, const LogFields& fields)
    : time_ms(now_ms),
      level(its_level),
      text(its_text.substr(0, kMaxRunLogLineBytes)),
      listener(fields.listener.substr(0, kJsonNameBytes)),
      client(fields.client.substr(0, kJsonNameBytes)),
      upstream(fields.upstream.substr(0, kJsonNameBytes)),
      endpoint(fields.endpoint.substr(0, 2 * kJsonNameBytes)),
      reason(fields.reason.substr(0, kJsonReasonBytes)) {}

std::string format_log_line(const LogRecord& record, LogStyle style, LogFraming framing) {
  std::string line = front_of(record, style, framing);
  const size_t counted = framing == LogFraming::kSyslog ? line.size() : 0;
  if (style == LogStyle::kJson) {
    line += json_of(record);
  } else {
    append_visible(line, record.text, counted + kMaxRunLogLineBytes - 1);
  }
  line += '\n';
  return line;
}

}  // namespace sluice
