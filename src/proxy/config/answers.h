// What is logged of requests, and what clients are told of failures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/text_template.h"

namespace sluice::config {

/// How a line of the access log looks.
enum class LogFormat : uint8_t { kText, kJson };

/// Where it goes: a file, `stdout` or `stderr`.
struct AccessLogFile {
  std::string file;  ///< Empty: nowhere.
  LogFormat format = LogFormat::kText;
  std::string line;  ///< A format of the user's own, in the place of `format`.

  bool operator==(const AccessLogFile&) const = default;
};

/// The body of our own answers of some statuses.
struct ErrorBody {
  std::vector<uint32_t> status;  ///< 400 to 599.
  std::string body;              ///< Either this
  std::string file;              ///< or this, which is read at the start.
  std::string content_type = "text/html; charset=utf-8";

  bool operator==(const ErrorBody&) const = default;
};

}  // namespace sluice::config
