// Envoy's v3 resources as a configuration of Sluice.
#pragma once

#include <memory>
#include <string>

#include "proxy/config/load/tree_parts.h"
#include "proxy/config/load/yaml.h"
#include "proxy/envoy/finding.h"
#include "proxy/envoy/resource_set.h"
#include "proxy/envoy/result_names.h"

namespace sluice::envoy {

/// Maps all resources. Returns the configuration as YAML, which load_text() accepts unless a resource has a value that
/// Sluice refuses (a finding of load_text() then says which). Whatever is not taken over is in `findings`. Where a
/// filter that keeps requests out cannot be mapped, its listener refuses all requests.
///
/// Text, not a model, since operators keep it, and since it takes the same way through the checks as one that they
/// write.
std::string map_resources(const ResourceSet& resources, Findings& findings);
/// The same as a tree, for load_tree().
config::Node map_to_tree(const ResourceSet& resources, Findings& findings);

/// Maps resources again and again, each time only what has changed since the last time. The result and the findings are
/// those of map_to_tree().
class Mapping {
 public:
  Mapping();
  ~Mapping();

  /// What `resources` refers to stays as it is until the next call has returned.
  config::TreeParts map(const ResourceSet& resources, Findings& findings);
  /// Of the last call.
  UpstreamNames upstream_names() const;
  const ListenerNames& listener_names() const;

 private:
  struct Cache;
  const std::unique_ptr<Cache> cache_;
};

}  // namespace sluice::envoy
