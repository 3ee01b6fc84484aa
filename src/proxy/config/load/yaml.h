// YAML text as a tree whose every value and key knows its line and column.
//
// The tree is built from the parser's events instead of its own node type, which drops duplicate keys silently and
// shares nodes between aliases (so that a few lines can stand for billions of values).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/diagnostics.h"

namespace sluice::config {

/// One value of the file.
struct Node {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  Mark mark;
  std::string text;         ///< kScalar: the value, without quotes.
  std::vector<Node> items;  ///< kList: the items; kMap: the values.
  std::vector<Node> keys;   ///< kMap: one key (kScalar) for each value.

  /// The value under `key`, or nullptr; the first, should it be there twice (which the parser has reported).
  const Node* find(std::string_view key) const;
};

/// `a map`, `a list`, `"text"` or `nothing`, for messages.
std::string describe_kind(const Node& node);

/// Bounds: deeper or larger than any configuration needs, and harmless to hold.
inline constexpr size_t kMaxYamlBytes = size_t{4} << 20;
inline constexpr size_t kMaxYamlDepth = 16;
inline constexpr size_t kMaxYamlNodes = size_t{1} << 19;

/// Parses `text`, one YAML document. Findings (syntax, duplicate keys, aliases, tags, bounds) go to `report`; false
/// means that there is no tree to go on with. Aliases and tags are refused: no key needs them.
bool parse_yaml(std::string_view text, Node& root, Report& report);

}  // namespace sluice::config
