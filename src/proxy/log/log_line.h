// The lines of the run-time log, as text and JSON, and as its destinations need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
inline constexpr size_t kLogLevels = 4;
std::string_view log_level_name(LogLevel level);

enum class LogStyle : uint8_t { kText, kJson };

/// What stands in front of a line.
enum class LogFraming : uint8_t {
  kPlain,    ///< Text: the time, the level and the program's name. JSON: nothing.
  kJournal,  ///< `<N>`, the priority: the journal adds the rest (sd-daemon(3)).
  kSyslog,   ///< The header of RFC 5424.
};

/// What an event is about, for readers of JSON. The text of the line says it too.
struct LogFields {
  std::string_view listener = {}, client = {}, upstream = {}, endpoint = {}, reason = {};
};

/// One event, with copies of all that is known about it.
struct LogRecord {
  LogRecord(int64_t now_ms, LogLevel its_level, std::string_view its_text, const LogFields& fields);

  /// The memory that it counts for in a queue.
  size_t bytes() const {
    return sizeof(LogRecord) + text.size() + listener.size() + client.size() + upstream.size() + endpoint.size() +
           reason.size();
  }

  int64_t time_ms;  ///< Since 1970.
  LogLevel level;
  std::string text, listener, client, upstream, endpoint, reason;
};

/// The maximum size of a line, with its newline but without the header of RFC 5424. A longer one is cut.
inline constexpr size_t kMaxRunLogLineBytes = 4096;

/// The header of RFC 5424 for an event at a time, in milliseconds since 1970, up to its message. `kind` is its MSGID.
std::string syslog_header(int64_t time_ms, LogLevel level, std::string_view kind);

/// Formats a record as one line that ends with its only '\n'. In text, control characters and bytes that are not UTF-8
/// are written as `\xNN`, so that no peer can forge a line or control a terminal; JSON has its own escapes.
std::string format_log_line(const LogRecord& record, LogStyle style, LogFraming framing);

}  // namespace sluice
