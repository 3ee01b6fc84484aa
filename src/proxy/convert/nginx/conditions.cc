#include "proxy/convert/nginx/conditions.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/regex.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

// `$name OPERATOR value`, or `$name` alone.
struct Comparison {
  std::string variable;
  std::string value;
  bool is_bare = false;
  bool is_regex = false;
  bool any_case = false;
  bool negated = false;
};

std::optional<Comparison> parse_comparison(const Directive& directive) {
  std::vector<std::string> words = directive.args;
  if (words.empty() || !words.front().starts_with('(') || !words.back().ends_with(')')) return std::nullopt;
  words.front().erase(0, 1);
  words.back().pop_back();
  std::erase(words, "");
  if (words.empty() || !words[0].starts_with('$')) return std::nullopt;
  Comparison made{.variable = words[0].substr(1)};
  if (words.size() == 1) {
    made.is_bare = true;
    return made;
  }
  // The last word may have been an empty text: `if ($a = "")`.
  if (words.size() == 3) made.value = words[2];
  std::string_view op = words[1];
  if (words.size() > 3) return std::nullopt;
  made.negated = absl::ConsumePrefix(&op, "!");
  made.is_regex = absl::ConsumePrefix(&op, "~");
  made.any_case = made.is_regex && absl::ConsumePrefix(&op, "*");
  return op.empty() == made.is_regex && (made.is_regex || op == "=") ? std::optional(made) : std::nullopt;
}

Condition constant(bool value) { return {.kind = value ? Condition::Kind::kAlways : Condition::Kind::kNever}; }

Condition in_set(RequestSet set, bool negated) {
  return {.kind = negated ? Condition::Kind::kNotIn : Condition::Kind::kIn, .set = std::move(set)};
}

// The texts that an expression such as `^(GET|HEAD)$` fits.
std::optional<std::vector<std::string>> texts_of(std::string_view regex) {
  if (!absl::ConsumePrefix(&regex, "^") || !absl::ConsumeSuffix(&regex, "$")) return std::nullopt;
  if (absl::ConsumePrefix(&regex, "(")) {
    absl::ConsumePrefix(&regex, "?:");
    if (!absl::ConsumeSuffix(&regex, ")")) return std::nullopt;
  } else if (absl::StrContains(regex, '|')) {
    return std::nullopt;
  }
  std::vector<std::string> all;
  for (const std::string_view each : absl::StrSplit(regex, '|')) {
    const std::string text = absl::StrReplaceAll(each, {{"\\.", "."}});
    const auto plain = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.'; };
    // A dot that is not escaped is any character.
    if (text.empty() || !std::all_of(text.begin(), text.end(), plain) ||
        absl::StrContains(absl::StrReplaceAll(each, {{"\\.", ""}}), '.')) {
      return std::nullopt;
    }
    all.push_back(text);
  }
  return all;
}

Condition by_host(const Comparison& c) {
  std::optional<std::vector<std::string>> names =
      c.is_regex ? texts_of(c.value) : std::vector<std::string>{absl::AsciiStrToLower(c.value)};
  if (!names) return {};
  for (const std::string& name : *names) {
    if (name.starts_with('*') || !config::HostPattern::parse(name).ok()) return {};
  }
  return in_set({.hosts = *std::move(names)}, c.negated);
}

Condition by_method(const Comparison& c) {
  std::optional<std::vector<std::string>> methods =
      c.is_regex ? c.any_case ? std::nullopt : texts_of(c.value) : std::vector<std::string>{c.value};
  const auto is_upper = [](const std::string& m) {
    return !m.empty() && std::all_of(m.begin(), m.end(), [](unsigned char ch) { return absl::ascii_isupper(ch); });
  };
  if (!methods || !std::all_of(methods->begin(), methods->end(), is_upper)) return {};
  return in_set({.methods = *std::move(methods)}, c.negated);
}

// A condition on a value that may be absent, which is then empty for nginx.
std::optional<Node> value_condition(const Comparison& c, std::string_view name) {
  Node out = map_node();
  put(out, "name", name);
  bool negated = c.negated;
  if (c.is_bare) return out;
  if (c.is_regex) {
    const std::optional<std::string> whole = whole_regex_of(c.value, c.any_case);
    if (!whole || config::Regex::parse(*whole)->fits("")) return std::nullopt;
    put(out, "regex", *whole);
  } else if (c.value.empty()) {
    negated = !negated;
  } else {
    put(out, "exact", c.value);
  }
  if (negated) put(out, "not", "true");
  return out;
}

Condition by_header(const Comparison& c, std::string_view name) {
  const std::string field = absl::StrReplaceAll(name, {{"_", "-"}});
  std::optional<Node> header = value_condition(c, field);
  if (!header || !config::FieldName::parse(field).ok() || field == "host") return {};
  RequestSet set;
  set.headers.items.push_back(*std::move(header));
  return in_set(std::move(set), false);
}

Condition by_cookie(const Comparison& c, std::string_view name) {
  if (c.is_regex || (c.value.empty() && !c.is_bare)) return {};
  const std::string value = c.is_bare ? "[^;]+" : quoted_regex(c.value);
  Node header = map_node();
  put(header, "name", "cookie");
  put(header, "regex", absl::StrCat("(.*; *)?", quoted_regex(name), "=", value, "(;.*)?"));
  if (c.negated) put(header, "not", "true");
  RequestSet set;
  set.headers.items.push_back(std::move(header));
  return in_set(std::move(set), false);
}

Condition by_parameter(const Comparison& c, std::string_view name) {
  std::optional<Node> parameter = value_condition(c, name);
  if (!parameter || name.empty()) return {};
  RequestSet set;
  set.query.items.push_back(*std::move(parameter));
  return in_set(std::move(set), false);
}

Condition by_path(const Comparison& c) {
  RequestSet set;
  if (c.is_regex) {
    std::optional<PathSet> path = decoded_path_regex(c.value, c.any_case);
    if (!path) return {};
    set.path = *std::move(path);
  } else {
    if (canonical_path_text(c.value) != c.value) return {};
    set.path = {.kind = PathSet::Kind::kExact, .text = c.value};
  }
  return in_set(std::move(set), c.negated);
}

}  // namespace

Condition map_condition(const Directive& directive, const ServerContext& server) {
  const std::optional<Comparison> c = parse_comparison(directive);
  if (!c) return {};
  std::string_view name = c->variable;
  if (name == "http_host") name = "host";
  if (absl::ConsumePrefix(&name, "http_")) return by_header(*c, name);
  if (absl::ConsumePrefix(&name, "cookie_")) return by_cookie(*c, name);
  if (absl::ConsumePrefix(&name, "arg_")) return by_parameter(*c, name);
  if (c->is_bare) return {};
  if (name == "host") return by_host(*c);
  if (name == "request_method") return by_method(*c);
  if (name == "uri" || name == "document_uri") return by_path(*c);
  if (c->is_regex) return {};
  if (name == "scheme") return constant((c->value == (server.has_tls ? "https" : "http")) != c->negated);
  if (name == "server_port" && !server.fixed.server_port.empty()) {
    return constant((c->value == server.fixed.server_port) != c->negated);
  }
  if (name == "https") return constant((c->value == (server.has_tls ? "on" : "")) != c->negated);
  if (name == "remote_addr" && config::Cidr::parse(c->value).ok()) return in_set({.sources = {c->value}}, c->negated);
  return {};
}

}  // namespace sluice::convert::nginx
