#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/config/model/config.h"

namespace sluice {

enum class PathStatus : uint8_t {
  kSame,     ///< The target was canonical already.
  kChanged,  ///< The target was rewritten to its canonical form.
  kInvalid,  ///< The target has no canonical form that is allowed. 400
};

/// What was accepted only because options of config::Paths allow it, for the counters.
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
  size_t path_bytes = 0;    ///< The size of the path in `target`.
  PathRelaxations relaxed;
  const char* error = nullptr;  ///< With kInvalid, what is wrong with it, such as "a fragment".

  std::string_view path() const { return target.substr(0, path_bytes); }
};

/// Returns the canonical form of a request target. Routes, logs and upstreams see only this form, so that they cannot
/// disagree about the resource that it names:
/// - Letters, digits, `-`, `.`, `_` and `~` are not escaped; other escapes stay, with capital digits (RFC 3986 section
///   6.2.2). Escapes are decoded only once: `%252e` stays as it is.
/// - There are no dot segments, escaped ones included. One that leads out of the root makes the target invalid, as does
///   one next to a backslash or to an escaped slash that is kept: some servers treat it as a dot segment.
/// - Slashes and backslashes are handled according to `rules`.
/// The query is not changed. Path and query may contain only visible ASCII characters, and no `#`. `*` is canonical.
///
/// The result is a view of `target` (kSame) or of `scratch` (kChanged). Precondition: `scratch` has room for
/// target.size() bytes and does not overlap it. The result is never longer than the target, and is itself canonical
/// under the same rules.
///
///     std::array<char, 8192> scratch;
///     const CanonicalTarget canonical = canonical_target("/a/%7Eb/../c?d", rules, scratch);
///     // kChanged; target is "/a/c?d", path() is "/a/c"
CanonicalTarget canonical_target(std::string_view target, const config::Paths& rules, std::span<char> scratch);

/// Returns the host of an authority (host [":" port]) for matching routes: in lower case, without the port, and without
/// the trailing dot of a name. IPv6 addresses keep their brackets. The result is a view of `authority` or of `scratch`,
/// which has room for authority.size() bytes and does not overlap it.
std::string_view canonical_host(std::string_view authority, std::span<char> scratch);

}  // namespace sluice
