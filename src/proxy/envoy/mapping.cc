#include "proxy/envoy/mapping.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/envoy/clusters.h"
#include "proxy/envoy/listeners.h"
#include "proxy/envoy/mapping_state.h"
#include "proxy/envoy/message.h"

namespace sluice::envoy {
namespace {

using config::Node;

bool is_of_this_machine(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("[::1]:") || address.starts_with("unix:");
}

void map_admin(const Message& bootstrap, Node& out) {
  const Message admin = bootstrap.sub("admin");
  if (!admin || !admin.has("address")) return;
  const std::string address = address_text(admin, "address");
  if (address.empty()) return;
  if (!is_of_this_machine(address)) {
    return admin.refuse("address", "other machines can reach it: that needs `admin.token_file`, or `admin.tls`");
  }
  put(map_at(out, "admin"), "address", address);
}

void map_connection_limit(const Message& bootstrap, Node& out) {
  const Message manager = bootstrap.sub("overload_manager");
  for (const Message& monitor : manager.subs("resource_monitors")) {
    const Message options = monitor.any("typed_config");
    if (!options) {
      monitor.ignore("typed_config", "see docs/operating/overload.md");
      continue;
    }
    put_number(map_at(out, "limits"), "max_connections", options, "max_active_downstream_connections", 1);
  }
}

void map_bootstrap(const Node& node, MappingState& state, Node& out) {
  static const MessageRule* const rule = find_message_rule("envoy.config.bootstrap.v3.Bootstrap");
  Subject subject{*state.findings, "bootstrap", ""};
  const Message bootstrap(node, *rule, subject, "");
  if (!bootstrap) return;
  bootstrap.sub("static_resources");
  map_admin(bootstrap, out);
  map_connection_limit(bootstrap, out);
}

// The part of the result that is made of listeners and bootstrap files, and what it does with upstreams.
struct ListenersPart {
  std::vector<const Node*> bootstraps, listeners;
  Lookups lookups;
  Findings findings;
  std::map<std::string, UpstreamUse, std::less<>> uses;
  ListenerNames names;
  std::shared_ptr<const Node> out;
};

bool is_current(const Lookups& found, const MappingState& state) {
  const auto same_trees = [](const Lookups::Trees& trees, const ResourceIndex& index) {
    return std::all_of(trees.begin(), trees.end(),
                       [&](const auto& each) { return index.find(each.first) == each.second; });
  };
  const auto same_upstream = [&](const auto& each) {
    const auto now = state.upstreams.find(each.first);
    if (now == state.upstreams.end() || each.second == nullptr) return now == state.upstreams.end() && !each.second;
    return each.second == now->second.mapped || each.second->is_same_for_users(*now->second.mapped);
  };
  return same_trees(found.routes, state.routes) && same_trees(found.secrets, state.secrets) &&
         same_trees(found.extensions, state.extensions) &&
         std::all_of(found.upstreams.begin(), found.upstreams.end(), same_upstream);
}

ListenersPart map_listeners_part(MappingState& state, const Node& of_bootstraps) {
  ListenersPart made{.bootstraps = state.resources.bootstraps, .listeners = state.resources.listeners};
  const MappingPart part(state, made.findings, made.lookups);
  Node out = of_bootstraps;
  Node listeners = map_listeners(state, made.names);
  if (!state.rate_limits.items.empty()) put(out, "rate_limits", std::move(state.rate_limits));
  put(out, "listeners", std::move(listeners));
  made.out = std::make_shared<const Node>(std::move(out));
  for (const auto& [cluster, upstream] : state.upstreams) {
    if (upstream.use.is_for_http || !upstream.use.keys.keys.empty()) made.uses.emplace(cluster, upstream.use);
  }
  return made;
}

}  // namespace

bool MappedUpstream::is_same_for_users(const MappedUpstream& other) const {
  const auto protocol_of = [](const MappedUpstream& upstream) {
    const Node* const protocol = upstream.out.find("protocol");
    return protocol != nullptr ? std::string_view(protocol->text) : std::string_view();
  };
  return name == other.name && host_name == other.host_name && is_usable == other.is_usable &&
         is_hashed == other.is_hashed && protocol_of(*this) == protocol_of(other);
}

struct Mapping::Cache {
  ClusterCache clusters;
  ListenersPart listeners;
};

Mapping::Mapping() : cache_(std::make_unique<Cache>()) {}
Mapping::~Mapping() = default;

config::TreeParts Mapping::map(const ResourceSet& resources, Findings& findings) {
  MappingState state(resources, findings);
  Node of_bootstraps = map_node();
  for (const Node* const bootstrap : resources.bootstraps) map_bootstrap(*bootstrap, state, of_bootstraps);
  for (auto& [name, cluster] : cache_->clusters) cluster.is_used = false;
  map_clusters(state, cache_->clusters);
  std::erase_if(cache_->clusters, [](const auto& each) { return !each.second.is_used; });
  ListenersPart& listeners = cache_->listeners;
  if (listeners.out == nullptr || listeners.bootstraps != resources.bootstraps ||
      listeners.listeners != resources.listeners || !is_current(listeners.lookups, state)) {
    listeners = map_listeners_part(state, of_bootstraps);
  }
  findings.add_all(listeners.findings);
  config::TreeParts parts{.rest = listeners.out, .upstreams = {}};
  static const UpstreamUse unused;
  for (const auto& [cluster, upstream] : state.upstreams) {
    if (!upstream.mapped->is_usable) continue;
    const auto use = listeners.uses.find(cluster);
    parts.upstreams.push_back(finished_upstream(cache_->clusters.find(cluster)->second, cluster,
                                                use == listeners.uses.end() ? unused : use->second, findings));
  }
  return parts;
}

UpstreamNames Mapping::upstream_names() const {
  UpstreamNames names;
  for (const auto& [name, cluster] : cache_->clusters) {
    if (cluster.mapped->is_usable) names.emplace(name, cluster.mapped->name);
  }
  return names;
}

const ListenerNames& Mapping::listener_names() const { return cache_->listeners.names; }

config::Node map_to_tree(const ResourceSet& resources, Findings& findings) {
  return Mapping().map(resources, findings).join();
}

std::string map_resources(const ResourceSet& resources, Findings& findings) {
  return write_yaml(map_to_tree(resources, findings));
}

}  // namespace sluice::envoy
