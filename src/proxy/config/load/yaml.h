// YAML text as a tree in which every value and key has its line and column.
//
// The tree is built from the parser's events. The parser's own node type silently drops duplicate keys, and shares
// nodes between aliases, so that a few lines can expand to billions of values. Here each alias is a copy, and counts
// against the bounds as if it were written out.
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
  bool unusable = false;  ///< kScalar: a finding already says why it has no value.
  Mark mark;
  std::string text;         ///< kScalar: the value, without quotes and with the values of its variables.
  std::vector<Node> items;  ///< kList: the items; kMap: the values.
  std::vector<Node> keys;   ///< kMap: one key (kScalar) for each value.

  /// The value of `key`, or nullptr. If the key is duplicated (which parse_yaml() reports), the first value.
  const Node* find(std::string_view key) const;
};

/// Describes a node for messages: `a map`, `a list`, `"text"` or `nothing`.
std::string describe_kind(const Node& node);

/// Bounds on a configuration, with what its aliases copy and the values of its variables: more than any configuration
/// needs, and small enough to hold in memory.
inline constexpr size_t kMaxYamlBytes = size_t{4} << 20;
inline constexpr size_t kMaxYamlDepth = 16;
inline constexpr size_t kMaxYamlNodes = size_t{1} << 19;

/// What the files of a configuration may still have, together, and what they may use.
struct YamlBudget {
  size_t bytes = kMaxYamlBytes;  ///< Of the files, of copied texts, and of the values of variables.
  size_t nodes = kMaxYamlNodes;  ///< Keys and values.
  size_t depth = kMaxYamlDepth;  ///< Containers inside each other.
  bool has_variables = true;     ///< Whether `${NAME}` in a value stands for a variable.
};

/// Parses `text`, one YAML document and the file of this number in `report`, into `root`. What it has is taken from
/// `budget`. Findings (syntax, duplicate keys, tags, variables, bounds) go to `report`. Returns false if `root` is not
/// usable. Tags are refused, because no key needs them.
///
/// An alias (`*name`) becomes a copy of the value with that anchor (`&name`), whose parts keep their positions. A merge
/// key (`<<`) is replaced by those keys of its map, or of its list of maps, that the map around it does not have; of
/// several in the list the first counts. Variables in values are those of variables.h; a value that has none, because
/// of its variables, is `unusable`.
bool parse_yaml(std::string_view text, uint32_t file, YamlBudget& budget, Node& root, Report& report);

}  // namespace sluice::config
