#include "proxy/envoy/path_change.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {
namespace {

// The number of groups in a regular expression.
int count_groups(std::string_view regex) {
  int groups = 0;
  bool in_class = false;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      const std::string_view rest = regex.substr(i + 1);
      groups += !rest.starts_with('?') || rest.starts_with("?P<") || rest.starts_with("?<") ? 1 : 0;
    }
  }
  return groups;
}

// A substitution whose groups have moved by `by`; \0 becomes the group `by`.
std::string shifted_groups(std::string_view substitution, int by) {
  std::string out;
  for (size_t i = 0; i < substitution.size(); ++i) {
    const bool group = substitution[i] == '\\' && i + 1 < substitution.size() &&
                       absl::ascii_isdigit(static_cast<unsigned char>(substitution[i + 1]));
    if (group) {
      absl::StrAppend(&out, "\\", substitution[i + 1] - '0' + by);
      ++i;
    } else {
      out += substitution[i];
    }
  }
  return out;
}

bool names_group_above(std::string_view substitution, int most) {
  for (size_t i = 0; i + 1 < substitution.size(); ++i) {
    if (substitution[i] == '\\' && substitution[i + 1] - '0' > most) return true;
  }
  return false;
}

}  // namespace

void put_regex_change(const Message& change, config::Node& out) {
  const std::string pattern = change.sub("pattern").text("regex");
  const std::string substitution = change.text("substitution");
  const int groups = count_groups(pattern);
  std::string_view body = pattern;
  const bool begins = !absl::StrContains(pattern, '|') && absl::ConsumePrefix(&body, "^");
  if (!begins) change.ignore("pattern", "only the first place that fits is replaced");
  // Envoy replaces what fits; here the expression fits the whole path: (before)(what fits)(behind).
  const int first = begins ? 1 : 2;
  const int rest = first + groups + 1;
  if (rest > 9 || names_group_above(substitution, groups)) {
    return change.refuse("substitution", "too many groups: the path stays as it is");
  }
  put(out, "regex", absl::StrCat(begins ? "" : "(.*?)", "(", body, ")(.*)"));
  put(out, "substitution", absl::StrCat(begins ? "" : "\\1", shifted_groups(substitution, first), "\\", rest));
}

}  // namespace sluice::envoy
