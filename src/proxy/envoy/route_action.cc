#include "proxy/envoy/route_action.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/header_changes.h"
#include "proxy/envoy/path_change.h"
#include "proxy/envoy/retry_policy.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

class RouteMapper {
 public:
  RouteMapper(const Message& route, const RouteSurroundings& around)
      : route_(route), around_(around), state_(around.state) {}

  std::optional<MappedRoute> map() {
    const Message match = route_.sub("match");
    std::optional<RouteConditions> conditions = map_conditions(match);
    if (!conditions) return std::nullopt;
    made_.conditions = *std::move(conditions);
    made_.name = route_.text("name");
    if (!map_action()) return std::nullopt;
    map_headers();
    return std::move(made_);
  }

 private:
  bool map_action() {
    if (const Message action = route_.sub("route")) return map_forward(action);
    if (const Message redirect = route_.sub("redirect")) return map_redirect(redirect);
    if (const Message response = route_.sub("direct_response")) return map_response(response);
    route_.refuse("", "the action has no counterpart: the route is left out");
    return false;
  }

  // ---- Forwarding ----

  const MappedUpstream* find(const Message& owner, std::string_view field, const std::string& cluster) {
    UsedUpstream* const upstream = state_.find_upstream(cluster);
    if (upstream == nullptr) {
      owner.report(
          field,
          absl::StrCat("there is no cluster ", config::in_quotes(cluster),
                       state_.resources.may_follow ? " yet: requests get 503" : ": give the file that has it, too"),
          state_.resources.severity_of_missing());
      return nullptr;
    }
    upstream->use.is_for_http = true;
    return upstream->mapped->is_usable ? upstream->mapped.get() : nullptr;
  }

  bool map_target(const Message& action) {
    if (action.has("cluster")) {
      const MappedUpstream* const upstream = find(action, "cluster", action.text("cluster"));
      if (upstream != nullptr) put(made_.out, "forward", upstream->name);
      return upstream != nullptr;
    }
    const Message weighted = action.sub("weighted_clusters");
    Node split = list_node();
    uint64_t weights = 0;
    for (const Message& part : weighted.subs("clusters")) {
      const MappedUpstream* const upstream = find(part, "name", part.text("name"));
      const uint64_t weight = std::min<uint64_t>(part.number("weight").value_or(0), 1000000);
      if (upstream == nullptr) continue;
      Node item = map_node();
      put(item, "forward", upstream->name);
      put(item, "weight", absl::StrCat(weight));
      for (const std::string_view type : {"request", "response"}) {
        Node changes = list_node();
        add_header_changes(part, type, changes);
        if (!changes.items.empty()) put(item, absl::StrCat(type, "_headers"), std::move(changes));
      }
      weights += weight;
      split.items.push_back(std::move(item));
    }
    if (weights == 0) return false;
    if (split.items.size() > 1) {
      put(made_.out, "split", std::move(split));
      return true;
    }
    only_share_ = std::move(split.items.front());
    put(made_.out, "forward", only_share_.find("forward")->text);
    return true;
  }

  bool map_forward(const Message& action) {
    if (!action.has("cluster") && !action.has("weighted_clusters")) {
      action.refuse("", "the cluster is not named: the route is left out");
      return false;
    }
    if (!map_target(action)) {
      make_unavailable(made_, "no healthy upstream");
      return true;
    }
    map_rewrite(action);
    put_timeout(made_.out, "response_timeout", action, "timeout");
    put_timeout(made_.out, "stream_idle_timeout", action, "idle_timeout");
    put_duration(made_.out, "request_timeout", action.sub("max_stream_duration"), "max_stream_duration");
    if (action.text("priority") == "HIGH") put(made_.out, "priority", "high");
    Message retry = action.sub("retry_policy");
    if (!retry) retry = around_.virtual_host.sub("retry_policy");
    if (retry) {
      Node policy = retry_node(retry);
      if (!policy.keys.empty()) put(made_.out, "retry", std::move(policy));
    }
    map_upgrades(action);
    map_mirror(action);
    map_hash(action);
    map_descriptors(action);
    return true;
  }

  void map_rewrite(const Message& action) {
    Node rewrite = map_node();
    if (const std::string host = action.text("host_rewrite_literal"); !host.empty()) put(rewrite, "host", host);
    if (action.flag("auto_host_rewrite")) {
      const UsedUpstream* const upstream = state_.find_upstream(action.text("cluster"));
      if (upstream != nullptr && !upstream->mapped->host_name.empty()) {
        put(rewrite, "host", upstream->mapped->host_name);
      } else {
        action.refuse("auto_host_rewrite", "it needs a cluster with one endpoint, which has a name");
      }
    }
    if (const Message regex = action.sub("regex_rewrite")) put_regex_change(regex, rewrite);
    note_prefix_change(action, "prefix_rewrite", "rewrite");
    if (!rewrite.keys.empty()) put(made_.out, "rewrite", std::move(rewrite));
  }

  void note_prefix_change(const Message& owner, std::string_view field, std::string_view key) {
    const std::string replacement = owner.text(field);
    if (replacement.empty()) return;
    Node trial = map_node();
    if (!put_prefix_change(made_.conditions.path, replacement, made_.conditions.path, trial)) {
      return owner.refuse(field, "a new path begins with a slash, and has no query: the path stays as it is");
    }
    made_.change_key = key;
    made_.changed = made_.conditions.path;
    made_.replacement = replacement;
  }

  void map_upgrades(const Message& action) {
    for (const Message& upgrade : action.subs("upgrade_configs")) {
      const std::string type = upgrade.text("upgrade_type");
      if (!upgrade.flag("enabled", true)) {
        upgrade.ignore("enabled", "a listener has upgrades for all its routes, or for none");
      } else if (absl::EqualsIgnoreCase(type, "websocket")) {
        made_.takes_websocket = true;
      } else {
        upgrade.refuse("upgrade_type", absl::StrCat("there is no counterpart of ", config::in_quotes(type)));
      }
    }
  }

  void map_mirror(const Message& action) {
    std::vector<Message> policies = action.subs("request_mirror_policies");
    if (policies.empty()) policies = around_.virtual_host.subs("request_mirror_policies");
    if (policies.empty()) policies = around_.configuration.subs("request_mirror_policies");
    Node mirrors = list_node();
    for (const Message& policy : policies) {
      const MappedUpstream* const upstream = find(policy, "cluster", policy.text("cluster"));
      if (upstream == nullptr) continue;
      Node mirror = map_node();
      put(mirror, "to", upstream->name);
      const double share = percent_of(policy, "runtime_fraction").value_or(100);
      if (std::round(share) != share) policy.ignore("runtime_fraction", "it is rounded to whole percents");
      if (share < 100) put(mirror, "percent", absl::StrCat(static_cast<int>(std::lround(share))));
      mirrors.items.push_back(std::move(mirror));
    }
    if (mirrors.items.size() == 1) {
      put(made_.out, "mirror", std::move(mirrors.items.front()));
    } else if (!mirrors.items.empty()) {
      put(made_.out, "mirror", std::move(mirrors));
    }
  }

  void map_hash(const Message& action) {
    const std::vector<Message> policies = action.subs("hash_policy");
    if (policies.empty()) return;
    UsedUpstream* const upstream = state_.find_upstream(action.text("cluster"));
    if (action.has("weighted_clusters"))
      return action.refuse("hash_policy", "it needs one cluster, which the route names");
    if (upstream == nullptr || !upstream->mapped->is_hashed) return;  // Nor has it an effect in Envoy.
    Node hash = map_node();
    const Message& policy = policies.front();
    if (const Message header = policy.sub("header")) put(hash, "header", header.text("header_name"));
    if (const Message cookie = policy.sub("cookie")) put(hash, "cookie", cookie.text("name"));
    if (const Message query = policy.sub("query_parameter")) put(hash, "query", query.text("name"));
    if (policy.sub("connection_properties").flag("source_ip")) put(hash, "source", "true");
    if (hash.keys.empty()) return;
    if (policies.size() > 1) action.ignore("hash_policy", "the first policy counts, then the client's address");
    const Node* const known = upstream->use.keys.find("hash");
    if (known != nullptr && !same_value(*known, hash)) {
      return action.refuse("hash_policy", "another route has another policy for this cluster: an upstream has one");
    }
    put(upstream->use.keys, "hash", std::move(hash));
  }

  void map_descriptors(const Message& action) {
    std::vector<Message> limits = action.subs("rate_limits");
    if (limits.empty() || action.flag("include_vh_rate_limits")) {
      for (const Message& limit : around_.virtual_host.subs("rate_limits")) limits.push_back(limit);
    }
    Node descriptors = list_node();
    for (const Message& limit : limits) {
      Node entries = list_node();
      bool whole = true;
      for (const Message& each : limit.subs("actions")) whole = put_entry(each, entries) && whole;
      if (!whole || entries.items.empty()) continue;
      put(descriptors.items.emplace_back(map_node()), "entries", std::move(entries));
    }
    if (!descriptors.items.empty()) put(made_.out, "rate_limit_descriptors", std::move(descriptors));
  }

  static bool put_entry(const Message& action, Node& entries) {
    Node entry = map_node();
    std::string key;
    if (action.has("remote_address")) {
      put(entry, "source", "true");
    } else if (const Message generic = action.sub("generic_key")) {
      put(entry, "value", generic.text("descriptor_value"));
      key = generic.text("descriptor_key");
    } else if (const Message header = action.sub("request_headers")) {
      put(entry, "header", header.text("header_name"));
      key = header.text("descriptor_key");
    } else {
      action.refuse("", "this entry has no counterpart: the descriptor is left out");
      return false;
    }
    if (!key.empty()) put(entry, "key", key);
    entries.items.push_back(std::move(entry));
    return true;
  }

  // ---- Other actions ----

  bool map_redirect(const Message& redirect) {
    Node out = map_node();
    constexpr std::pair<std::string_view, std::string_view> kStatuses[] = {
        {"FOUND", "302"}, {"SEE_OTHER", "303"}, {"TEMPORARY_REDIRECT", "307"}, {"PERMANENT_REDIRECT", "308"}};
    const std::string code = redirect.text("response_code");
    for (const auto& [name, status] : kStatuses) {
      if (code == name) put(out, "status", status);
    }
    if (redirect.flag("https_redirect")) put(out, "scheme", "https");
    if (const std::string scheme = redirect.text("scheme_redirect"); !scheme.empty()) put(out, "scheme", scheme);
    if (const std::string host = redirect.text("host_redirect"); !host.empty()) put(out, "host", host);
    put_number(out, "port", redirect, "port_redirect", 0, 65535);
    if (const std::string path = redirect.text("path_redirect"); !path.empty()) map_new_path(redirect, path, out);
    if (const Message regex = redirect.sub("regex_rewrite")) put_regex_change(regex, out);
    note_prefix_change(redirect, "prefix_rewrite", "redirect");
    if (redirect.flag("strip_query")) put(out, "drop_query", "true");
    const bool elsewhere =
        out.find("scheme") || out.find("host") || out.find("port") || out.find("path") || out.find("regex");
    if (!elsewhere && made_.change_key.empty()) {
      redirect.refuse("", "it leads to the same URL: the route is left out");
      return false;
    }
    put(made_.out, "redirect", std::move(out));
    return true;
  }

  static void map_new_path(const Message& redirect, const std::string& path, Node& out) {
    const auto canonical = canonical_path_text(path);
    if (canonical) {
      put(out, "path", *canonical);
    } else {
      redirect.refuse("path_redirect", "a new path begins with a slash, and has no query: the path stays as it is");
    }
  }

  bool map_response(const Message& response) {
    const auto status = response.number("status");
    if (!status || *status < 200 || *status > 599) {
      response.refuse("status", "expected a status from 200 to 599: the route is left out");
      return false;
    }
    Node out = map_node();
    put(out, "status", absl::StrCat(*status));
    const auto body = inline_text_of(response, "body");
    const bool bodiless = *status == 204 || *status == 205 || *status == 304;
    if (body && !body->empty() && !bodiless) {
      put(out, "body", *body);
      put(out, "content_type", "text/plain");
    }
    put(made_.out, "respond", std::move(out));
    return true;
  }

  // ---- Header fields ----

  // In Envoy's order: the route, its virtual host, its configuration; the other way round if that says so.
  void map_headers() {
    std::vector<const Message*> levels{&route_, &around_.virtual_host, &around_.configuration};
    if (around_.configuration.flag("most_specific_header_mutations_wins")) std::reverse(levels.begin(), levels.end());
    Node request = list_node(), response = list_node();
    if (route_.sub("route").flag("append_x_forwarded_host")) {
      Node host = map_node();
      put(host, "name", "x-forwarded-host");
      put(host, "add", "%{authority}");
      request.items.push_back(std::move(host));
    }
    for (const Message* const level : levels) {
      add_header_changes(*level, "request", request);
      add_header_changes(*level, "response", response);
    }
    if (const Node* const more = only_share_.find("request_headers"))
      request.items.insert(request.items.end(), more->items.begin(), more->items.end());
    if (const Node* const more = only_share_.find("response_headers"))
      response.items.insert(response.items.end(), more->items.begin(), more->items.end());
    if (const Node* const respond = made_.out.find("respond"); respond != nullptr && respond->find("body") != nullptr) {
      const std::string type = take_content_type(response);
      if (!type.empty()) put(map_at(made_.out, "respond"), "content_type", type);
    }
    if (!request.items.empty() && made_.forwards()) put(made_.out, "request_headers", std::move(request));
    if (!response.items.empty()) put(made_.out, "response_headers", std::move(response));
  }

  const Message& route_;
  const RouteSurroundings& around_;
  MappingState& state_;
  MappedRoute made_;
  Node only_share_ = map_node();  // The only usable one of weighted clusters: a `split` needs two.
};

}  // namespace

void make_unavailable(MappedRoute& route, std::string_view text) {
  route.out = map_node();
  route.change_key.clear();
  Node respond = map_node();
  put(respond, "status", "503");
  put(respond, "body", text);
  put(respond, "content_type", "text/plain");
  put(route.out, "respond", std::move(respond));
}

std::optional<MappedRoute> map_route(const Message& route, const RouteSurroundings& around) {
  return RouteMapper(route, around).map();
}

}  // namespace sluice::envoy
