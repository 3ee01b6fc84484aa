#include "proxy/convert/common/prefix_change.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace sluice::convert {
namespace {

using Kind = PathSet::Kind;

// Whether Sluice's `prefix` does what replacing bytes does.
bool is_by_segments(const PathSet& matched, const std::string& replacement) {
  if (matched.any_case || replacement.empty()) return false;
  const bool slash = replacement.ends_with('/');
  if (matched.kind == Kind::kAll) return slash;
  if (matched.kind == Kind::kBytes) return matched.text.ends_with('/') && slash;
  return matched.kind == Kind::kSegments && !slash;
}

}  // namespace

std::string literal_substitution(std::string_view text) { return absl::StrReplaceAll(text, {{"\\", "\\\\"}}); }

bool put_prefix_change(const PathSet& matched, const std::string& replacement, const PathSet& now, config::Node& out) {
  if (absl::StrContains(replacement, '?') || absl::StrContains(replacement, '#')) return false;
  if (matched.kind == Kind::kExact || matched.kind == Kind::kRegex) {
    const auto path = canonical_path_text(replacement);
    if (!path) return false;
    put(out, "path", *path);
    return true;
  }
  const auto prefix = canonical_path_text(replacement);
  if (prefix && matched == now && matched.kind != Kind::kAll && is_by_segments(matched, replacement)) {
    put(out, "prefix", *prefix);
    return true;
  }
  const std::string text = matched.kind == Kind::kAll ? "/" : matched.text;
  put(out, "regex", absl::StrCat(matched.any_case ? "(?i)" : "", quoted_regex(text), "(.*)"));
  put(out, "substitution", absl::StrCat(literal_substitution(replacement), "\\1"));
  return true;
}

}  // namespace sluice::convert
