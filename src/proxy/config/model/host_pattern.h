// Patterns for host names.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::config {

/// A host name such as `a.example.com`, or a wildcard. As in a certificate, the star of `*.example.com` stands for
/// exactly one label, so the pattern matches `a.example.com` but neither `example.com` nor `a.b.example.com` (RFC 9525
/// section 6.3). The stars of `**.example.com` stand for one label or more.
///
///   absl::StatusOr<HostPattern> pattern = HostPattern::parse("*.Example.com");
///   if (pattern.ok()) assert(pattern->text() == "*.example.com");
class HostPattern {
 public:
  HostPattern() = default;

  static absl::StatusOr<HostPattern> parse(std::string_view text);

  /// In lower case, with the star.
  const std::string& text() const { return text_; }
  /// Whether it is like `**.example.com`.
  bool is_deep() const { return text_.starts_with("**"); }

  bool operator==(const HostPattern&) const = default;

 private:
  std::string text_;
};

}  // namespace sluice::config
