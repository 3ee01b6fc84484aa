#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/text_template.h"

namespace sluice::config {

/// A condition on a line of an access log, such as `status >= 500 or duration > 1s`.
///
///     condition  = and-terms { "or" and-terms }
///     and-terms  = term { "and" term }
///     term       = "not" term | "(" condition ")" | field operator value
///     field      = a variable of formats, without its %{}; or "random", a new number from 0 to 1 each time
///     operator   = "==" | "!=" | "<" | "<=" | ">" | ">="       of texts only the first two
///     value      = number [ unit ] | word | "'" text "'" | '"' text '"'
///
/// A parsed condition is a tree of nodes in one vector, so evaluating it needs no memory.
class LogCondition {
 public:
  /// Bounds on a text: its bytes, and how deep parentheses and `not` may be nested.
  static constexpr size_t kMaxBytes = 1024, kMaxDepth = 32;
  /// The number that stands for 1 in comparisons with `random`.
  static constexpr uint64_t kRandomOne = uint64_t{1} << 32;

  enum class Operator : uint8_t { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual };

  struct Node {
    enum class Kind : uint8_t {
      kAnd,     ///< left and right
      kOr,      ///< left or right
      kNot,     ///< not left
      kNumber,  ///< The number of `field`, by `comparison`, against `number`.
      kText,    ///< The text of `field`, by `comparison`, against `text`.
      kRandom,  ///< A random number below kRandomOne, by `comparison`, against `number`.
    };

    Kind kind = Kind::kAnd;
    Operator comparison = Operator::kEqual;
    uint32_t left = 0, right = 0;  ///< Indices of nodes in front of this one.
    TextTemplate::Piece field = {};
    uint64_t number = 0;  ///< Times are in microseconds.
    std::string text = {};

    bool operator==(const Node&) const = default;
  };

  /// An error names the place in the text, as `character N`, counted from 1.
  static absl::StatusOr<LogCondition> parse(std::string_view text);

  /// The tree, whose root is the last node. Empty: the condition always holds.
  const std::vector<Node>& nodes() const { return nodes_; }
  bool empty() const { return nodes_.empty(); }
  /// In the form that parse() reads.
  const std::string& text() const { return text_; }

  bool operator==(const LogCondition&) const = default;

 private:
  std::string text_;
  std::vector<Node> nodes_;
};

/// A share of all lines, from 0.000001 to 1.
class Share {
 public:
  static constexpr uint32_t kOne = 1'000'000;

  static absl::StatusOr<Share> parse(std::string_view text);

  bool is_all() const { return millionths_ == kOne; }
  uint32_t millionths() const { return millionths_; }
  /// In the form that parse() reads.
  std::string text() const;

  bool operator==(const Share&) const = default;

 private:
  uint32_t millionths_ = kOne;
};

}  // namespace sluice::config
