#include "proxy/convert/nginx/access.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/convert/nginx/upstreams.h"
#include "proxy/convert/nginx/values.h"

namespace sluice::convert::nginx {
namespace {

using config::Node;

struct AddressRule {
  bool allows;
  std::string range;  // Empty: all.
  std::optional<config::Cidr> cidr;
};

// Whether some address is in both.
bool overlap(const AddressRule& a, const AddressRule& b) {
  if (!a.cidr || !b.cidr) return true;
  const auto first = [](const std::string& range) { return range.substr(0, range.find('/')); };
  const auto has = [&](const AddressRule& wide, const AddressRule& narrow) {
    const std::string ip = first(narrow.range);
    const bool v6 = absl::StrContains(ip, ':');
    const auto address = config::Address::parse(v6 ? absl::StrCat("[", ip, "]:1") : absl::StrCat(ip, ":1"));
    return !address.ok() || wide.cidr->contains(*address);
  };
  return has(a, b) || has(b, a);
}

class AccessMapper {
 public:
  AccessMapper(const Scope& scope, const Directive& server, State& state)
      : scope_(scope), server_(server), state_(state) {}

  Access map() {
    check_guards();
    map_addresses();
    map_password();
    map_authorizer();
    map_limits();
    const Directive* const satisfy = scope_.find("satisfy");
    if (satisfy != nullptr && satisfy->arg(0) == "any" && conditions_ > 1) {
      state_.refuse(*satisfy, "all of its rules must admit a request, not one of them");
    }
    return std::move(made_);
  }

 private:
  void close(const Directive& directive, std::string_view why) {
    state_.refuse(directive, absl::StrCat(why, ": what it guards gets 403"));
    made_.is_open = false;
  }

  // A directive that may keep requests out has no counterpart; it has been reported.
  void check_guards() {
    for (const Scope* scope = &scope_; scope != nullptr; scope = scope->outer) {
      for (const Directive& each : scope->block->block) {
        if (known_directive(each.name).fate == Fate::kGuard) made_.is_open = false;
      }
    }
  }

  // Rules of both names count in their order, those of the innermost block that has any.
  std::vector<const Directive*> address_directives() const {
    for (const Scope* scope = &scope_; scope != nullptr; scope = scope->outer) {
      std::vector<const Directive*> found;
      for (const Directive& each : scope->block->block) {
        if (each.name == "allow" || each.name == "deny") found.push_back(&each);
      }
      if (!found.empty()) return found;
    }
    return {};
  }

  void map_addresses() {
    std::vector<AddressRule> rules;
    for (const Directive* const each : address_directives()) {
      AddressRule rule{.allows = each->name == "allow", .range = std::string(each->arg(0)), .cidr = std::nullopt};
      if (rule.range == "all") {
        rule.range.clear();
        rules.push_back(std::move(rule));
        break;  // Nothing behind it counts.
      }
      auto parsed = config::Cidr::parse(rule.range);
      if (!parsed.ok()) {
        // Without it fewer clients are let in, or it is not known who is kept out.
        if (!rule.allows) return close(*each, absl::StrCat(config::in_quotes(rule.range), " is no range of addresses"));
        state_.refuse(*each,
                      absl::StrCat(config::in_quotes(rule.range), " is no range of addresses: it is not let in"));
        continue;
      }
      rule.cidr = *parsed;
      for (const AddressRule& before : rules) {
        if (rule.allows || !before.allows || !overlap(before, rule)) continue;
        return close(*each, "a range from which some addresses are allowed before cannot be denied");
      }
      rules.push_back(std::move(rule));
    }
    put_rules(rules);
  }

  void put_rules(const std::vector<AddressRule>& rules) {
    if (rules.empty()) return;
    ++conditions_;
    const bool closed = rules.back().range.empty() && !rules.back().allows;
    std::vector<std::string> allowed, denied;
    for (const AddressRule& rule : rules) {
      if (!rule.range.empty()) (rule.allows ? allowed : denied).push_back(rule.range);
    }
    if (closed && allowed.empty()) {
      made_.is_open = false;  // As it is in nginx.
      return;
    }
    if (closed) put_words(made_.out, "allow", allowed);
    put_words(made_.out, "deny", denied);
  }

  void map_password() {
    const Directive* const basic = scope_.find("auth_basic");
    if (basic == nullptr || basic->arg(0) == "off") return;
    ++conditions_;
    const Directive* const file = scope_.find("auth_basic_user_file");
    if (file == nullptr || has_variables(file->arg(0)))
      return close(*basic, "expected auth_basic_user_file with a path");
    if (has_variables(basic->arg(0))) state_.refuse(*basic, "the realm is a fixed text");
    Node& auth = put(made_.out, "auth", map_node());
    Node& out = put(auth, "basic", map_node());
    put(out, "users_file", state_.file(file->arg(0)));
    if (!basic->arg(0).empty()) put(out, "realm", basic->arg(0));
    put(auth, "forward", "true");  // As nginx does.
  }

  const Directive* location_of(std::string_view path) const {
    for (const Directive* const location : server_.all("location")) {
      if (!location->args.empty() && location->args.back() == path &&
          (location->args.size() == 1 || location->arg(0) != "~"))
        return location;
    }
    return nullptr;
  }

  void map_authorizer() {
    const Directive* const request = scope_.find("auth_request");
    if (request == nullptr || request->arg(0) == "off") return;
    ++conditions_;
    const Directive* const location = location_of(request->arg(0));
    if (location == nullptr) return close(*request, "there is no location of this path");
    const Scope inner{location, server_scope()};
    const Directive* const pass = inner.find("proxy_pass");
    const std::optional<PassTarget> target = pass == nullptr ? std::nullopt : parse_pass(pass->arg(0), Spoken::kHttp);
    const std::string uri = !target ? "" : target->uri.empty() ? std::string(request->arg(0)) : target->uri;
    const bool fixed = !uri.empty() && canonical_path_text(uri) == uri;
    if (!fixed) return close(*request, "expected a location with proxy_pass, and a fixed path");
    const std::optional<std::string> upstream = upstream_for(*target, Spoken::kHttp, inner, *pass, state_);
    if (!upstream) return close(*request, "the authorizer cannot be asked");
    for (const Directive* const field : location->all("proxy_set_header")) {
      const std::string name = absl::AsciiStrToLower(field->arg(0));
      if (name == "host" || name == "content-length" || name == "connection") continue;
      state_.ignore(*field, "the authorizer gets the client's fields and X-Forwarded-...: see docs/guides/access.md");
    }
    Node& out = put(made_.out, "forward_auth", map_node());
    put(out, "to", *upstream);
    put(out, "path", uri);
    if (config::HostPattern::parse(target->server).ok() && *upstream != target->server)
      put(out, "host", target->server);
    std::vector<std::string> fields;
    for (const Directive* const each : scope_.all("auth_request_set")) {
      std::string_view value = each->arg(1);
      if (!absl::ConsumePrefix(&value, "$upstream_http_")) {
        state_.refuse(*each, "expected a field of the authorizer's response: $upstream_http_...");
        continue;
      }
      const std::string field = absl::StrReplaceAll(value, {{"_", "-"}});
      made_.authorized_fields[std::string(absl::StripPrefix(each->arg(0), "$"))] = field;
      fields.push_back(field);
    }
    put_words(out, "response_headers", fields);
  }

  const Scope* server_scope() const {
    for (const Scope* scope = &scope_; scope != nullptr; scope = scope->outer) {
      if (scope->block == &server_) return scope;
    }
    return nullptr;
  }

  void map_limits() {
    std::vector<std::string> names;
    for (const Directive* const limit : scope_.all("limit_req")) {
      if (const std::optional<std::string> name = limit_name(*limit)) names.push_back(*name);
    }
    put_words(made_.out, "rate_limits", names);
  }

  static std::string_view parameter_of(const Directive& limit, std::string_view name) {
    for (const std::string& arg : limit.args) {
      std::string_view rest = arg;
      if (absl::ConsumePrefix(&rest, name)) return rest;
    }
    return "";
  }

  // `limit_req zone=one burst=5 nodelay;`: a limit of its own for each burst.
  std::optional<std::string> limit_name(const Directive& limit) {
    const std::string_view zone = parameter_of(limit, "zone=");
    const auto known = state_.limit_zones.find(zone);
    if (known == state_.limit_zones.end()) {
      close(limit, absl::StrCat("there is no zone ", config::in_quotes(zone), " that can be used"));
      return std::nullopt;
    }
    uint64_t burst = 0, undelayed = 0;
    if (!absl::SimpleAtoi(parameter_of(limit, "burst="), &burst)) burst = 0;
    burst = std::min<uint64_t>(burst, 1000000);
    if (!absl::SimpleAtoi(parameter_of(limit, "delay="), &undelayed)) undelayed = 0;
    const bool nodelay = std::find(limit.args.begin(), limit.args.end(), "nodelay") != limit.args.end();
    if (nodelay) undelayed = burst;
    undelayed = std::min(undelayed, burst);
    Node out = map_node();
    put(out, "key", known->second.key);
    put(out, "rate", known->second.rate);
    put(out, "burst", absl::StrCat(undelayed + 1));
    const uint64_t wait_ms = (burst - undelayed) * 60000 / std::max<uint64_t>(known->second.per_minute, 1);
    if (wait_ms > 60000) state_.refuse(limit, "a request waits for a minute at most");
    if (wait_ms > 0) {
      put(out, "delay", duration_text(std::chrono::milliseconds(std::min<uint64_t>(wait_ms, 60000))));
    }
    put(out, "status", scope_.value("limit_req_status", "503"));
    if (scope_.is_on("limit_req_dry_run")) put(out, "dry_run", "true");
    return state_.limits.name_for(std::move(out), zone);
  }

  const Scope& scope_;
  const Directive& server_;
  State& state_;
  Access made_;
  int conditions_ = 0;
};

// What requests have in common that count together; nothing if there is no such key.
std::optional<Node> key_of_zone(std::string_view text) {
  Node key = map_node();
  if (text == "$binary_remote_addr" || text == "$remote_addr") {
    put(key, "source", "true");
  } else if (text == "$host" || text == "$server_name" || text == "$http_host") {
    put(key, "host", "true");
  } else if (absl::ConsumePrefix(&text, "$http_")) {
    put(key, "header", absl::StrReplaceAll(text, {{"_", "-"}}));
  } else if (absl::ConsumePrefix(&text, "$cookie_")) {
    put(key, "cookie", text);
  } else {
    return std::nullopt;
  }
  return key;
}

std::string_view zone_name(const Directive& zone) {
  for (const std::string& arg : zone.args) {
    std::string_view rest = arg;
    if (absl::ConsumePrefix(&rest, "zone=")) return rest.substr(0, rest.find(':'));
  }
  return "";
}

void read_limit_zone(const Directive& zone, State& state) {
  std::optional<Node> key = key_of_zone(zone.arg(0));
  if (!key) {
    return state.refuse(zone, absl::StrCat("there is no such key of a limit: ", config::in_quotes(zone.arg(0))));
  }
  std::string_view rate;
  for (const std::string& arg : zone.args) {
    if (arg.starts_with("rate=")) rate = std::string_view(arg).substr(5);
  }
  const bool per_minute = absl::ConsumeSuffix(&rate, "r/m");
  uint64_t number = 0;
  if ((!per_minute && !absl::ConsumeSuffix(&rate, "r/s")) || !absl::SimpleAtoi(rate, &number) || number == 0 ||
      number > 1000000) {
    return state.refuse(zone, "expected a rate such as 10r/s");
  }
  state.limit_zones[std::string(zone_name(zone))] = {.rate = absl::StrCat(number, per_minute ? "/m" : "/s"),
                                                     .per_minute = per_minute ? number : number * 60,
                                                     .key = *std::move(key)};
}

}  // namespace

Access map_access(const Scope& scope, const Directive& server, State& state) {
  return AccessMapper(scope, server, state).map();
}

void read_zones(const Directive& http, State& state) {
  for (const Directive* const zone : http.all("limit_req_zone")) read_limit_zone(*zone, state);
  for (const Directive* const zone : http.all("limit_conn_zone")) {
    if (zone->arg(0) == "$binary_remote_addr" || zone->arg(0) == "$remote_addr") {
      state.source_zones.emplace(zone_name(*zone));
    } else {
      state.refuse(*zone, "connections are counted by the client's address only");
    }
  }
}

}  // namespace sluice::convert::nginx
