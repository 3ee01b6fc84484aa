#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::config {

/// What the body of a failure may say of it: nothing that a client could choose, so that it needs no escaping in HTML
/// or JSON.
enum class ErrorVariable : uint8_t {
  kNone,       ///< It stands as it is written.
  kStatus,     ///< `status`: 503
  kReason,     ///< `reason`: the word of the access log and the counters, such as no_endpoint,
  kMessage,    ///< `message`: and some more.
  kRequestId,  ///< `request_id`: empty where there is none.
  kTraceId,    ///< `trace_id`: the same.
};

/// A body with such variables: `%{status}`. Any other percent sign stands for itself, as in style sheets.
class ErrorText {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 10, kMaxVariables = 64;

  struct Piece {
    ErrorVariable variable = ErrorVariable::kNone;
    std::string text;  ///< What stands there.

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
