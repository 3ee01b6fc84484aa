// Sets of paths, as conditions of routes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/convert/common/yaml_writer.h"

namespace sluice::convert {

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

/// Writes it to `path` of a `match`, unless all paths fit.
void put_path(config::Node& match, const PathSet& path);

/// The path in the form in which Sluice compares it; nothing if no request can have it.
std::optional<std::string> canonical_path_text(std::string_view path);

/// `text` as a regular expression that fits only it.
std::string quoted_regex(std::string_view text);

}  // namespace sluice::convert
