#include "proxy/envoy/route_match.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/common/token.h"
#include "proxy/envoy/values.h"

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

}  // namespace

std::vector<std::string> deep_hosts(std::vector<std::string> hosts) {
  for (std::string& host : hosts) {
    if (host.starts_with('*')) host.insert(0, "*");
  }
  return hosts;
}

Node RouteConditions::match_node(const std::vector<std::string>& hosts) const {
  Node out = map_node();
  put_words(out, "host", deep_hosts(hosts));
  convert::put_path(out, path);
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
