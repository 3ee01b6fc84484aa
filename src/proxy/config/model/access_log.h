#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proxy/config/model/log_condition.h"
#include "proxy/config/model/log_format.h"

namespace sluice::config {

/// Log records for an OpenTelemetry collector, by OTLP over HTTP.
struct OtlpLogs {
  std::string path = "/v1/logs";  ///< As the OTLP specification has it.
  std::string service_name = "sluice";

  bool operator==(const OtlpLogs&) const = default;
};

/// Whether a target of an access log names a collector: `otlp:UPSTREAM`; and the upstream.
inline bool names_otlp(std::string_view file) { return file == "otlp" || file.starts_with("otlp:"); }
inline std::string_view otlp_upstream(std::string_view file) {
  constexpr std::string_view kPrefix = "otlp:";
  return file.starts_with(kPrefix) ? file.substr(kPrefix.size()) : std::string_view();
}

/// An access log: one line for each request of an `http` listener, or for each connection of a `tcp` listener.
struct AccessLog {
  std::string file;  ///< A path, `stdout`, `stderr`, a syslog daemon as for LogTarget, or `otlp:UPSTREAM`.
  LogFormat format;
  LogCondition when;             ///< What is logged.
  Share sample;                  ///< The share of it that is.
  std::optional<OtlpLogs> otlp;  ///< For `otlp:UPSTREAM` only.

  bool operator==(const AccessLog&) const = default;
};

}  // namespace sluice::config
