#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/config/model/text_template.h"

namespace sluice::config {

/// The format of an access log line: `default`, `json`, or a text with variables.
class LogFormat {
 public:
  enum class Kind : uint8_t { kDefault, kJson, kText };
  /// Bounds on a text: its bytes, and its response_header variables, whose values are kept until the request has ended.
  static constexpr size_t kMaxBytes = 2048, kMaxResponseFields = 8;

  static absl::StatusOr<LogFormat> parse(std::string_view text);

  Kind kind() const { return kind_; }
  /// The text of a kText format.
  const TextTemplate& line() const { return line_; }
  bool uses_response_fields() const;
  /// In the form that parse() reads.
  std::string_view text() const;

  bool operator==(const LogFormat&) const = default;

 private:
  Kind kind_ = Kind::kDefault;
  TextTemplate line_;
};

}  // namespace sluice::config
