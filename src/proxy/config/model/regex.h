#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace re2 {
class RE2;
}

namespace sluice::config {

/// A regular expression in RE2's syntax. It is compiled once, and matching takes time linear in the subject. It matches
/// bytes: `.` is any one byte. Copies share the compiled program, and several threads may use it at once.
///
///   absl::StatusOr<Regex> regex = Regex::parse("/users/([0-9]+)");
///   regex->fits("/users/12");      // true
///   regex->fits("/users/12/x");    // false: the whole text must match
class Regex {
 public:
  /// Bounds on one expression, so that a configuration's total is bounded: its text, and the memory of the compiled
  /// program with RE2's cached states.
  static constexpr size_t kMaxTextBytes = 1024;
  static constexpr size_t kMaxMemoryBytes = size_t{1} << 20;

  /// None: is_set() is false.
  Regex() = default;

  static absl::StatusOr<Regex> parse(std::string_view text);

  bool is_set() const { return compiled_ != nullptr; }
  /// Whether all of `subject` matches. Precondition: is_set(). Allocates only when RE2 builds a state that it has not
  /// cached yet.
  bool fits(std::string_view subject) const;
  /// Writes `substitution` to `room`, with `\1` to `\9` replaced by the text of the capture groups and `\0` by the
  /// whole match, and returns a view of it. Returns `subject` itself if it does not match, and nullopt if `room` is too
  /// small. Preconditions: is_set() and accepts(substitution). May allocate, if RE2 cannot find the groups in one pass.
  std::optional<std::string_view> substitute(std::string_view subject, std::string_view substitution,
                                             std::span<char> room) const;
  /// OK, or the mistake in a substitution: an invalid escape, or a group that does not exist.
  absl::Status accepts(std::string_view substitution) const;

  const std::string& text() const { return text_; }
  bool operator==(const Regex& other) const { return text_ == other.text_; }

 private:
  std::string text_;
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace sluice::config
