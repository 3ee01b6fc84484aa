#include "proxy/convert/nginx/stream.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/common/ordering.h"
#include "proxy/convert/common/regex_text.h"
#include "proxy/convert/common/request_set.h"
#include "proxy/convert/nginx/listen.h"
#include "proxy/convert/nginx/listener_settings.h"
#include "proxy/convert/nginx/server_tls.h"
#include "proxy/convert/nginx/upstreams.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

// A line of a map of server names.
struct NamedServer {
  std::vector<std::string> names;
  std::string server;
};

struct NameMap {
  std::vector<NamedServer> lines;
  std::string other;  // `default`; empty without one.
};

// The patterns of a line of `map $ssl_preread_server_name`.
std::optional<std::vector<std::string>> names_of_line(std::string_view text, bool hostnames) {
  if (absl::ConsumePrefix(&text, "~*") || absl::ConsumePrefix(&text, "~")) return hosts_of_regex(text);
  const std::string name = absl::AsciiStrToLower(text);
  if (hostnames && name.starts_with('.')) return std::vector<std::string>{name.substr(1), "**" + name};
  if (hostnames && name.starts_with("*.") && config::HostPattern::parse(name).ok())
    return std::vector<std::string>{"*" + name};
  if (name.starts_with('*') || !config::HostPattern::parse(name).ok()) return std::nullopt;
  return std::vector<std::string>{name};
}

class StreamMapper {
 public:
  StreamMapper(const Directive& stream, State& state)
      : stream_(stream), main_{&state.main}, scope_{&stream, &main_}, state_(state) {}

  void map() {
    for (const Directive* const upstream : stream_.all("upstream")) {
      state_.stream_upstreams.emplace(std::string(upstream->arg(0)), upstream);
    }
    for (const Directive* const each : stream_.all("map")) {
      if (each->arg(0) != "$ssl_preread_server_name") {
        state_.refuse(*each, "there are no variables of one's own: directives that use it are refused");
      }
    }
    for (const ServerGroup& group : server_groups(stream_, state_)) map_group(group);
  }

 private:
  void map_group(const ServerGroup& group) {
    const Directive& server = *group.servers.front();
    const Scope scope{&server, &scope_};
    if (!can_be_said(group, scope)) return;
    const Directive* const pass = scope.find("proxy_pass");
    if (pass == nullptr) return state_.refuse(server, "expected proxy_pass: the server is left out");
    Node tcp = map_node();
    if (!put_target(*pass, scope, tcp)) return;
    Node listener = map_node();
    put(listener, "name",
        state_.listener_names.new_name(absl::StrCat("stream-", group.port.empty() ? "unix" : group.port)));
    put_words(listener, "address", group.addresses);
    if (!put_listener_settings(group, scope_, state_, listener)) return;
    if (group.has_tls && put_server_tls(group, scope_, state_, listener) != TlsResult::kDone) return;
    if (scope.find("proxy_timeout") == nullptr) {
      put(tcp, "idle_timeout", "10m");  // As nginx has it.
    } else {
      put_time(tcp, "idle_timeout", scope.find("proxy_timeout"), state_);
    }
    put_time(tcp, "inspect_timeout", scope.find("preread_timeout"), state_);
    put_log(scope, tcp);
    put(listener, "tcp", std::move(tcp));
    state_.listeners.items.push_back(std::move(listener));
  }

  // A server that keeps clients out in a way that has no counterpart is left out.
  bool can_be_said(const ServerGroup& group, const Scope& scope) {
    if (group.servers.size() > 1) {
      state_.refuse(*group.servers[1], "one server for an address: that which is the default counts");
    }
    for (const Scope* each = &scope; each != nullptr; each = each->outer) {
      for (const Directive& directive : each->block->block) {
        const bool rule = directive.name == "allow" || directive.name == "deny" || directive.name == "return";
        if (!rule && known_directive(directive.name).fate != Fate::kGuard) continue;
        if (rule) state_.refuse(directive, "listeners for bytes have no such rule: the server is left out");
        return false;
      }
    }
    return true;
  }

  void put_log(const Scope& scope, Node& tcp) {
    const Directive* const log = scope.find("access_log");
    if (log == nullptr || log->arg(0) == "off") return;
    if (log->arg(0).starts_with("syslog:") || log->arg(0).find('$') != std::string_view::npos) {
      return state_.refuse(*log, "expected a file with a fixed name");
    }
    put(tcp, "access_log", state_.file(log->arg(0)));
    state_.ignore(*log, "lines have Sluice's form: see docs/guides/access-log.md");
  }

  std::optional<std::string> upstream(std::string_view server, const Scope& scope, const Directive& place) {
    std::optional<PassTarget> target = parse_pass(server, Spoken::kBytes);
    if (!target) {
      state_.refuse(place, absl::StrCat("expected a server or an upstream, got ", config::in_quotes(server)));
      return std::nullopt;
    }
    target->has_tls = scope.is_on("proxy_ssl");
    return upstream_for(*target, Spoken::kBytes, scope, place, state_);
  }

  bool put_target(const Directive& pass, const Scope& scope, Node& tcp) {
    std::string_view server = pass.arg(0);
    if (!absl::ConsumePrefix(&server, "$")) {
      const std::optional<std::string> name = upstream(server, scope, pass);
      if (name) put(tcp, "forward", *name);
      return name.has_value();
    }
    const Directive* map = nullptr;
    for (const Directive* const each : stream_.all("map")) {
      if (each->arg(0) == "$ssl_preread_server_name" && each->arg(1) == pass.arg(0)) map = each;
    }
    if (server == "ssl_preread_server_name" || map == nullptr || !scope.is_on("ssl_preread")) {
      state_.refuse(pass, "expected a fixed server, or a map of $ssl_preread_server_name: the server is left out");
      return false;
    }
    return put_routes(*map, scope, tcp);
  }

  std::optional<NameMap> read_map(const Directive& map) {
    NameMap made;
    const bool hostnames = !map.all("hostnames").empty();
    for (const Directive& line : map.block) {
      if (line.name == "hostnames" || line.name == "volatile") continue;
      if (line.name == "default") {
        made.other = line.arg(0);
        continue;
      }
      std::optional<std::vector<std::string>> names = names_of_line(line.name, hostnames);
      if (!names) {
        // What it would take might go to the default.
        state_.refuse(map, absl::StrCat(config::in_quotes(line.name),
                                        " cannot be said as a pattern: servers with this map are left out"));
        return std::nullopt;
      }
      made.lines.push_back({.names = *std::move(names), .server = std::string(line.arg(0))});
    }
    // Exact names first, then the longest star.
    sort_in_order(made.lines, [](const NamedServer& a, const NamedServer& b) {
      const bool star_a = a.names.back().starts_with('*'), star_b = b.names.back().starts_with('*');
      if (star_a != star_b) return star_b;
      return star_a && a.names.back().size() > b.names.back().size();
    });
    return made;
  }

  bool put_routes(const Directive& map, const Scope& scope, Node& tcp) {
    const std::optional<NameMap> names = read_map(map);
    if (!names) return false;
    Node routes = list_node();
    std::vector<std::string> taken;
    for (const NamedServer& line : names->lines) {
      std::vector<std::string> left;
      for (const std::string& name : line.names) {
        const auto takes = [&](const std::string& before) { return host_covers(before, name); };
        if (std::none_of(taken.begin(), taken.end(), takes)) left.push_back(name);
      }
      const std::optional<std::string> name = upstream(line.server, scope, map);
      if (!name) return false;
      if (left.empty()) continue;
      taken.insert(taken.end(), left.begin(), left.end());
      if (!routes.items.empty() && routes.items.back().find("forward")->text == *name) {
        append(routes.items.back(), left);
        continue;
      }
      Node route = map_node();
      put_words(put(route, "match", map_node()), "sni", left);
      put(route, "forward", *name);
      routes.items.push_back(std::move(route));
    }
    if (!names->other.empty()) {
      const std::optional<std::string> name = upstream(names->other, scope, map);
      if (!name) return false;
      Node route = map_node();
      put(route, "forward", *name);
      routes.items.push_back(std::move(route));
    }
    if (routes.items.empty()) {
      state_.refuse(map, "it names no server: servers with this map are left out");
      return false;
    }
    put(tcp, "routes", std::move(routes));
    return true;
  }

  // Adds names to a route.
  static void append(Node& route, const std::vector<std::string>& more) {
    Node& match = map_at(route, "match");
    const Node* const before = match.find("sni");
    std::vector<std::string> all;
    if (before->kind == Node::Kind::kList) {
      for (const Node& each : before->items) all.push_back(each.text);
    } else {
      all.push_back(before->text);
    }
    all.insert(all.end(), more.begin(), more.end());
    put_words(match, "sni", all);
  }

  const Directive& stream_;
  const Scope main_;
  const Scope scope_;
  State& state_;
};

}  // namespace

void map_stream(const Directive& stream, State& state) { StreamMapper(stream, state).map(); }

}  // namespace sluice::convert::nginx
