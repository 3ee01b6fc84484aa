#include "proxy/convert/common/request_set.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/regex.h"

namespace sluice::convert {
namespace {

using config::Node;
using Kind = PathSet::Kind;

// Whether the pattern fits this one name.
bool pattern_fits(std::string_view pattern, std::string_view host) {
  const bool deep = absl::ConsumePrefix(&pattern, "**");
  if (!deep && !absl::ConsumePrefix(&pattern, "*")) return pattern == host;
  if (host.size() <= pattern.size() || !host.ends_with(pattern)) return false;
  return deep || host.substr(0, host.size() - pattern.size()).find('.') == std::string_view::npos;
}

// Names that only a pattern fits that fits all of them: no host has a star.
std::vector<std::string> probe_hosts(const std::vector<std::string>& patterns) {
  std::vector<std::string> probes;
  for (const std::string& pattern : patterns) {
    probes.push_back(pattern);
    if (pattern.starts_with("**")) probes.push_back("*." + pattern);
  }
  if (probes.empty()) probes.emplace_back();
  return probes;
}

bool regex_fits(const std::string& regex, std::string_view path) {
  const absl::StatusOr<config::Regex> parsed = config::Regex::parse(regex);
  return parsed.ok() && parsed->fits(path);
}

// The expressions of the routes, each compiled once.
struct CompiledRoute {
  const Route* route;
  config::Regex regex;

  bool takes(std::string_view host, std::string_view path) const {
    const RequestSet& when = route->when;
    if (when.has_other_conditions()) return false;
    const auto fits = [&](const std::string& pattern) { return pattern_fits(pattern, host); };
    if (!when.hosts.empty() && std::none_of(when.hosts.begin(), when.hosts.end(), fits)) return false;
    return regex.is_set() ? regex.fits(path) : when.path.fits(path);
  }
};

// Paths that only a condition fits that fits all of `path`: no path has a control character.
std::vector<std::string> probe_paths(const PathSet& path, const config::Regex& regex) {
  if (path.kind == Kind::kAll) return {"*"};
  if (path.kind == Kind::kExact && !path.any_case) return {path.text};
  if (regex.is_set()) return {regex.fits("*") ? "*" : "/\x01"};
  if (path.kind == Kind::kSegments) return {path.text, path.text + "/\x01"};
  return {path.text + "\x01"};
}

config::Regex compiled(const PathSet& path) {
  Node match = map_node();
  put_path(match, path);
  const Node* const node = match.find("path");
  const Node* const regex = node == nullptr ? nullptr : node->find("regex");
  if (regex == nullptr) return {};
  absl::StatusOr<config::Regex> parsed = config::Regex::parse(regex->text);
  return parsed.ok() ? *std::move(parsed) : config::Regex();
}

Narrowing narrow_hosts(std::vector<std::string>& hosts, const std::vector<std::string>& by) {
  if (by.empty()) return Narrowing::kDone;
  if (hosts.empty()) {
    hosts = by;
    return Narrowing::kDone;
  }
  std::vector<std::string> both;
  for (const std::string& a : hosts) {
    for (const std::string& b : by) {
      const std::string* const narrower = host_covers(a, b) ? &b : host_covers(b, a) ? &a : nullptr;
      if (narrower != nullptr && std::find(both.begin(), both.end(), *narrower) == both.end())
        both.push_back(*narrower);
    }
  }
  hosts = std::move(both);
  return hosts.empty() ? Narrowing::kEmpty : Narrowing::kDone;
}

// The text that an expression such as `\.png` fits; nothing if it is more than a text.
std::optional<std::string> literal_of(std::string_view regex) {
  std::string text;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '\\' && i + 1 < regex.size() && !absl::ascii_isalnum(static_cast<unsigned char>(regex[i + 1]))) {
      text += regex[++i];
    } else if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
               std::string_view("/_-~%@:,;=&!").find(c) != std::string_view::npos) {
      text += c;
    } else {
      return std::nullopt;
    }
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

// The paths that begin with `begin` and fit an expression that looks for a text anywhere, or at the end: nothing if it
// is another one.
std::optional<PathSet> begin_and_text(const PathSet& begin, const PathSet& by) {
  if (begin.kind != Kind::kBytes || begin.any_case || by.kind != Kind::kRegex) return std::nullopt;
  std::string_view regex = by.text;
  if (!absl::ConsumePrefix(&regex, ".*?") && !absl::ConsumePrefix(&regex, ".*")) return std::nullopt;
  const bool anywhere = absl::ConsumeSuffix(&regex, ".*");
  const std::optional<std::string> text = literal_of(regex);
  if (!text) return std::nullopt;
  if (anywhere && absl::StrContains(begin.text, *text)) return begin;
  std::string made = absl::StrCat(quoted_regex(begin.text), "(?:.*", quoted_regex(*text), anywhere ? ".*" : "");
  // The text may begin in what the path begins with.
  for (size_t shared = 1; shared <= std::min(text->size(), begin.text.size()); ++shared) {
    if (begin.text.ends_with(text->substr(0, shared)))
      absl::StrAppend(&made, "|", quoted_regex(text->substr(shared)), anywhere ? ".*" : "");
  }
  return PathSet{.kind = Kind::kRegex, .text = made + ")"};
}

Narrowing narrow_path(PathSet& path, const PathSet& by) {
  if (by.kind == Kind::kRegex && path.kind == Kind::kExact && !path.any_case) {
    return regex_fits(by.text, path.text) ? Narrowing::kDone : Narrowing::kEmpty;
  }
  if (path.kind == Kind::kRegex && by.kind == Kind::kExact && !by.any_case) {
    if (!regex_fits(path.text, by.text)) return Narrowing::kEmpty;
    path = by;
    return Narrowing::kDone;
  }
  switch (overlap_of(path, by)) {
    case Overlap::kAll:
      return Narrowing::kDone;
    case Overlap::kSome:
      path = by;
      return Narrowing::kDone;
    case Overlap::kNone:
      return Narrowing::kEmpty;
    case Overlap::kUnknown:
      break;
  }
  // The other way round: what all paths of an expression begin with is known only of the narrower set.
  const Overlap other = overlap_of(by, path);
  if (other == Overlap::kAll) path = by;
  if (other != Overlap::kUnknown) return other == Overlap::kNone ? Narrowing::kEmpty : Narrowing::kDone;
  std::optional<PathSet> both = begin_and_text(path, by);
  if (!both) both = begin_and_text(by, path);
  if (both) path = *std::move(both);
  return both ? Narrowing::kDone : Narrowing::kUnknown;
}

Narrowing narrow_methods(std::vector<std::string>& methods, const std::vector<std::string>& by) {
  if (by.empty()) return Narrowing::kDone;
  if (methods.empty()) {
    methods = by;
    return Narrowing::kDone;
  }
  std::erase_if(methods, [&](const std::string& m) { return std::find(by.begin(), by.end(), m) == by.end(); });
  return methods.empty() ? Narrowing::kEmpty : Narrowing::kDone;
}

// Whether the range has all addresses of the other; of two ranges that share some, one does.
bool range_covers(const std::string& wide, const std::string& narrow) {
  const std::string ip = narrow.substr(0, narrow.find('/'));
  const bool v6 = absl::StrContains(ip, ':');
  const absl::StatusOr<config::Cidr> range = config::Cidr::parse(wide);
  const absl::StatusOr<config::Address> first =
      config::Address::parse(v6 ? absl::StrCat("[", ip, "]:1") : absl::StrCat(ip, ":1"));
  const auto bits_of = [](const std::string& text) {
    uint32_t bits = 0;
    const size_t slash = text.find('/');
    if (slash != std::string::npos && absl::SimpleAtoi(text.substr(slash + 1), &bits)) return bits;
    return absl::StrContains(text, ':') ? 128U : 32U;
  };
  return range.ok() && first.ok() && v6 == absl::StrContains(wide, ':') && range->contains(*first) &&
         bits_of(wide) <= bits_of(narrow);
}

Narrowing narrow_sources(std::vector<std::string>& sources, const std::vector<std::string>& by) {
  if (by.empty() || sources == by) return Narrowing::kDone;
  if (sources.empty()) {
    sources = by;
    return Narrowing::kDone;
  }
  std::vector<std::string> both;
  for (const std::string& a : sources) {
    for (const std::string& b : by) {
      const std::string* const narrower = range_covers(a, b) ? &b : range_covers(b, a) ? &a : nullptr;
      if (narrower != nullptr && std::find(both.begin(), both.end(), *narrower) == both.end())
        both.push_back(*narrower);
    }
  }
  sources = std::move(both);
  return sources.empty() ? Narrowing::kEmpty : Narrowing::kDone;
}

void add_conditions(Node& to, const Node& from) {
  for (const Node& each : from.items) {
    const auto same = [&](const Node& known) { return same_value(known, each); };
    if (std::none_of(to.items.begin(), to.items.end(), same)) to.items.push_back(each);
  }
}

}  // namespace

bool host_covers(std::string_view wide, std::string_view narrow) {
  for (const std::string& probe : probe_hosts({std::string(narrow)})) {
    if (!pattern_fits(wide, probe)) return false;
  }
  return true;
}

Narrowing narrow(RequestSet& set, const RequestSet& by) {
  RequestSet made = set;
  Narrowing worst = Narrowing::kDone;
  for (const Narrowing each : {narrow_hosts(made.hosts, by.hosts), narrow_methods(made.methods, by.methods),
                               narrow_path(made.path, by.path), narrow_sources(made.sources, by.sources)}) {
    // A set that is empty by one condition is so whatever the others are.
    if (each == Narrowing::kEmpty) return each;
    if (each == Narrowing::kUnknown) worst = each;
  }
  if (worst == Narrowing::kUnknown) return worst;
  add_conditions(made.headers, by.headers);
  add_conditions(made.query, by.query);
  set = std::move(made);
  return Narrowing::kDone;
}

void drop_untaken(std::vector<Route>& routes) {
  std::vector<CompiledRoute> takers;
  std::vector<Route> kept;
  kept.reserve(routes.size());  // `takers` points into it.
  for (Route& route : routes) {
    config::Regex regex = compiled(route.when.path);
    bool taken = true;
    for (const std::string& host : probe_hosts(route.when.hosts)) {
      for (const std::string& path : probe_paths(route.when.path, regex)) {
        const auto takes = [&](const CompiledRoute& before) { return before.takes(host, path); };
        taken = taken && std::any_of(takers.begin(), takers.end(), takes);
      }
    }
    if (taken) continue;
    kept.push_back(std::move(route));
    takers.push_back({&kept.back(), std::move(regex)});
  }
  routes = std::move(kept);
}

Node routes_node(const std::vector<Route>& routes) {
  Node list = list_node();
  for (const Route& route : routes) {
    Node match = map_node();
    put_words(match, "host", route.when.hosts);
    put_path(match, route.when.path);
    put_words(match, "method", route.when.methods);
    put_words(match, "source", route.when.sources);
    if (!route.when.headers.items.empty()) put(match, "headers", route.when.headers);
    if (!route.when.query.items.empty()) put(match, "query", route.when.query);
    Node out = map_node();
    if (!match.keys.empty()) put(out, "match", std::move(match));
    for (size_t i = 0; i < route.out.keys.size(); ++i) put(out, route.out.keys[i].text, route.out.items[i]);
    list.items.push_back(std::move(out));
  }
  return list;
}

Node respond_node(int status, std::string_view body) {
  Node out = map_node();
  Node& respond = put(out, "respond", map_node());
  put(respond, "status", absl::StrCat(status));
  if (!body.empty()) put(respond, "body", body);
  return out;
}

}  // namespace sluice::convert
