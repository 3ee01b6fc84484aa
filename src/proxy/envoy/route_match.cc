#include "proxy/envoy/route_match.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/config/model/config.h"
#include "proxy/envoy/values.h"
#include "proxy/router/canonical_path.h"

namespace sluice::envoy {
namespace {

using config::Node;
using Kind = PathSet::Kind;

std::optional<PathSet> written_path(const Message& match, std::string_view field, Kind kind) {
  const std::string text = match.text(field);
  if (kind == Kind::kBytes && (text.empty() || text == "/")) return PathSet{};
  std::optional<std::string> path = canonical_path_text(text);
  if (!path) {
    match.refuse(field,
                 absl::StrCat("no request has such a path: ", config::in_quotes(text), ": the route is left out"));
    return std::nullopt;
  }
  return PathSet{.kind = kind, .text = *std::move(path), .any_case = !match.flag("case_sensitive", true)};
}

std::optional<PathSet> path_of_match(const Message& match) {
  if (match.has("prefix")) return written_path(match, "prefix", Kind::kBytes);
  if (match.has("path")) return written_path(match, "path", Kind::kExact);
  if (match.has("path_separated_prefix")) return written_path(match, "path_separated_prefix", Kind::kSegments);
  if (const Message regex = match.sub("safe_regex")) return PathSet{.kind = Kind::kRegex, .text = regex.text("regex")};
  if (match.has("path_match_policy")) return std::nullopt;  // The table refuses it.
  return PathSet{};
}

// The value conditions of HeaderMatcher, whose older fields are still in use.
bool put_header_value(const Message& header, Node& out) {
  if (const Message matcher = header.sub("string_match")) return put_string_matcher(matcher, out);
  constexpr std::pair<std::string_view, std::string_view> kOlder[] = {
      {"exact_match", "exact"}, {"prefix_match", "prefix"}, {"suffix_match", "suffix"}, {"contains_match", "contains"}};
  for (const auto& [field, key] : kOlder) {
    if (header.has(field)) put(out, key, header.text(field));
  }
  if (const Message regex = header.sub("safe_regex_match")) put(out, "regex", regex.text("regex"));
  return !header.has("range_match") && !header.has("treat_missing_header_as_empty");
}

bool put_method(const Message& header, RouteConditions& made) {
  Node value = map_node();
  const Node* const exact = put_header_value(header, value) ? value.find("exact") : nullptr;
  if (exact == nullptr || value.keys.size() != 1 || header.flag("invert_match")) {
    header.refuse("", "a method is one exact value: the route is left out");
    return false;
  }
  made.methods.push_back(exact->text);
  return true;
}

bool put_header(const Message& header, RouteConditions& made) {
  const std::string name = header.text("name");
  if (name == ":method") return put_method(header, made);
  if (!http1::is_token(name) || absl::EqualsIgnoreCase(name, "host")) {
    header.refuse("name", absl::StrCat(config::in_quotes(name), " is no field here: the route is left out"));
    return false;
  }
  Node out = map_node();
  put(out, "name", name);
  if (!put_header_value(header, out)) {
    header.refuse("", "this condition has no counterpart: the route is left out");
    return false;
  }
  const bool has_value = out.keys.size() > 1;
  const bool inverted = header.flag("invert_match") != !header.flag("present_match", true);
  if (inverted) put(out, "not", "true");
  if (inverted && has_value) {  // Envoy's condition does not hold without the field.
    Node present = map_node();
    put(present, "name", name);
    made.headers.items.push_back(std::move(present));
  }
  made.headers.items.push_back(std::move(out));
  return true;
}

bool put_parameter(const Message& parameter, RouteConditions& made) {
  Node out = map_node();
  put(out, "name", parameter.text("name"));
  if (const Message matcher = parameter.sub("string_match"); matcher && !put_string_matcher(matcher, out)) {
    parameter.refuse("", "this condition has no counterpart: the route is left out");
    return false;
  }
  if (!parameter.flag("present_match", true)) put(out, "not", "true");
  made.query.items.push_back(std::move(out));
  return true;
}

bool has_unknown_condition(const Message& match) {
  for (const std::string_view field :
       {"cookies", "tls_context", "dynamic_metadata", "filter_state", "path_match_policy"}) {
    if (match.has(field) && !match.find(field)->items.empty()) return true;
  }
  return false;
}

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

std::vector<std::string> deep_hosts(std::vector<std::string> hosts) {
  for (std::string& host : hosts) {
    if (host.starts_with('*')) host.insert(0, "*");
  }
  return hosts;
}

Node RouteConditions::match_node(const std::vector<std::string>& hosts) const {
  Node out = map_node();
  put_words(out, "host", deep_hosts(hosts));
  Node paths = map_node();
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
  if (!paths.keys.empty()) put(out, "path", std::move(paths));
  put_words(out, "method", methods);
  put_words(out, "source", sources);
  put_words(out, "peer", peers);
  if (!headers.items.empty()) put(out, "headers", headers);
  if (!query.items.empty()) put(out, "query", query);
  return out;
}

std::optional<RouteConditions> map_conditions(const Message& match) {
  RouteConditions made;
  if (has_unknown_condition(match)) {
    match.refuse("", "a condition has no counterpart: the route is left out");
    return std::nullopt;
  }
  std::optional<PathSet> path = path_of_match(match);
  if (!path) return std::nullopt;
  made.path = *std::move(path);
  if (match.has("connect_matcher")) made.methods.emplace_back("CONNECT");
  for (const Message& header : match.subs("headers")) {
    if (!put_header(header, made)) return std::nullopt;
  }
  for (const Message& parameter : match.subs("query_parameters")) {
    if (!put_parameter(parameter, made)) return std::nullopt;
  }
  if (match.has("grpc")) {
    Node type = map_node();
    put(type, "name", "content-type");
    put(type, "regex", R"(application/grpc(\+.*)?)");
    made.headers.items.push_back(std::move(type));
  }
  if (const auto share = percent_of(match, "runtime_fraction"); share && *share < 100) {
    match.refuse("runtime_fraction", "only 100 % is possible, else weighted_clusters: the route is left out");
    return std::nullopt;
  }
  return made;
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

bool put_string_matcher(const Message& matcher, Node& out) {
  const bool any_case = matcher.flag("ignore_case");
  if (const Message regex = matcher.sub("safe_regex")) {
    put(out, "regex", regex.text("regex"));
    return true;
  }
  for (const std::string_view key : {"exact", "prefix", "suffix", "contains"}) {
    if (!matcher.has(key)) continue;
    const std::string text = matcher.text(key);
    if (!any_case && !text.empty()) {
      put(out, key, text);
      return true;
    }
    const bool open_begin = key == "suffix" || key == "contains", open_end = key == "prefix" || key == "contains";
    const std::string inner = text.empty() ? "()" : quoted_regex(text);
    put(out, "regex", absl::StrCat(any_case ? "(?i)" : "", open_begin ? ".*" : "", inner, open_end ? ".*" : ""));
    return true;
  }
  return false;
}

}  // namespace sluice::envoy
