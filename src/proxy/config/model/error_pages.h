// The bodies of error responses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/error_text.h"

namespace sluice::config {

/// One error status or a class of them: `404` or `5xx`. Applies to responses that Sluice makes itself.
class StatusPattern {
 public:
  static absl::StatusOr<StatusPattern> parse(std::string_view text);

  bool holds(uint32_t status) const { return status >= first_ && status <= last_; }
  std::string text() const;

  bool operator==(const StatusPattern&) const = default;

 private:
  uint32_t first_ = 0, last_ = 0;
};

/// The body of Sluice's own responses with certain statuses.
struct ErrorBody {
  std::vector<StatusPattern> status;
  ErrorText body;    ///< Either this or `file`.
  std::string file;  ///< Path of a file that is read at start-up.
  std::string content_type = "text/html; charset=utf-8";

  bool operator==(const ErrorBody&) const = default;
};

}  // namespace sluice::config
