#include "proxy/convert/common/regex_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/regex.h"

namespace sluice::convert {
namespace {

// Whether the expression has a `|` outside of all brackets.
bool has_alternatives(std::string_view regex) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else {
      depth += (c == '(') - (c == ')');
      if (c == '|' && depth == 0) return true;
    }
  }
  return false;
}

bool ends_with_anchor(std::string_view regex) {
  if (!absl::ConsumeSuffix(&regex, "$")) return false;
  size_t backslashes = 0;
  while (backslashes < regex.size() && regex[regex.size() - 1 - backslashes] == '\\') ++backslashes;
  return backslashes % 2 == 0;
}

// Takes what stands for one label or more from the front of an expression, and returns it as stars; empty if there is
// none.
std::string_view take_stars(std::string_view& regex) {
  std::string_view rest = regex;
  const bool group = absl::ConsumePrefix(&rest, "(");
  if (group && absl::ConsumePrefix(&rest, "?")) {
    absl::ConsumePrefix(&rest, "P");
    if (absl::ConsumePrefix(&rest, "<")) {
      const size_t end = rest.find('>');
      if (end == std::string_view::npos) return "";
      rest.remove_prefix(end + 1);
    } else if (!absl::ConsumePrefix(&rest, ":")) {
      return "";
    }
  }
  std::string_view stars;
  if (absl::ConsumePrefix(&rest, "[^.]+") || absl::ConsumePrefix(&rest, "[^\\.]+")) {
    stars = "*";
  } else if (absl::ConsumePrefix(&rest, ".+")) {
    stars = "**";
  } else {
    return "";
  }
  if (group && !absl::ConsumePrefix(&rest, ")")) return "";
  if (!absl::ConsumePrefix(&rest, "\\.")) return "";
  regex = rest;
  return stars;
}

std::optional<std::string> literal_name(std::string_view regex) {
  std::string name = absl::StrReplaceAll(regex, {{"\\.", "/"}, {"\\-", "-"}});
  if (name.find('.') != std::string::npos) return std::nullopt;  // Any character.
  std::replace(name.begin(), name.end(), '/', '.');
  name = absl::AsciiStrToLower(name);
  return !name.starts_with('*') && config::HostPattern::parse(name).ok() ? std::optional(name) : std::nullopt;
}

}  // namespace

std::optional<std::string> whole_regex_of(std::string_view regex, bool any_case) {
  const std::string named = absl::StrReplaceAll(regex, {{"(?<", "(?P<"}});
  std::string_view body = named;
  const bool alternatives = has_alternatives(body);
  const bool begins = !alternatives && absl::ConsumePrefix(&body, "^");
  const bool ends = !alternatives && ends_with_anchor(body);
  if (ends) body.remove_suffix(1);
  std::string whole = any_case ? "(?i)" : "";
  if (!begins) whole += ".*?";
  absl::StrAppend(&whole, alternatives ? "(?:" : "", body, alternatives ? ")" : "");
  if (!ends) whole += ".*";
  if (!config::Regex::parse(whole).ok()) return std::nullopt;
  return whole;
}

std::optional<PathSet> path_regex(std::string_view regex, bool any_case) {
  // All paths begin with a slash.
  if ((regex == "^" || regex == "/" || regex == "^/" || regex == ".*" || regex == "^.*$" || regex == "^/.*$") &&
      !any_case) {
    return PathSet{};
  }
  std::optional<std::string> whole = whole_regex_of(regex, any_case);
  if (!whole) return std::nullopt;
  return PathSet{.kind = PathSet::Kind::kRegex, .text = *std::move(whole)};
}

std::optional<std::vector<std::string>> hosts_of_regex(std::string_view regex) {
  if (!absl::ConsumePrefix(&regex, "^") || !absl::ConsumeSuffix(&regex, "$")) return std::nullopt;
  // `(www\.)?example\.com`
  for (const std::string_view www : {"(www\\.)?", "(?:www\\.)?"}) {
    if (!absl::ConsumePrefix(&regex, www)) continue;
    const std::optional<std::string> name = literal_name(regex);
    if (!name) return std::nullopt;
    return std::vector<std::string>{*name, "www." + *name};
  }
  const std::string_view stars = take_stars(regex);
  const std::optional<std::string> name = literal_name(regex);
  if (!name) return std::nullopt;
  return std::vector<std::string>{stars.empty() ? *name : absl::StrCat(stars, ".", *name)};
}

}  // namespace sluice::convert
