// YAML text as a tree in which every value and key has its line and column.
//
// The tree is built from the parser's events. The parser's own node type silently drops duplicate keys, and shares
// nodes between aliases, so that a few lines can expand to billions of values.
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

  /// The value of `key`, or nullptr. If the key is duplicated (which parse_yaml() reports), the first value.
  const Node* find(std::string_view key) const;
};

/// Describes a node for messages: `a map`, `a list`, `"text"` or `nothing`.
std::string describe_kind(const Node& node);

/// Bounds on a document: more than any configuration needs, and small enough to hold in memory.
inline constexpr size_t kMaxYamlBytes = size_t{4} << 20;
inline constexpr size_t kMaxYamlDepth = 16;
inline constexpr size_t kMaxYamlNodes = size_t{1} << 19;

/// Parses `text`, one YAML document, into `root`. Findings (syntax, duplicate keys, aliases, tags, bounds) go to
/// `report`. Returns false if `root` is not usable. Aliases and tags are refused, because no key needs them.
bool parse_yaml(std::string_view text, Node& root, Report& report);

}  // namespace sluice::config
