#include "proxy/envoy/access_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/address.h"
#include "proxy/convert/common/ordering.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

void add_ranges(Node& out, std::string_view key, const std::vector<std::string>& ranges) {
  Node& list = list_at(out, key);
  for (const std::string& range : ranges) list.items.push_back(scalar_node(range));
}

void narrow_peers(RouteConditions& conditions, const std::vector<std::string>& peers) { conditions.peers = peers; }

// The header or cookie that a token is in.
bool put_token_place(const Message& provider, Node& jwt) {
  const std::vector<Message> headers = provider.subs("from_headers");
  if (headers.size() > 1 || provider.texts("from_cookies").size() > 1 || provider.has("from_params")) {
    provider.refuse("from_headers", "a token is in one header field, or in one cookie");
    return false;
  }
  if (!headers.empty()) {
    put(jwt, "header", headers.front().text("name"));
    const std::string prefix = headers.front().text("value_prefix");
    put(jwt, "scheme", absl::StripAsciiWhitespace(prefix));
  }
  const std::vector<std::string> cookies = provider.texts("from_cookies");
  if (!cookies.empty()) put(jwt, "cookie", cookies.front());
  return true;
}

void put_claims(const Message& provider, Node& jwt) {
  for (const Message& each : provider.subs("claim_to_headers")) {
    Node claim = map_node();
    put(claim, "claim", each.text("claim_name"));
    put(claim, "header", each.text("header_name"));
    list_at(jwt, "claims").items.push_back(std::move(claim));
  }
}

}  // namespace

void deny_all(Node& out) { put(out, "deny", list_node({"0.0.0.0/0", "::/0"})); }

// ---- Tokens ----

Node AccessRules::provider_auth(const Message& filter, const std::string& name, bool& known) const {
  known = false;
  const Node* const providers = filter.find("providers");
  const Node* const node = providers != nullptr ? providers->find(name) : nullptr;
  static const MessageRule* const rule = find_message_rule("envoy.extensions.filters.http.jwt_authn.v3.JwtProvider");
  if (node == nullptr) {
    filter.refuse("providers", absl::StrCat("there is no provider ", config::in_quotes(name)));
    return map_node();
  }
  const Message provider(*node, *rule, filter.subject(), absl::StrCat(filter.path_of("providers"), ".", name));
  Node auth = map_node(), jwt = map_node();
  const std::string file = file_of(provider, "local_jwks");
  if (file.empty()) return auth;  // A finding says why.
  put(jwt, "jwks_file", file);
  if (const std::string issuer = provider.text("issuer"); !issuer.empty()) put(jwt, "issuer", issuer);
  put_words(jwt, "audience", provider.texts("audiences"));
  if (const auto skew = provider.number("clock_skew_seconds")) {
    put(jwt, "leeway", duration_text(std::chrono::seconds(std::min<uint64_t>(*skew, 3600))));
  }
  if (!put_token_place(provider, jwt) || provider.has("subjects")) return auth;
  put_claims(provider, jwt);
  known = true;
  put(auth, "jwt", std::move(jwt));
  if (provider.flag("forward")) put(auth, "forward", "true");
  return auth;
}

bool AccessRules::read_jwt(const Message& filter) {
  kind_ = Kind::kJwt;
  for (const Message& each : filter.subs("rules")) {
    const std::optional<RouteConditions> conditions = map_conditions(each.sub("match"));
    if (!conditions || !conditions->is_path_only()) {
      each.refuse("match", "a rule has a path only");
      return false;
    }
    Rule rule{.path = conditions->path};
    if (each.has("requirement_name")) {
      each.refuse("requirement_name", "write the requirement in `requires`");
      return false;
    }
    if (const Message requirement = each.sub("requires"); requirement && !requirement.node()->items.empty()) {
      const std::string name = requirement.text("provider_name");
      if (name.empty()) {
        requirement.refuse("", "a requirement is one provider_name");
        return false;
      }
      bool known = false;
      rule.auth = provider_auth(filter, name, known);
      if (!known) return false;
    }
    rules_.push_back(std::move(rule));
  }
  return true;
}

// ---- Who is allowed ----

bool AccessRules::read_principal(const Message& principal, bool negated, Rule& rule) const {
  for (const std::string_view field : {"remote_ip", "source_ip", "direct_remote_ip"}) {
    const Message range = principal.sub(field);
    if (!range) continue;
    const std::string text = range_text(range);
    if (negated || !config::Cidr::parse(text).ok()) break;
    rule.ranges.push_back(text);
    return true;
  }
  if (const Message name = principal.sub("authenticated").sub("principal_name"); name && name.has("exact")) {
    rule.peers.push_back(name.text("exact"));
    rule.others = negated;
    return !negated || kind_ == Kind::kDeny;
  }
  if (const Message inner = principal.sub("not_id"); inner && !negated) return read_principal(inner, true, rule);
  if (principal.flag("any") && !negated) return rule.all = true;
  principal.refuse("", "this principal has no counterpart");
  return false;
}

bool AccessRules::read_policy(const Message& policy) {
  Rule rule;
  if (policy.has("condition") || policy.has("checked_condition")) return false;
  for (const Message& principal : policy.subs("principals")) {
    if (!read_principal(principal, false, rule)) return false;
  }
  if (rule.others && (rule.peers.size() > 1 || !rule.ranges.empty() || rule.all)) {
    policy.refuse("principals", "not_id is possible alone only");
    return false;
  }
  for (const Message& permission : policy.subs("permissions")) {
    if (permission.flag("any")) {
      rule.path = PathSet{};
    } else if (const Message path = permission.sub("url_path").sub("path");
               path && (path.has("exact") || path.has("prefix"))) {
      const bool exact = path.has("exact");
      rule.path = {.kind = exact ? PathSet::Kind::kExact : PathSet::Kind::kBytes,
                   .text = path.text(exact ? "exact" : "prefix"),
                   .any_case = path.flag("ignore_case")};
      if (rule.path.text == "/" && !exact) rule.path = PathSet{};
    } else {
      permission.refuse("", "this permission has no counterpart");
      return false;
    }
    rules_.push_back(rule);
  }
  return true;
}

bool AccessRules::read_rbac(const Message& filter) {
  const Message rules = filter.sub("rules");
  if (!rules) return !filter.has("matcher");
  const std::string action = rules.text("action");
  if (!action.empty() && action != "ALLOW" && action != "DENY") {
    rules.ignore("action", "requests are neither allowed nor denied: the rules are left out");
    return true;
  }
  kind_ = action == "DENY" ? Kind::kDeny : Kind::kAllow;
  const Node* const policies = rules.find("policies");
  static const MessageRule* const type = find_message_rule("envoy.config.rbac.v3.Policy");
  for (size_t i = 0; policies != nullptr && i < policies->items.size(); ++i) {
    const std::string path = absl::StrCat(rules.path_of("policies"), ".", policies->keys[i].text);
    const Message policy(policies->items[i], *type, filter.subject(), path);
    if (!policy || !read_policy(policy)) return false;
  }
  if (kind_ == Kind::kAllow && rules_.empty()) {
    // Nobody is allowed.
    rules_.push_back({});
  }
  return true;
}

// ---- Application ----

// The paths of all rules, those that are parts of others first.
std::vector<PathSet> AccessRules::zones() const {
  std::vector<PathSet> all;
  for (const Rule& rule : rules_) {
    if (kind_ == Kind::kDeny && !rule.others) continue;
    const bool known = std::find(all.begin(), all.end(), rule.path) != all.end();
    if (!known && rule.path.kind != PathSet::Kind::kAll) all.push_back(rule.path);
  }
  convert::sort_in_order(all, [](const PathSet& a, const PathSet& b) {
    const bool x = a.kind == PathSet::Kind::kExact, y = b.kind == PathSet::Kind::kExact;
    return x != y ? x : a.text.size() > b.text.size();
  });
  return all;
}

std::vector<const AccessRules::Rule*> AccessRules::rules_for(const PathSet& zone) const {
  std::vector<const Rule*> all;
  for (const Rule& rule : rules_) {
    if (overlap_of(zone, rule.path) == Overlap::kAll) all.push_back(&rule);
  }
  return all;
}

// Rules of the form "all but".
void AccessRules::add_denied(MappedRoute route, const std::vector<const Rule*>& rules, std::vector<MappedRoute>& to) {
  for (const Rule* const rule : rules) {
    if (!rule->others) continue;
    MappedRoute named = route;
    narrow_peers(named.conditions, rule->peers);
    to.push_back(std::move(named));
    deny_all(route.out);
  }
  to.push_back(std::move(route));
}

// Other rules that deny: routes before all others, which respond as Envoy does.
void AccessRules::put_refusals(std::vector<MappedRoute>& routes) const {
  std::vector<MappedRoute> made;
  const auto add_refusal = [&](const Rule& rule, std::vector<std::string> sources, std::vector<std::string> peers) {
    MappedRoute refusal;
    refusal.conditions.path = rule.path;
    refusal.conditions.sources = std::move(sources);
    refusal.conditions.peers = std::move(peers);
    Node& respond = map_at(refusal.out, "respond");
    put(respond, "status", "403");
    put(respond, "body", "RBAC: access denied");
    put(respond, "content_type", "text/plain");
    made.push_back(std::move(refusal));
  };
  for (const Rule& rule : rules_) {
    if (rule.others) continue;
    if (rule.all) {
      add_refusal(rule, {}, {});
      continue;
    }
    if (!rule.ranges.empty()) add_refusal(rule, rule.ranges, {});
    if (!rule.peers.empty()) add_refusal(rule, {}, rule.peers);
  }
  for (MappedRoute& route : routes) {
    const bool taken = std::any_of(made.begin(), made.end(), [&](const MappedRoute& before) {
      return before.conditions.is_path_only() &&
             overlap_of(route.conditions.path, before.conditions.path) == Overlap::kAll;
    });
    if (!taken) made.push_back(std::move(route));
  }
  routes = std::move(made);
}

void AccessRules::add_allowed(MappedRoute route, const std::vector<const Rule*>& rules, std::vector<MappedRoute>& to) {
  std::vector<std::string> ranges, peers;
  bool all = false;
  for (const Rule* const rule : rules) {
    all = all || rule->all;
    ranges.insert(ranges.end(), rule->ranges.begin(), rule->ranges.end());
    peers.insert(peers.end(), rule->peers.begin(), rule->peers.end());
  }
  if (!all && !peers.empty()) {
    MappedRoute named = route;
    narrow_peers(named.conditions, peers);
    to.push_back(std::move(named));
  }
  if (!all && ranges.empty()) deny_all(route.out);
  if (!all && !ranges.empty()) add_ranges(route.out, "allow", ranges);
  to.push_back(std::move(route));
}

void AccessRules::add(MappedRoute route, const PathSet& zone, std::vector<MappedRoute>& to) const {
  const std::vector<const Rule*> rules = rules_for(zone);
  if (kind_ == Kind::kDeny) return add_denied(std::move(route), rules, to);
  if (kind_ == Kind::kAllow) return add_allowed(std::move(route), rules, to);
  if (!rules.empty() && !rules.front()->auth.keys.empty()) put(route.out, "auth", rules.front()->auth);
  to.push_back(std::move(route));
}

bool AccessRules::split(const std::vector<MappedRoute>& routes, std::vector<MappedRoute>& made) const {
  const std::vector<PathSet> all = zones();
  for (const MappedRoute& route : routes) {
    // Two filters that look at names, two that ask for a password or token, or two lists of those who are allowed.
    if (kind_ != Kind::kJwt && !route.conditions.peers.empty()) return false;
    if (kind_ == Kind::kJwt && route.out.find("auth") != nullptr) return false;
    if (kind_ == Kind::kAllow && route.out.find("allow") != nullptr) return false;
    bool done = false;
    for (const PathSet& zone : all) {
      const Overlap overlap = overlap_of(route.conditions.path, zone);
      if (overlap == Overlap::kUnknown) return false;
      if (overlap == Overlap::kNone) continue;
      done = overlap == Overlap::kAll;
      MappedRoute part = route;
      if (!done) part.conditions.path = zone;
      add(std::move(part), zone, made);
      if (done) break;
    }
    if (!done) add(route, PathSet{}, made);
  }
  return true;
}

bool AccessRules::apply(std::vector<MappedRoute>& routes) const {
  if (rules_.empty()) return true;
  const bool only_some = std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.others; });
  if (kind_ != Kind::kDeny || only_some) {
    std::vector<MappedRoute> made;
    if (!split(routes, made)) return false;
    routes = std::move(made);
  }
  if (kind_ == Kind::kDeny) put_refusals(routes);
  return true;
}

}  // namespace sluice::envoy
