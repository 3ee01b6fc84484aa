// The resources that files, or a control plane, give.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "proxy/config/load/yaml.h"
#include "proxy/envoy/finding.h"

namespace sluice::envoy {

/// Resources by kind, in the form of proto3 JSON. Refers to the trees that they are in.
struct ResourceSet {
  std::vector<const config::Node*> listeners;   ///< envoy.config.listener.v3.Listener
  std::vector<const config::Node*> routes;      ///< envoy.config.route.v3.RouteConfiguration
  std::vector<const config::Node*> clusters;    ///< envoy.config.cluster.v3.Cluster
  std::vector<const config::Node*> endpoints;   ///< envoy.config.endpoint.v3.ClusterLoadAssignment
  std::vector<const config::Node*> secrets;     ///< envoy.extensions.transport_sockets.tls.v3.Secret
  std::vector<const config::Node*> extensions;  ///< envoy.config.core.v3.TypedExtensionConfig
  std::vector<const config::Node*> bootstraps;  ///< envoy.config.bootstrap.v3.Bootstrap
  /// Whether others may follow, as from a control plane. A reference to what is not there is then no reason to refuse
  /// a resource: requests get 503 meanwhile.
  bool may_follow = false;

  Severity severity_of_missing() const { return may_follow ? Severity::kIgnored : Severity::kRefused; }

  /// Adds what a document has: a Bootstrap, a DiscoveryResponse (`resources`), one resource with its `@type`, or what
  /// Envoy's admin page /config_dump returns. Returns false, with a finding, if it is nothing of these.
  bool add_document(const config::Node& document, Findings& findings);
  /// Adds one resource of the full name `type`. Returns false if it is of no kind that the mapping reads.
  bool add(std::string_view type, const config::Node& resource);
};

/// Finds resources by name.
class ResourceIndex {
 public:
  /// `name_field`: the field that has the name. Of several with one name, the first counts.
  ResourceIndex(const std::vector<const config::Node*>& list, std::string_view name_field);

  /// Null if there is none.
  const config::Node* find(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, const config::Node*> by_name_;
};

}  // namespace sluice::envoy
