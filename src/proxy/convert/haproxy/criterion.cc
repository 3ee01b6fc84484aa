// What the criteria of ACLs say about requests.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/common/regex_text.h"
#include "proxy/convert/haproxy/condition.h"

namespace sluice::convert::haproxy {
namespace {

using config::Node;
using Kind = Predicate::Kind;

// `req.hdr(host),lower -m end -i .a.test .b.test`, in its parts.
struct Criterion {
  std::string fetch;     // `hdr`, `path`, `src`, ...
  std::string argument;  // In its parentheses.
  std::string method;    // `str`, `beg`, `end`, `sub`, `dir`, `dom`, `reg`, `found`, ...
  bool any_case = false;
  bool is_known = true;
  std::vector<std::string> values;
};

// The method that is a part of the name: `path_beg`.
void split_method(Criterion& made) {
  for (const std::string_view method : {"beg", "end", "sub", "reg", "dir", "dom", "len", "cnt"}) {
    std::string_view name = made.fetch;
    if (!absl::ConsumeSuffix(&name, method) || !absl::ConsumeSuffix(&name, "_")) continue;
    made.fetch = name;
    made.method = method;
    return;
  }
}

Criterion parse_words(const std::vector<std::string>& words) {
  Criterion made{.method = "str"};
  if (words.empty()) return made;
  std::string_view name = words.front();
  // Converters: only those that do not change what hosts and paths are compared with.
  const size_t close = name.find(')');
  size_t comma = name.find(',', name.find('(') == std::string_view::npos ? 0 : std::min(close, name.size()));
  const std::string_view converters = comma == std::string_view::npos ? "" : name.substr(comma + 1);
  name = name.substr(0, comma);
  if (!converters.empty()) {
    std::string left(converters);
    for (const std::string_view known : {"field(1,:)", "lower", "host_only"}) {
      const size_t at = left.find(known);
      if (at == std::string::npos) continue;
      left.erase(at, known.size());
      if (known == "lower") made.any_case = true;
    }
    made.is_known = left.find_first_not_of(',') == std::string::npos;
  }
  if (const size_t open = name.find('('); open != std::string_view::npos) {
    made.argument = name.substr(open + 1, name.rfind(')') - open - 1);
    name = name.substr(0, open);
  }
  made.fetch = name;
  split_method(made);
  size_t i = 1;
  for (; i < words.size() && words[i].starts_with('-'); ++i) {
    if (words[i] == "--") {
      ++i;
      break;
    }
    if (words[i] == "-i") {
      made.any_case = true;
    } else if (words[i] == "-m" && i + 1 < words.size()) {
      made.method = words[++i];
    } else if (words[i] != "-n") {
      made.is_known = false;  // -f: values in a file.
    }
  }
  made.values.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end());
  return made;
}

Predicate in_any(std::vector<RequestSet> any) { return {.kind = Kind::kRequests, .any = std::move(any)}; }
Predicate constant(bool value) { return {.kind = value ? Kind::kAlways : Kind::kNever}; }

// The patterns of host names; nothing if a value cannot be said as one.
std::optional<std::vector<std::string>> host_patterns(const Criterion& c) {
  std::vector<std::string> hosts;
  for (const std::string& value : c.values) {
    const std::string name = absl::AsciiStrToLower(value);
    if (c.method == "str" && !name.starts_with('*') && config::HostPattern::parse(name).ok()) {
      hosts.push_back(name);
    } else if (c.method == "end" && name.starts_with('.') && config::HostPattern::parse(name.substr(1)).ok()) {
      hosts.push_back("**" + name);
    } else if (const auto all = c.method == "reg" ? hosts_of_regex(name) : std::nullopt) {
      hosts.insert(hosts.end(), all->begin(), all->end());
    } else {
      return std::nullopt;
    }
  }
  return hosts.empty() ? std::nullopt : std::optional(hosts);
}

Predicate by_host(const Criterion& c) {
  std::optional<std::vector<std::string>> hosts = host_patterns(c);
  return hosts ? in_any({RequestSet{.hosts = *std::move(hosts)}}) : Predicate{};
}

// One value of a path; nothing if it cannot be said.
std::optional<PathSet> path_value(const Criterion& c, const std::string& value) {
  using PathKind = PathSet::Kind;
  if (c.method == "reg") return path_regex(value, c.any_case);
  if (c.method == "dir") {
    const std::string_view inner = absl::StripPrefix(absl::StripSuffix(value, "/"), "/");
    return PathSet{.kind = PathKind::kRegex,
                   .text = absl::StrCat(c.any_case ? "(?i)" : "", ".*/", quoted_regex(inner), "(/.*)?")};
  }
  if (c.method == "sub" || c.method == "end") {
    const std::string quoted = absl::StrCat(c.any_case ? "(?i)" : "", ".*", quoted_regex(value));
    return PathSet{.kind = PathKind::kRegex, .text = c.method == "sub" ? quoted + ".*" : quoted};
  }
  if (c.method != "str" && c.method != "beg") return std::nullopt;
  if (c.method == "beg" && (value == "/" || value.empty())) return PathSet{};
  if (canonical_path_text(value) != value) return std::nullopt;
  return PathSet{
      .kind = c.method == "beg" ? PathKind::kBytes : PathKind::kExact, .text = value, .any_case = c.any_case};
}

Predicate by_path(const Criterion& c) {
  std::vector<RequestSet> any;
  for (const std::string& value : c.values) {
    std::optional<PathSet> path = path_value(c, value);
    if (!path) return {};
    any.push_back({.path = *std::move(path)});
  }
  return any.empty() ? Predicate{} : in_any(std::move(any));
}

// A condition on the value of a field or a parameter, as the expression that fits the whole value.
std::optional<std::string> value_regex(const Criterion& c, const std::string& value) {
  if (c.method == "reg") return whole_regex_of(value, c.any_case);
  const bool open_begin = c.method == "end" || c.method == "sub", open_end = c.method == "beg" || c.method == "sub";
  if ((c.method != "str" && !open_begin && !open_end) || value.empty()) return std::nullopt;
  return absl::StrCat(c.any_case ? "(?i)" : "", open_begin ? ".*" : "", quoted_regex(value), open_end ? ".*" : "");
}

// HAProxy looks at each value between commas: an expression for the whole field that does the same.
std::string of_any_value(std::string regex) {
  const bool any_case = regex.starts_with("(?i)");
  if (any_case) regex.erase(0, 4);
  const std::string_view before = regex.starts_with(".*") ? "" : "(?:.*,)?[ \t]*",
                         behind = regex.ends_with(".*") ? "" : "[ \t]*(?:,.*)?";
  return absl::StrCat(any_case ? "(?i)" : "", before, regex, behind);
}

enum class Part : uint8_t { kHeader, kQuery };

RequestSet set_of(Node condition, Part part) {
  RequestSet set;
  (part == Part::kHeader ? set.headers : set.query).items.push_back(std::move(condition));
  return set;
}

Predicate by_value(const Criterion& c, std::string_view name, Part part) {
  if (name.empty()) return {};
  if (c.method == "found") {
    Node present = map_node();
    put(present, "name", name);
    return in_any({set_of(std::move(present), part)});
  }
  std::vector<RequestSet> any;
  for (const std::string& value : c.values) {
    const std::optional<std::string> regex = value_regex(c, value);
    if (!regex) return {};
    Node node = map_node();
    put(node, "name", name);
    if (part == Part::kQuery && c.method == "str" && !c.any_case) {
      put(node, "exact", value);
    } else {
      put(node, "regex", part == Part::kHeader && c.fetch != "req.fhdr" ? of_any_value(*regex) : *regex);
    }
    any.push_back(set_of(std::move(node), part));
  }
  return any.empty() ? Predicate{} : in_any(std::move(any));
}

Predicate by_cookie(const Criterion& c) {
  std::vector<RequestSet> any;
  const auto add = [&](std::string_view value) {
    Node header = map_node();
    put(header, "name", "cookie");
    put(header, "regex", absl::StrCat("(.*; *)?", quoted_regex(c.argument), "=", value, "(;.*)?"));
    any.push_back(set_of(std::move(header), Part::kHeader));
  };
  if (c.argument.empty()) return {};
  if (c.method == "found") {
    add("[^;]*");
  } else if (c.method == "str" && !c.any_case) {
    for (const std::string& value : c.values) add(quoted_regex(value));
  }
  return any.empty() ? Predicate{} : in_any(std::move(any));
}

// A count of fields: `hdr_cnt(x) eq 0`, `gt 0`.
Predicate by_count(const Criterion& c) {
  const std::string text =
      absl::StrCat(c.values.size() == 2 ? c.values[0] + " " : "", c.values.empty() ? "" : c.values.back());
  const bool absent = text == "eq 0" || text == "0" || text == "lt 1";
  if (!absent && text != "gt 0" && text != "ge 1") return {};
  Node header = map_node();
  put(header, "name", c.argument);
  if (absent) put(header, "not", "true");
  return in_any({set_of(std::move(header), Part::kHeader)});
}

Predicate by_source(const Criterion& c) {
  std::vector<std::string> ranges;
  for (const std::string& value : c.values) {
    if (!config::Cidr::parse(value).ok()) return {};
    ranges.push_back(value);
  }
  return ranges.empty() || c.method == "found" ? Predicate{} : in_any({RequestSet{.sources = std::move(ranges)}});
}

Predicate by_method(const Criterion& c) {
  const auto is_upper = [](const std::string& m) {
    return !m.empty() && std::all_of(m.begin(), m.end(), [](unsigned char ch) { return absl::ascii_isupper(ch); });
  };
  if (c.method != "str" || c.values.empty() || !std::all_of(c.values.begin(), c.values.end(), is_upper)) return {};
  return in_any({RequestSet{.methods = c.values}});
}

Predicate by_server_name(const Criterion& c, const Surroundings& around) {
  if (around.is_http) return {};  // Routes see the host of the request.
  if (c.method == "found") return {};
  std::optional<std::vector<std::string>> hosts = host_patterns(c);
  if (!hosts) return {};
  return {.kind = Kind::kServerNames, .any = {RequestSet{.hosts = *std::move(hosts)}}};
}

Predicate by_header(const Criterion& c) {
  const std::string name = absl::AsciiStrToLower(c.argument.substr(0, c.argument.find(',')));
  if (name == "host") return c.method == "found" || c.method == "cnt" ? Predicate{} : by_host(c);
  if (!config::FieldName::parse(name).ok()) return {};
  return c.method == "cnt" ? by_count(c) : by_value(c, name, Part::kHeader);
}

}  // namespace

Predicate parse_criterion(const std::vector<std::string>& words, const Surroundings& around) {
  const Criterion c = parse_words(words);
  if (!c.is_known) return {};
  std::string_view name = c.fetch;
  if (name == "always_true" || name == "always_false") return constant(name == "always_true");
  if (name == "ssl_fc" && c.values.empty()) return constant(around.has_tls);
  if (name == "dst_port" || name == "fc_dst_port") {
    const bool plain =
        !around.port.empty() && !c.values.empty() &&
        std::all_of(c.values.begin(), c.values.end(), [](const std::string& v) {
          return !v.empty() && std::all_of(v.begin(), v.end(), [](unsigned char d) { return absl::ascii_isdigit(d); });
        });
    return plain ? constant(std::find(c.values.begin(), c.values.end(), around.port) != c.values.end()) : Predicate{};
  }
  // A TLS handshake is looked at in any case where routes have server names.
  if (name == "req.ssl_hello_type" || name == "req_ssl_hello_type")
    return around.is_http ? Predicate{} : constant(true);
  if (name == "req.ssl_sni" || name == "req_ssl_sni" || name == "ssl_fc_sni") return by_server_name(c, around);
  if (!around.is_http) return {};
  if (name == "hdr" || name == "req.hdr" || name == "req.fhdr") return by_header(c);
  if (name == "path") return by_path(c);
  if (name == "src") return by_source(c);
  if (name == "method") return by_method(c);
  if (name == "url_param" || name == "urlp") return by_value(c, c.argument, Part::kQuery);
  if (name == "cook" || name == "req.cook") return by_cookie(c);
  return {};
}

}  // namespace sluice::convert::haproxy
