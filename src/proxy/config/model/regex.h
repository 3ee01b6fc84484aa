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

/// A regular expression in RE2's syntax, which is compiled once, and takes time that is linear in what it looks at. It
/// is about bytes: `.` is any one of them. Copies share it, and several threads may use it at once.
///
///   absl::StatusOr<Regex> regex = Regex::parse("/users/([0-9]+)");
///   regex->fits("/users/12");      // true
///   regex->fits("/users/12/x");    // false: it is about the whole text
class Regex {
 public:
  /// Of one, so that those of a configuration are bounded: of the text, and of what it is compiled to, with the states
  /// that RE2 keeps to be fast.
  static constexpr size_t kMaxTextBytes = 1024;
  static constexpr size_t kMaxMemoryBytes = size_t{1} << 20;

  /// None: is_set() is false.
  Regex() = default;

  static absl::StatusOr<Regex> parse(std::string_view text);

  bool is_set() const { return compiled_ != nullptr; }
  /// Whether all of `subject` fits. Precondition: is_set(). It allocates only where RE2 makes itself a state that it
  /// had not needed before.
  bool fits(std::string_view subject) const;
  /// `substitution` with `\1` to `\9` replaced by what the groups of parentheses took, and `\0` by all of it, in
  /// `room`; `subject` itself where it does not fit. Nothing where the room is too small. Preconditions: is_set(), and
  /// accepts(substitution). It may allocate, where RE2 cannot tell the groups apart in one pass.
  std::optional<std::string_view> substitute(std::string_view subject, std::string_view substitution,
                                             std::span<char> room) const;
  /// OK, or what is wrong with a substitution: an escape that is none, a group that there is not.
  absl::Status accepts(std::string_view substitution) const;

  const std::string& text() const { return text_; }
  bool operator==(const Regex& other) const { return text_ == other.text_; }

 private:
  std::string text_;
  std::shared_ptr<const re2::RE2> compiled_;
};

}  // namespace sluice::config
