#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::config {

/// A variable in the body of an error response. A client controls none of them, so they need no escaping in HTML or
/// JSON.
enum class ErrorVariable : uint8_t {
  kNone,       ///< Literal text.
  kStatus,     ///< `status`: 503
  kReason,     ///< `reason`: the reason in the access log and the counters, such as no_endpoint.
  kMessage,    ///< `message`: a longer description of the reason.
  kRequestId,  ///< `request_id`: empty if there is none.
  kTraceId,    ///< `trace_id`: empty if there is none.
};

/// The body of an error response, with variables such as `%{status}`. Any other percent sign is literal, as style
/// sheets need it.
class ErrorText {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 10, kMaxVariables = 64;

  struct Piece {
    ErrorVariable variable = ErrorVariable::kNone;
    std::string text;  ///< The literal text; empty for a variable.

    bool operator==(const Piece&) const = default;
  };

  ErrorText() = default;
  static absl::StatusOr<ErrorText> parse(std::string_view text);

  const std::vector<Piece>& pieces() const { return pieces_; }
  bool empty() const { return text_.empty(); }
  /// In the form that parse() reads.
  const std::string& text() const { return text_; }

  bool operator==(const ErrorText&) const = default;

 private:
  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace sluice::config
