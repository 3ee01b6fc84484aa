#pragma once

#include <string>
#include <string_view>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/access_log.h"

namespace sluice::config {

/// What the lines of an access log are about.
enum class LogSubject : uint8_t { kRequest, kConnection };

/// What requests to an OpenTelemetry collector are like. `usual_path` is for the message.
struct OtlpRequests {
  std::string_view path, service_name, usual_path;
};
void check_otlp(const OtlpRequests& requests, const std::string& path, Report& report);

/// Checks an access log beyond the types of its values. `path` is the path of the log.
void check_access_log(const AccessLog& log, LogSubject subject, const std::string& path, Report& report);

}  // namespace sluice::config
