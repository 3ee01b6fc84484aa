#include "proxy/envoy/clusters.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/endpoints.h"
#include "proxy/envoy/message.h"
#include "proxy/envoy/tls.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

// Envoy's default for a route without `timeout`. Sluice's is longer.
constexpr std::string_view kEnvoyRouteTimeout = "15s";
// Envoy's default for max_ejection_percent.
constexpr std::string_view kEnvoyEjectionShare = "10";

// By the names of lb_policy, and of the types in load_balancing_policy.
struct BalanceName {
  std::string_view policy;
  std::string_view type;
  std::string_view sluice;
};
constexpr BalanceName kBalanceNames[] = {
    {"ROUND_ROBIN", "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin", "round_robin"},
    {"LEAST_REQUEST", "envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest", "least_request"},
    {"RANDOM", "envoy.extensions.load_balancing_policies.random.v3.Random", "random"},
    {"RING_HASH", "envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash", "ring_hash"},
    {"MAGLEV", "envoy.extensions.load_balancing_policies.maglev.v3.Maglev", "maglev"},
};

void put_balance(std::string_view name, MappedUpstream& upstream) {
  if (name != "round_robin") put(upstream.out, "balance", name);
  upstream.is_hashed = name == "ring_hash" || name == "maglev";
}

// Returns whether the localities of the endpoints have shares of their own.
bool map_balance(const Message& cluster, MappedUpstream& upstream) {
  constexpr std::string_view kByLocality = "locality_weighted_lb_config";
  if (const Message policies = cluster.sub("load_balancing_policy")) {
    for (const Message& policy : policies.subs("policies")) {
      const Message extension = policy.sub("typed_extension_config");
      const std::string type = extension.any_type("typed_config");
      for (const BalanceName& each : kBalanceNames) {
        if (each.type != type) continue;
        put_balance(each.sluice, upstream);
        const Message options = extension.any("typed_config");
        return options.has(kByLocality) || options.sub("locality_lb_config").has(kByLocality);
      }
    }
    cluster.refuse("load_balancing_policy", "none of the policies is known here: endpoints are used in turn");
    return false;
  }
  const bool by_locality = cluster.sub("common_lb_config").has(kByLocality);
  const std::string policy = cluster.text("lb_policy");
  if (policy.empty()) return by_locality;
  for (const BalanceName& each : kBalanceNames) {
    if (each.policy != policy) continue;
    put_balance(each.sluice, upstream);
    return by_locality;
  }
  cluster.refuse("lb_policy", absl::StrCat("there is no counterpart of ", config::in_quotes(policy),
                                           ": endpoints are used in turn"));
  return by_locality;
}

// ---- Health ----

void put_statuses(const Message& http, Node& out) {
  std::vector<std::string> statuses;
  for (const Message& range : http.subs("expected_statuses")) {
    const uint64_t begin = range.number("start").value_or(0), end = range.number("end").value_or(0);
    if (begin < 200 || end > 600 || begin >= end) {
      range.refuse("", "expected statuses from 200 to 599");
      continue;
    }
    for (uint64_t status = begin; status < end; ++status) statuses.push_back(absl::StrCat(status));
  }
  // Sluice takes all of 2xx and 3xx without the key; Envoy 200 only.
  put_words(out, "status", statuses.empty() ? std::vector<std::string>{"200"} : statuses);
}

void map_health_check(const Message& check, Node& out) {
  Node& made = put(out, "health_check", map_node());
  put_duration(made, "interval", check, "interval");
  put_duration(made, "timeout", check, "timeout");
  put_number(made, "healthy_after", check, "healthy_threshold", 1, 1000);
  put_number(made, "unhealthy_after", check, "unhealthy_threshold", 1, 1000);
  put_number(made, "port", check, "alt_port", 1, 65535);
  if (const Message http = check.sub("http_health_check")) {
    Node asked = map_node();
    if (const std::string path = http.text("path"); !path.empty()) put(asked, "path", path);
    if (const std::string host = http.text("host"); !host.empty()) put(asked, "host", host);
    put_statuses(http, asked);
    put(made, "http", std::move(asked));
  } else if (const Message grpc = check.sub("grpc_health_check")) {
    Node asked = map_node();
    if (const std::string service = grpc.text("service_name"); !service.empty()) put(asked, "service", service);
    put(made, "grpc", std::move(asked));
  } else {
    check.sub("tcp_health_check");  // For its findings: a connect is what Sluice checks without more.
  }
}

void map_outliers(const Message& outliers, Node& out) {
  const bool by_errors = outliers.number("enforcing_consecutive_5xx").value_or(100) > 0;
  const uint64_t errors = by_errors ? outliers.number("consecutive_5xx").value_or(5) : 0;
  const bool by_gateway = outliers.number("enforcing_consecutive_gateway_failure").value_or(0) > 0;
  uint64_t gateway = by_gateway ? outliers.number("consecutive_gateway_failure").value_or(5) : 0;
  if (const auto fails = outliers.number("consecutive_local_origin_failure");
      fails && outliers.flag("split_external_local_origin_errors")) {
    put(out, "max_fails", absl::StrCat(*fails));
    put_duration(out, "fail_timeout", outliers, "base_ejection_time");
  }
  if (errors > 0 && gateway >= errors) gateway = 0;  // Each of these errors is one of the others, too.
  if (errors == 0 && gateway == 0) return;
  Node made = map_node();
  put(made, "consecutive_errors", absl::StrCat(errors));
  if (gateway > 0) put(made, "gateway_errors", absl::StrCat(gateway));
  const auto time = outliers.duration("base_ejection_time").value_or(std::chrono::seconds(30));
  const auto most = outliers.duration("max_ejection_time").value_or(std::chrono::seconds(300));
  put(made, "time", duration_text(time));
  put(made, "max_time", duration_text(std::max(most, time)));
  put(made, "max_share", kEnvoyEjectionShare);
  put_number(made, "max_share", outliers, "max_ejection_percent", 0, 100);
  put(out, "ejection", std::move(made));
}

// ---- Limits ----

void map_thresholds(const Message& limits, MappedUpstream& upstream) {
  if (const std::string priority = limits.text("priority"); !priority.empty() && priority != "DEFAULT") {
    limits.ignore("priority", "limits are those of the priority DEFAULT");
    return;
  }
  Node& out = upstream.out;
  if (limits.has("max_connections")) {
    put_number(out, "max_connections_per_endpoint", limits, "max_connections");
    if (upstream.endpoints > 1) limits.ignore("max_connections", "it counts for each endpoint, not for all together");
  }
  if (limits.has("max_pending_requests"))
    put_number(map_at(out, "pool"), "max_pending", limits, "max_pending_requests");
  if (const Message budget = limits.sub("retry_budget")) {
    const std::string percent = budget.sub("budget_percent").text("value");
    const double share = percent.empty() ? 20 : std::atof(percent.c_str());
    Node made = map_node();
    put(made, "percent", absl::StrCat(static_cast<int>(std::lround(std::clamp(share, 0.0, 100.0)))));
    put(out, "retry_budget", std::move(made));
  }
}

void map_limits(const Message& cluster, MappedUpstream& upstream) {
  const Message breakers = cluster.sub("circuit_breakers");
  if (!breakers) return;
  for (const Message& limits : breakers.subs("thresholds")) map_thresholds(limits, upstream);
  for (const Message& limits : breakers.subs("per_host_thresholds")) {
    put_number(upstream.out, "max_connections_per_endpoint", limits, "max_connections");
  }
}

// ---- Protocols ----

void map_common_options(const Message& options, Node& out) {
  if (!options) return;
  if (options.has("idle_timeout")) put_duration(map_at(out, "pool"), "idle_timeout", options, "idle_timeout");
  if (options.has("max_requests_per_connection")) {
    put_number(map_at(out, "pool"), "max_requests", options, "max_requests_per_connection");
  }
}

void map_http2_options(const Message& options, Node& out) {
  put(out, "protocol", "http2");
  if (options.has("max_concurrent_streams")) {
    put_number(map_at(out, "pool"), "max_streams", options, "max_concurrent_streams", 1, 65535);
  }
}

void map_protocol(const Message& cluster, Node& out) {
  cluster.sub("http_protocol_options");
  map_common_options(cluster.sub("common_http_protocol_options"), out);
  if (cluster.has("max_requests_per_connection")) {
    put_number(map_at(out, "pool"), "max_requests", cluster, "max_requests_per_connection");
  }
  if (const Message http2 = cluster.sub("http2_protocol_options")) map_http2_options(http2, out);
  for (const auto& [name, options] : cluster.any_map("typed_extension_protocol_options")) {
    map_common_options(options.sub("common_http_protocol_options"), out);
    const Message chosen = options.sub("explicit_http_config");
    chosen.sub("http_protocol_options");
    if (const Message http2 = chosen.sub("http2_protocol_options")) map_http2_options(http2, out);
  }
}

void map_transport(const Message& owner, const MappingState& state, MappedUpstream& upstream) {
  const Message socket = owner.sub("transport_socket");
  if (!socket) return;
  const std::string type = socket.any_type("typed_config");
  const Message options = socket.any("typed_config");
  if (options.type().ends_with(".UpstreamTlsContext")) {
    std::optional<Node> tls = upstream_tls(options, upstream.host_name, state);
    upstream.is_usable = upstream.is_usable && tls.has_value();
    if (tls) put(upstream.out, "tls", *std::move(tls));
  } else if (options.type().ends_with(".ProxyProtocolUpstreamTransport")) {
    put(upstream.out, "send_proxy_protocol", options.sub("config").text("version") == "V2" ? "v2" : "v1");
    map_transport(options, state, upstream);
  } else if (!options.type().ends_with(".RawBuffer") && socket.text("name") != "envoy.transport_sockets.raw_buffer") {
    socket.refuse("typed_config", absl::StrCat("there is no counterpart of ", config::in_quotes(type)));
  }
}

bool is_chosen(const Message& match, const Node* criteria) {
  const Node* const wanted = match.find("match");
  if (wanted == nullptr || wanted->kind != Node::Kind::kMap) return true;
  for (size_t i = 0; i < wanted->keys.size(); ++i) {
    const bool is_map = criteria != nullptr && criteria->kind == Node::Kind::kMap;
    const Node* const found = is_map ? criteria->find(wanted->keys[i].text) : nullptr;
    if (found == nullptr || !same_value(*found, wanted->items[i])) return false;
  }
  return true;
}

// An endpoint uses the transport socket of the first match that fits its metadata, else the cluster's.
void map_transport_choice(const Message& cluster, const MappingState& state, MappedUpstream& upstream) {
  const std::vector<Message> matches = cluster.subs("transport_socket_matches");
  std::vector<size_t> chosen;
  for (const Node* const criteria : upstream.socket_criteria) {
    const auto found =
        std::find_if(matches.begin(), matches.end(), [&](const Message& each) { return is_chosen(each, criteria); });
    const auto index = static_cast<size_t>(found - matches.begin());
    if (std::find(chosen.begin(), chosen.end(), index) == chosen.end()) chosen.push_back(index);
  }
  const auto owner_at = [&](size_t index) { return index == matches.size() ? cluster : matches[index]; };
  const Node before = upstream.out;
  map_transport(chosen.empty() ? cluster : owner_at(chosen.front()), state, upstream);
  for (size_t i = 1; i < chosen.size(); ++i) {
    MappedUpstream other = upstream;
    other.out = before;
    map_transport(owner_at(chosen[i]), state, other);
    if (other.is_usable == upstream.is_usable && same_value(other.out, upstream.out)) continue;
    cluster.refuse("transport_socket_matches",
                   "an upstream has one `tls` for all endpoints: requests for this cluster get 503");
    upstream.is_usable = false;
    return;
  }
}

// ---- Endpoints ----

std::string_view family_name(const std::string& family) {
  if (family == "V4_ONLY") return "ip4";
  return family == "V6_ONLY" ? "ip6" : "";
}

bool is_by_name(const Message& cluster) {
  const std::string type = cluster.text("type");
  if (type == "STRICT_DNS" || type == "LOGICAL_DNS") return true;
  const Message custom = cluster.sub("cluster_type");
  if (!custom) return false;
  const std::string name = custom.text("name");
  const Message options = custom.any("typed_config");
  return options.type().ends_with(".DnsCluster") || absl::StrContains(name, "dns");
}

void map_lookup(const Message& cluster, Node& out) {
  std::string family = cluster.text("dns_lookup_family");
  if (const Message options = cluster.sub("cluster_type").any("typed_config"); options && family.empty()) {
    family = options.text("dns_lookup_family");
  }
  if (const std::string_view name = family_name(family); !name.empty()) put(map_at(out, "resolve"), "family", name);
}

void find_endpoints(const Message& cluster, const MappingState& state, bool by_locality, MappedUpstream& upstream) {
  const bool by_name = is_by_name(cluster);
  if (const Message assignment = cluster.sub("load_assignment")) {
    map_endpoints(assignment, by_name, by_locality, upstream);
  } else {
    std::string name = cluster.sub("eds_cluster_config").text("service_name");
    if (name.empty()) name = cluster.text("name");
    if (const Node* const found = state.find_endpoints(name)) {
      static const MessageRule* const rule = find_message_rule("envoy.config.endpoint.v3.ClusterLoadAssignment");
      Subject subject{*state.findings, "endpoints", name};
      map_endpoints(Message(*found, *rule, subject, ""), false, by_locality, upstream);
    }
  }
  if (by_name) map_lookup(cluster, upstream.out);
  if (!upstream.is_usable) {
    cluster.report("", "there are no endpoints that can be used: requests for it get 503",
                   state.resources.severity_of_missing());
  }
}

MappedUpstream map_cluster(const Message& cluster, std::string name, const MappingState& state) {
  MappedUpstream upstream{.name = std::move(name)};
  put(upstream.out, "name", upstream.name);
  const std::string type = cluster.text("type");
  if (type == "ORIGINAL_DST") cluster.refuse("type", "there is no counterpart of ORIGINAL_DST");
  map_protocol(cluster, upstream.out);
  const bool by_locality = map_balance(cluster, upstream);
  find_endpoints(cluster, state, by_locality, upstream);
  put_duration(upstream.out, "connect_timeout", cluster, "connect_timeout");
  put(upstream.out, "response_timeout", kEnvoyRouteTimeout);
  for (const Message& check : cluster.subs("health_checks")) {
    if (upstream.out.find("health_check") == nullptr) {
      map_health_check(check, upstream.out);
    } else {
      check.refuse("", "an upstream has one health check: the first is used");
    }
  }
  if (const Message outliers = cluster.sub("outlier_detection")) map_outliers(outliers, upstream.out);
  map_limits(cluster, upstream);
  map_transport_choice(cluster, state, upstream);
  if (const Message keepalive = cluster.sub("upstream_connection_options").sub("tcp_keepalive")) {
    Node& out = put(upstream.out, "keepalive", map_node());
    if (const auto idle = keepalive.number("keepalive_time"))
      put(out, "idle", absl::StrCat(std::min<uint64_t>(*idle, 32767), "s"));
    if (const auto each = keepalive.number("keepalive_interval"))
      put(out, "interval", absl::StrCat(std::clamp<uint64_t>(*each, 1, 32767), "s"));
    put_number(out, "probes", keepalive, "keepalive_probes", 1, 127);
  }
  return upstream;
}

CachedCluster map_anew(const Node& node, const MessageRule& rule, const std::string& cluster, std::string name,
                       MappingState& state) {
  CachedCluster made{.tree = &node, .is_used = true};
  Subject subject{made.findings, "cluster", cluster};
  const MappingPart part(state, made.findings, made.lookups);
  MappedUpstream upstream = map_cluster(Message(node, rule, subject, ""), std::move(name), state);
  upstream.socket_criteria.clear();  // They refer to the endpoints' tree.
  made.mapped = std::make_shared<const MappedUpstream>(std::move(upstream));
  return made;
}

bool is_current(const Lookups::Trees& found, const ResourceIndex& index) {
  return std::all_of(found.begin(), found.end(),
                     [&](const auto& each) { return index.find(each.first) == each.second; });
}

}  // namespace

void map_clusters(MappingState& state, ClusterCache& cache) {
  static const MessageRule* const rule = find_message_rule("envoy.config.cluster.v3.Cluster");
  NameTable names;
  for (const Node* const node : state.resources.clusters) {
    Subject subject{*state.findings, "cluster", ""};
    const Node* const named = node->kind == Node::Kind::kMap ? node->find("name") : nullptr;
    if (named != nullptr) subject.name = named->text;
    if (state.upstreams.contains(subject.name)) {
      const Message again(*node, *rule, subject, "");
      again.refuse("name", "there already is a cluster of this name: this one is left out");
      continue;
    }
    if (node->kind != Node::Kind::kMap) {
      const Message none(*node, *rule, subject, "");
      continue;
    }
    const std::string name = names.name_for(subject.name);
    CachedCluster& cached = cache[subject.name];
    cached.is_used = true;
    if (cached.tree != node || cached.mapped->name != name || !is_current(cached.lookups.endpoints, state.endpoints) ||
        !is_current(cached.lookups.secrets, state.secrets)) {
      cached = map_anew(*node, *rule, subject.name, name, state);
    }
    state.findings->add_all(cached.findings);
    state.upstreams.emplace(subject.name, UsedUpstream{.mapped = cached.mapped, .use = {}});
  }
}

const std::shared_ptr<const Node>& finished_upstream(CachedCluster& cached, const std::string& cluster,
                                                     const UpstreamUse& use, Findings& findings) {
  const bool drops_header = use.is_for_http && cached.mapped->out.find("send_proxy_protocol") != nullptr;
  if (drops_header) {
    findings.add({.kind = "cluster",
                  .name = cluster,
                  .path = "transport_socket",
                  .message = "routes of HTTP send no PROXY protocol header",
                  .mark = {}});
  }
  if (cached.out != nullptr && cached.use.is_same(use)) return cached.out;
  cached.use = use;
  if (!drops_header && use.keys.keys.empty()) {
    cached.out = std::shared_ptr<const Node>(cached.mapped, &cached.mapped->out);
    return cached.out;
  }
  auto out = std::make_shared<Node>(cached.mapped->out);
  if (drops_header) remove_key(*out, "send_proxy_protocol");
  for (size_t i = 0; i < use.keys.keys.size(); ++i) put(*out, use.keys.keys[i].text, use.keys.items[i]);
  cached.out = std::move(out);
  return cached.out;
}

}  // namespace sluice::envoy
