#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/config/model/config.h"

namespace sluice {

enum class PathStatus : uint8_t {
  kSame,     ///< It was canonical already.
  kChanged,  ///< What it said has a shorter or a more usual form.
  kInvalid,  ///< 400.
};

/// What only the rules of config::Paths allowed, to be counted.
struct PathRelaxations {
  bool merged_slashes = false;
  bool escaped_slashes = false;  ///< Kept or decoded.
  bool backslashes = false;
  bool dot_parameters = false;

  bool operator==(const PathRelaxations&) const = default;
};

struct CanonicalTarget {
  PathStatus status = PathStatus::kInvalid;
  std::string_view target;  ///< Path and query.
  size_t path_bytes = 0;    ///< Of the path in it.
  PathRelaxations relaxed;
  const char* error = nullptr;  ///< With kInvalid: what it has, such as "a fragment".

  std::string_view path() const { return target.substr(0, path_bytes); }
};

/// The one form of a request's target that routes, logs and upstreams see, so that they cannot differ about what it
/// names:
/// - letters, digits, `-`, `.`, `_` and `~` are not escaped; other escapes stay, with capital digits (RFC 3986 section
///   6.2.2). They are looked at once: `%252e` stays as it is;
/// - there are no dot segments, escaped ones included. One that leads out of the root makes the target invalid, as does
///   one beside a backslash, or beside an escaped slash that is kept: it is a dot segment to some servers;
/// - slashes and backslashes are as `rules` say.
/// The query stays as it is. It may hold visible characters of ASCII but no `#`; so may the path. `*` is canonical.
///
/// The result is a view of `target` (kSame), or of `scratch` (kChanged), which has room for target.size() bytes and
/// does not overlap it. It is never longer than the target, and canonical itself under the same rules.
///
///     std::array<char, 8192> scratch;
///     const CanonicalTarget canonical = canonical_target("/a/%7Eb/../c?d", rules, scratch);
///     // kChanged; target is "/a/c?d", path() is "/a/c"
CanonicalTarget canonical_target(std::string_view target, const config::Paths& rules, std::span<char> scratch);

/// The host of an authority (host [":" port]), for routes: in lower case, without the port, and without the dot at the
/// end of a name. IPv6 addresses stay in their brackets. A view of `authority`, or of `scratch`, which has room for
/// authority.size() bytes and does not overlap it.
std::string_view canonical_host(std::string_view authority, std::span<char> scratch);

}  // namespace sluice
