// What is logged of requests, and what clients are told of failures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/error_text.h"
#include "proxy/config/model/log_format.h"

namespace sluice::config {

/// A line for each request.
struct AccessLog {
  std::string file;  ///< Or `stdout`, or `stderr`.
  LogFormat format;

  bool operator==(const AccessLog&) const = default;
};

/// Statuses of our own answers that are failures: `404`, or `5xx`.
class StatusPattern {
 public:
  static absl::StatusOr<StatusPattern> parse(std::string_view text);

  bool holds(uint32_t status) const { return status >= first_ && status <= last_; }
  std::string text() const;

  bool operator==(const StatusPattern&) const = default;

 private:
  uint32_t first_ = 0, last_ = 0;
};

/// The body of our own answers of some statuses.
struct ErrorBody {
  std::vector<StatusPattern> status;
  ErrorText body;    ///< Either this
  std::string file;  ///< or this, which is read at the start.
  std::string content_type = "text/html; charset=utf-8";

  bool operator==(const ErrorBody&) const = default;
};

}  // namespace sluice::config
