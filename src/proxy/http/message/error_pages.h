// Bodies of the error responses that the proxy itself sends to clients.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/accept.h"

namespace sluice {

/// A failure to report to a client. It refers to the strings, which must outlive it.
struct OwnError {
  uint16_t status;
  std::string_view reason;   ///< A fixed word: http_end_name().
  std::string_view message;  ///< A few more words for people; no quotes, no backslashes.
  std::string_view request_id = {}, trace_id = {};
};

/// A body with its type. Valid until the next call on this thread.
struct OwnBody {
  std::string_view content_type, text;
};

/// The bodies of a listener's own error responses: the configured ones, else a line of text, or JSON. All workers share
/// it.
class ErrorPages {
 public:
  ErrorPages() = default;
  explicit ErrorPages(const config::Http& http) : errors_(http.errors) {}

  /// Reads the configured files. Call it before first use. The error message is for the user.
  absl::Status read_files();

  /// The body of an error response in the given form. It comes from the first configured entry that has the status and
  /// is JSON for a JSON form, or is not JSON for plain text; else from the built-in form.
  OwnBody body(const OwnError& error, ErrorForm form) const;

 private:
  std::vector<config::ErrorBody> errors_;
};

}  // namespace sluice
