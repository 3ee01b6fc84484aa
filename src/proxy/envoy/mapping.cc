#include "proxy/envoy/mapping.h"

#include <utility>

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
  Subject subject{state.findings, "bootstrap", ""};
  const Message bootstrap(node, *rule, subject, "");
  if (!bootstrap) return;
  bootstrap.sub("static_resources");
  map_admin(bootstrap, out);
  map_connection_limit(bootstrap, out);
}

// Keys that a use of the upstream makes invalid.
void finish_upstream(const std::string& cluster, MappedUpstream& upstream, MappingState& state) {
  const Node* const header = upstream.out.find("send_proxy_protocol");
  if (header == nullptr || !upstream.is_for_http) return;
  state.findings.add({.kind = "cluster",
                      .name = cluster,
                      .path = "transport_socket",
                      .message = "routes of HTTP send no PROXY protocol header",
                      .mark = {}});
  Node without = map_node();
  for (size_t i = 0; i < upstream.out.keys.size(); ++i) {
    if (upstream.out.keys[i].text != "send_proxy_protocol")
      put(without, upstream.out.keys[i].text, upstream.out.items[i]);
  }
  upstream.out = std::move(without);
}

}  // namespace

config::Node map_to_tree(const ResourceSet& resources, Findings& findings, UpstreamNames* names) {
  MappingState state(resources, findings);
  Node out = map_node();
  for (const Node* const bootstrap : resources.bootstraps) map_bootstrap(*bootstrap, state, out);
  map_clusters(state);
  Node listeners = map_listeners(state);
  if (!state.rate_limits.items.empty()) put(out, "rate_limits", std::move(state.rate_limits));
  put(out, "listeners", std::move(listeners));
  Node& upstreams = list_at(out, "upstreams");
  for (auto& [cluster, upstream] : state.upstreams) {
    if (!upstream.is_usable) continue;
    finish_upstream(cluster, upstream, state);
    if (names != nullptr) names->emplace(cluster, upstream.name);
    upstreams.items.push_back(std::move(upstream.out));
  }
  return out;
}

std::string map_resources(const ResourceSet& resources, Findings& findings) {
  return write_yaml(map_to_tree(resources, findings));
}

}  // namespace sluice::envoy
