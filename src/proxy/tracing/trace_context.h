// The position of a request in a distributed trace: W3C Trace Context, Level 1.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace sluice {

/// A traceparent: `00-` trace id `-` parent id `-` flags (section 3.2).
struct TraceParent {
  static constexpr size_t kTraceIdDigits = 32, kParentIdDigits = 16, kFlagDigits = 2;
  static constexpr size_t kBytes = 3 + kTraceIdDigits + 1 + kParentIdDigits + 1 + kFlagDigits;
  static constexpr size_t kTraceIdAt = 3;  ///< Where the trace ID begins in the text.
  using Text = std::array<char, kBytes>;

  /// Returns nothing if the value breaks a rule: an ID of zeros, uppercase digits, version ff. A later version is read
  /// as far as this version defines it (section 3.2.4).
  static std::optional<TraceParent> parse(std::string_view text);
  /// In version 00.
  Text text() const;

  std::array<char, kTraceIdDigits> trace_id;
  std::array<char, kParentIdDigits> parent_id;
  bool sampled = false;  ///< Whether the caller may have recorded it.
};

}  // namespace sluice
