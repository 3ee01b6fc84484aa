#include "proxy/convert/common/path_set.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/model/config.h"
#include "proxy/router/canonical_path.h"

namespace sluice::convert {
namespace {

using Kind = PathSet::Kind;

std::string whole_regex(const PathSet& path) {
  const std::string quoted = absl::StrCat(path.any_case ? "(?i)" : "", quoted_regex(path.text));
  switch (path.kind) {
    case Kind::kBytes:
      return quoted + ".*";
    case Kind::kSegments:
      return quoted + "(/.*)?";
    default:
      return quoted;
  }
}

bool is_prefix_of_all(const PathSet& rule, const PathSet& route) {
  if (rule.kind == Kind::kBytes) return route.text.starts_with(rule.text);
  if (rule.kind != Kind::kSegments) return false;
  const bool same = route.kind == Kind::kSegments && route.text == rule.text;
  return same || route.text.starts_with(rule.text + "/");
}

// What all paths of an expression begin with, as far as that is plain to see.
std::string literal_beginning(std::string_view regex) {
  if (absl::StrContains(regex, '|') || absl::StrContains(regex, "(?") || absl::StrContains(regex, "\\")) return "";
  std::string out;
  for (const char c : regex) {
    if (std::string_view("*?{").find(c) != std::string_view::npos && !out.empty()) out.pop_back();
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '/' && c != '-' && c != '_') break;
    out += c;
  }
  return out;
}

// For a route that is an expression, or does not look at the case of letters.
Overlap overlap_by_beginning(const PathSet& route, const PathSet& rule) {
  if (rule.kind == Kind::kRegex) return Overlap::kUnknown;
  const bool regex = route.kind == Kind::kRegex;
  const std::string begin = regex ? literal_beginning(route.text) : route.text;
  const bool any_case = route.any_case || rule.any_case;
  const std::string a = any_case ? absl::AsciiStrToLower(begin) : begin;
  const std::string b = any_case ? absl::AsciiStrToLower(rule.text) : rule.text;
  const bool below =
      rule.kind == Kind::kBytes ? a.starts_with(b) : rule.kind == Kind::kSegments && a.starts_with(b + "/");
  if (below && (!any_case || rule.any_case)) return Overlap::kAll;
  return a.starts_with(b) || b.starts_with(a) ? Overlap::kUnknown : Overlap::kNone;
}

}  // namespace

bool PathSet::fits(std::string_view path) const {
  switch (kind) {
    case Kind::kAll:
      return true;
    case Kind::kExact:
      return path == text;
    case Kind::kSegments:
      return path == text || path.starts_with(text + "/");
    case Kind::kBytes:
      return path.starts_with(text);
    case Kind::kRegex:
      break;
  }
  return false;
}

Overlap overlap_of(const PathSet& route, const PathSet& rule) {
  if (rule.kind == Kind::kAll || route == rule) return Overlap::kAll;
  if (route.kind == Kind::kAll) return Overlap::kSome;
  if (route.kind == Kind::kRegex || rule.kind == Kind::kRegex || route.any_case || rule.any_case) {
    return overlap_by_beginning(route, rule);
  }
  if (route.kind == Kind::kExact) return rule.fits(route.text) ? Overlap::kAll : Overlap::kNone;
  if (rule.kind == Kind::kExact) return route.fits(rule.text) ? Overlap::kSome : Overlap::kNone;
  if (is_prefix_of_all(rule, route)) return Overlap::kAll;
  return route.fits(rule.text) ? Overlap::kSome : Overlap::kNone;
}

void put_path(config::Node& match, const PathSet& path) {
  config::Node paths = map_node();
  const bool plain = !path.any_case;
  if (path.kind == Kind::kRegex) {
    put(paths, "regex", path.text);
  } else if (path.kind == Kind::kExact && plain) {
    put(paths, "exact", path.text);
  } else if (plain && (path.kind == Kind::kSegments || (path.kind == Kind::kBytes && path.text.ends_with('/')))) {
    put(paths, "prefix", path.text);
  } else if (path.kind != Kind::kAll) {
    put(paths, "regex", whole_regex(path));
  }
  if (!paths.keys.empty()) put(match, "path", std::move(paths));
}

std::optional<std::string> canonical_path_text(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  config::Paths paths;
  paths.escaped_slashes = config::EscapedSlashes::kKeep;
  std::string scratch(path.size(), '\0');
  const CanonicalTarget canonical = canonical_target(path, paths, scratch);
  if (canonical.status == PathStatus::kInvalid || canonical.path_bytes != canonical.target.size()) return std::nullopt;
  return std::string(canonical.target);
}

std::string quoted_regex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("/_-~").find(c) == std::string_view::npos && static_cast<unsigned char>(c) < 0x80) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

}  // namespace sluice::convert
