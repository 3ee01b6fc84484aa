// What the parts of the mapping share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/yaml.h"
#include "proxy/envoy/finding.h"
#include "proxy/envoy/resource_set.h"
#include "proxy/envoy/values.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {

/// An upstream of the result: a cluster of Envoy's.
struct MappedUpstream {
  std::string name;
  config::Node out = map_node();
  std::string host_name;  ///< The name of its only endpoint; empty if it has no name, or several.
  size_t endpoints = 0;
  /// By endpoint: what its metadata say about the choice among the transport sockets of the cluster, or null.
  std::vector<const config::Node*> socket_criteria;
  bool is_usable = false;  ///< Whether it has endpoints.
  bool is_hashed = false;  ///< Whether it is balanced by a hash.
  bool is_for_http = false;
};

struct MappingState {
  MappingState(const ResourceSet& all, Findings& to) : resources(all), findings(to) {}

  const ResourceSet& resources;
  Findings& findings;
  const ResourceIndex endpoints{resources.endpoints, "cluster_name"};
  const ResourceIndex routes{resources.routes, "name"};
  const ResourceIndex secrets{resources.secrets, "name"};
  std::map<std::string, MappedUpstream, std::less<>> upstreams = {};  ///< By the name of the cluster.
  NameTable limit_names;
  config::Node rate_limits = list_node();

  MappedUpstream* find_upstream(std::string_view cluster) {
    const auto found = upstreams.find(cluster);
    return found == upstreams.end() ? nullptr : &found->second;
  }
};

}  // namespace sluice::envoy
