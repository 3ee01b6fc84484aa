#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/log/log_line.h"
#include "proxy/log/log_sink.h"

namespace sluice::config {

/// Whether a text names a syslog daemon: `syslog`, or anything behind `syslog:`.
bool names_syslog(std::string_view text);

/// Where the run-time log goes, as a user writes it: `stderr`, `syslog`, `syslog:PATH`, `syslog:ADDRESS:PORT` or a
/// path.
class LogTarget {
 public:
  /// The socket of the syslog daemon if none is given.
  static constexpr std::string_view kSyslogPath = "/dev/log";

  static absl::StatusOr<LogTarget> parse(std::string_view text);

  const LogDestination& destination() const { return destination_; }
  /// In the form that parse() reads.
  std::string text() const;

  bool operator==(const LogTarget&) const = default;

 private:
  LogDestination destination_;
};

/// The run-time log: the proxy's own messages.
struct Log {
  LogLevel level = LogLevel::kInfo;  ///< Events of lower levels are not logged.
  LogStyle format = LogStyle::kText;
  LogTarget to;

  bool operator==(const Log&) const = default;
};

}  // namespace sluice::config
