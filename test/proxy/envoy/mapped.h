// Maps resources that are written as YAML.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/loader.h"
#include "proxy/config/load/yaml.h"
#include "proxy/envoy/mapping.h"

namespace sluice::envoy {

/// The result of a mapping.
struct Mapped {
  std::string text;
  std::vector<std::string> findings;
  size_t refused = 0;
  std::string error;  ///< Of load_text(); empty if it accepts the text.

  bool has(std::string_view part) const { return text.find(part) != std::string::npos; }
  /// Whether a finding has this part.
  bool says(std::string_view part) const {
    for (const std::string& each : findings) {
      if (each.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

/// `may_follow`: as of a control plane, which may send more.
inline Mapped map_yaml(std::string_view yaml, bool may_follow = false) {
  Mapped mapped;
  config::Report report("envoy.yaml");
  config::YamlBudget budget{.depth = 64, .has_variables = false};
  config::Node root;
  EXPECT_TRUE(config::parse_yaml(yaml, 0, budget, root, report)) << report.status();
  Findings findings;
  ResourceSet resources;
  resources.may_follow = may_follow;
  EXPECT_TRUE(resources.add_document(root, findings));
  mapped.text = map_resources(resources, findings);
  for (const Finding& each : findings.list()) mapped.findings.push_back(each.text());
  mapped.refused = findings.count(Severity::kRefused);
  const absl::StatusOr<config::Config> loaded = config::load_text(mapped.text, "result");
  if (!loaded.ok()) mapped.error = loaded.status().message();
  return mapped;
}

/// A Bootstrap with one listener, whose routes are `routes` (a YAML list in one line), and a cluster `app`.
inline std::string with_routes(std::string_view routes, std::string_view manager = "", std::string_view filters = "") {
  std::string text = R"(
static_resources:
  listeners:
    - name: web
      address: { socket_address: { address: 127.0.0.1, port_value: 8080 } }
      filter_chains:
        - filters:
            - name: hcm
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
)";
  text += std::string("                stat_prefix: web\n") + std::string(manager);
  text +=
      "                http_filters: [ " + std::string(filters) +
      R"({ name: router, typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router } } ]
                route_config: { virtual_hosts: [ { name: all, domains: [ "*" ], routes: )" +
      std::string(routes) + R"( } ] }
  clusters:
    - { name: app, load_assignment: { cluster_name: app, endpoints: [ { lb_endpoints: [
        { endpoint: { address: { socket_address: { address: 10.0.0.1, port_value: 80 } } } } ] } ] } }
    - { name: other, load_assignment: { cluster_name: other, endpoints: [ { lb_endpoints: [
        { endpoint: { address: { socket_address: { address: 10.0.0.2, port_value: 80 } } } } ] } ] } }
    - { name: grpc, http2_protocol_options: {}, load_assignment: { cluster_name: grpc, endpoints: [ { lb_endpoints: [
        { endpoint: { address: { socket_address: { address: 10.0.0.3, port_value: 80 } } } } ] } ] } }
)";
  return text;
}

/// A Bootstrap with one cluster, of the members `cluster` beside its name, and with an endpoint unless that has them.
inline std::string with_cluster(std::string_view cluster, bool endpoint = true) {
  std::string text = R"(
static_resources:
  listeners:
    - name: db
      address: { socket_address: { address: 127.0.0.1, port_value: 5432 } }
      filter_chains: [ { filters: [ { name: tcp, typed_config: {
        "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: db, cluster: app } } ] } ]
  clusters:
    - name: app
)";
  if (endpoint) {
    text += R"(      load_assignment: { cluster_name: app, endpoints: [ { lb_endpoints: [
        { endpoint: { address: { socket_address: { address: 10.0.0.1, port_value: 80 } } } } ] } ] }
)";
  }
  return text + std::string(cluster);
}

}  // namespace sluice::envoy
