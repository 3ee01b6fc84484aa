#pragma once

#include <string>

#include "proxy/config/model/log_condition.h"
#include "proxy/config/model/log_format.h"

namespace sluice::config {

/// An access log: one line for each request of an `http` listener, or for each connection of a `tcp` listener.
struct AccessLog {
  std::string file;  ///< A path, `stdout`, `stderr`, or a syslog daemon as for LogTarget.
  LogFormat format;
  LogCondition when;  ///< What is logged.
  Share sample;       ///< The share of it that is.

  bool operator==(const AccessLog&) const = default;
};

}  // namespace sluice::config
