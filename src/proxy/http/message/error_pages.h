// What a client reads when this proxy itself has to tell it of a failure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/accept.h"

namespace sluice {

/// A failure that a client is told of. Views.
struct OwnError {
  uint16_t status;
  std::string_view reason;   ///< Its fixed word: http_end_name().
  std::string_view message;  ///< A few more, for people; no quotes, no backslashes.
  std::string_view request_id = {}, trace_id = {};
};

/// A body with its type. Good until the thread asks for the next one.
struct OwnBody {
  std::string_view content_type, text;
};

/// The bodies of a listener's own answers: as they are configured, else a line of text, or JSON. All workers share it.
class ErrorPages {
 public:
  ErrorPages() = default;
  explicit ErrorPages(const config::Http& http) : errors_(http.errors) {}

  /// Reads the files that are named. Call before it is used. The error is for the user.
  absl::Status read_files();

  /// In the form that the client likes best: a page of the first entry for the status, among those that are JSON or
  /// those that are not.
  OwnBody body(const OwnError& error, ErrorForm form) const;

 private:
  std::vector<config::ErrorBody> errors_;
};

}  // namespace sluice
