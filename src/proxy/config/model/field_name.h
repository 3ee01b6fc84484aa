#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::config {

/// The name of a header field (RFC 9110 section 5.1), in lower case: `X-Env` and `x-env` are equal.
class FieldName {
 public:
  FieldName() = default;

  static absl::StatusOr<FieldName> parse(std::string_view text);

  const std::string& text() const { return text_; }

  bool operator==(const FieldName&) const = default;

 private:
  std::string text_;
};

}  // namespace sluice::config
