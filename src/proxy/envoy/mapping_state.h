// What the parts of the mapping share.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/config/load/yaml.h"
#include "proxy/envoy/finding.h"
#include "proxy/envoy/resource_set.h"
#include "proxy/envoy/values.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {

/// An upstream of the result: a cluster of Envoy's, before anything uses it.
struct MappedUpstream {
  std::string name;
  config::Node out = map_node();
  std::string host_name;  ///< The name of its only endpoint; empty if it has no name, or several.
  size_t endpoints = 0;
  /// By endpoint: what its metadata say about the choice among the transport sockets of the cluster, or null.
  std::vector<const config::Node*> socket_criteria;
  bool is_usable = false;  ///< Whether it has endpoints.
  bool is_hashed = false;  ///< Whether it is balanced by a hash.

  /// Whether all that uses the one could use the other as it is.
  bool is_same_for_users(const MappedUpstream& other) const;
};

/// What listeners and routes make of an upstream.
struct UpstreamUse {
  bool is_for_http = false;
  config::Node keys = map_node();  ///< Further keys of the upstream.

  bool is_same(const UpstreamUse& other) const {
    return is_for_http == other.is_for_http && same_value(keys, other.keys);
  }
};

/// An upstream with its use.
struct UsedUpstream {
  std::shared_ptr<const MappedUpstream> mapped;
  UpstreamUse use;
};

/// What a part of the mapping has looked for, and found (null: nothing), other than in its own resource. Its result is
/// the same as long as all of this is.
struct Lookups {
  using Trees = std::map<std::string, const config::Node*, std::less<>>;  ///< By name.

  Trees endpoints, routes, secrets, extensions;
  std::map<std::string, std::shared_ptr<const MappedUpstream>, std::less<>> upstreams;  ///< By the name of the cluster.
};

struct MappingState {
  MappingState(const ResourceSet& all, Findings& to) : resources(all), findings(&to) {}

  const ResourceSet& resources;
  Findings* findings;  ///< Those of the part that is being mapped.
  const ResourceIndex endpoints{resources.endpoints, "cluster_name"};
  const ResourceIndex routes{resources.routes, "name"};
  const ResourceIndex secrets{resources.secrets, "name"};
  const ResourceIndex extensions{resources.extensions, "name"};
  std::map<std::string, UsedUpstream, std::less<>> upstreams = {};  ///< By the name of the cluster.
  NameTable limit_names;
  config::Node rate_limits = list_node();
  Lookups* lookups = nullptr;  ///< Of the same part.

  const config::Node* find_endpoints(const std::string& name) const {
    return noted(endpoints, name, &Lookups::endpoints);
  }
  const config::Node* find_routes(const std::string& name) const { return noted(routes, name, &Lookups::routes); }
  const config::Node* find_secret(const std::string& name) const { return noted(secrets, name, &Lookups::secrets); }

  const config::Node* find_extension(const std::string& name) const {
    return noted(extensions, name, &Lookups::extensions);
  }

  UsedUpstream* find_upstream(std::string_view cluster) {
    const auto found = upstreams.find(cluster);
    UsedUpstream* const upstream = found == upstreams.end() ? nullptr : &found->second;
    if (lookups != nullptr) lookups->upstreams.try_emplace(std::string(cluster), upstream ? upstream->mapped : nullptr);
    return upstream;
  }

 private:
  const config::Node* noted(const ResourceIndex& index, const std::string& name, Lookups::Trees Lookups::* list) const {
    const config::Node* const found = index.find(name);
    if (lookups != nullptr) (lookups->*list).emplace(name, found);
    return found;
  }
};

/// While it exists, what is found and looked up is that of one part of the mapping.
class MappingPart {
 public:
  MappingPart(MappingState& state, Findings& findings, Lookups& lookups)
      : state_(state), findings_(std::exchange(state.findings, &findings)) {
    state.lookups = &lookups;
  }
  ~MappingPart() {
    state_.findings = findings_;
    state_.lookups = nullptr;
  }
  MappingPart(const MappingPart&) = delete;
  MappingPart& operator=(const MappingPart&) = delete;

 private:
  MappingState& state_;
  Findings* const findings_;
};

}  // namespace sluice::envoy
