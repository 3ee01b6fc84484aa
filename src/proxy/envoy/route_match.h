// Conditions of Envoy's routes as `match` of routes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/envoy/message.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {

/// Which paths fit.
struct PathSet {
  enum class Kind : uint8_t {
    kAll,
    kExact,
    kSegments,  ///< The path itself, and those below it.
    kBytes,     ///< Those that begin with these bytes; with a slash at the end the same as Sluice's prefix.
    kRegex,
  };
  Kind kind = Kind::kAll;
  std::string text;
  bool any_case = false;  ///< Whether the case of letters does not count; not of kRegex.

  bool fits(std::string_view path) const;
  bool operator==(const PathSet&) const = default;
};

/// How the paths of a rule relate to those of a route.
enum class Overlap : uint8_t { kNone, kSome, kAll, kUnknown };
/// kAll: all paths of `route` are in `rule`. kSome: those of `rule` are a part of those of `route`.
Overlap overlap_of(const PathSet& route, const PathSet& rule);

struct RouteConditions {
  PathSet path;
  std::vector<std::string> methods;
  std::vector<std::string> peers;
  std::vector<std::string> sources;  ///< Ranges of addresses.
  config::Node headers = list_node();
  config::Node query = list_node();

  /// Whether only the path decides.
  bool is_path_only() const {
    return methods.empty() && peers.empty() && sources.empty() && headers.items.empty() && query.items.empty();
  }
  /// `match`, with these hosts; a map without keys if everything fits.
  config::Node match_node(const std::vector<std::string>& hosts) const;
};

/// Returns nothing if a condition has no counterpart, which a finding says: without it the route would take too much.
std::optional<RouteConditions> map_conditions(const Message& match);

/// The path in the form in which Sluice compares it; nothing if no request can have it.
std::optional<std::string> canonical_path_text(std::string_view path);

/// `text` as a regular expression that fits only it.
std::string quoted_regex(std::string_view text);
/// Writes a StringMatcher to the keys of a condition. Returns false if it has no counterpart.
bool put_string_matcher(const Message& matcher, config::Node& out);

/// Envoy's host patterns as a configuration has them: a star of Envoy stands for one label or more, as `**` does.
std::vector<std::string> deep_hosts(std::vector<std::string> hosts);

}  // namespace sluice::envoy
