// Patterns for the server name of a TLS ClientHello.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::config {

/// `a.example.com`, or `*.example.com` as in a certificate: the star stands for exactly one label, so it matches
/// `a.example.com` and neither `example.com` nor `a.b.example.com` (RFC 9525 section 6.3).
///
///   absl::StatusOr<SniPattern> pattern = SniPattern::parse("*.Example.com");
///   if (pattern.ok()) assert(pattern->matches("api.example.com"));
class SniPattern {
 public:
  SniPattern() = default;

  static absl::StatusOr<SniPattern> parse(std::string_view text);

  /// `name` must be in lower case, as the pattern is; it has no dot at its end (RFC 6066 section 3).
  bool matches(std::string_view name) const;

  bool is_wildcard() const { return text_.starts_with('*'); }
  /// In lower case, with the star.
  const std::string& text() const { return text_; }

  bool operator==(const SniPattern&) const = default;

 private:
  std::string text_;
};

}  // namespace sluice::config
