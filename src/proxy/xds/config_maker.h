// From the resources of a control plane to a configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/model/config.h"
#include "proxy/envoy/finding.h"
#include "proxy/envoy/mapping.h"
#include "proxy/xds/bootstrap.h"
#include "proxy/xds/cluster_wait.h"
#include "proxy/xds/resource_store.h"
#include "proxy/xds/secret_files.h"

namespace sluice::xds {

/// Makes a configuration of what is ready: a cluster that has its endpoints and secrets, and a listener that has its
/// routes, secrets and extensions. While the next version of one is not ready, the last one that was stays in use; so
/// do routes whose next version names clusters that are not there yet (ClusterWait).
class ConfigMaker {
 public:
  struct Options {
    bool accepts_unsupported = false;  ///< What Sluice has no counterpart of is a warning, not an error.
    std::string secret_folder;
    config::FurtherCheck check = nullptr;  ///< Of the result.
  };
  /// `bootstrap` outlives it.
  ConfigMaker(const Bootstrap& bootstrap, Options options);

  /// The configuration of these resources. The error names each resource and field that cannot be taken over; the
  /// resources that it is about are added to `blamed`, unless it is about something else.
  absl::StatusOr<std::shared_ptr<const config::Config>> make(const ResourceStore& store, uint64_t now_ms,
                                                             ResourceKeys& blamed);
  /// The last configuration that make() returned is in effect.
  void commit();
  /// The updates that wait for clusters. At its due_ms() the configuration is to be made again, of the same resources.
  const ClusterWait& wait() const { return wait_; }
  /// The resources of the configuration that is in effect.
  const ResourceStore& in_use() const { return in_use_; }
  /// The names of its upstreams.
  const std::shared_ptr<const envoy::UpstreamNames>& upstream_names() const { return names_; }

 private:
  // A resource as the mapping reads it: with files in the place of inline secrets.
  struct Prepared {
    ResourcePointer resource;
    std::shared_ptr<const config::Node> tree;  // Null: that of the resource.
    std::set<std::string> files;
  };
  using PreparedResources = std::unordered_map<const Resource*, Prepared>;

  ResourceStore ready_part(const ResourceStore& store) const;
  std::set<std::string> clusters_not_awaited(const ResourceStore& store) const;
  absl::StatusOr<std::shared_ptr<const config::Config>> map(const ResourceStore& ready, bool is_trial,
                                                            ResourceKeys& blamed);
  absl::Status prepare(const KindInfo& info, const ResourcePointer& resource, PreparedResources& next);
  absl::Status check_findings(const envoy::Findings& findings, bool is_trial, ResourceKeys& blamed);
  std::string with_names(std::string_view message, const config::Node& tree, ResourceKeys& blamed) const;

  const Bootstrap& bootstrap_;
  const Options options_;
  std::set<std::string> static_clusters_;
  SecretFiles files_;
  ClusterWait wait_;
  PreparedResources prepared_;  // Of the last mapping.
  ResourceStore mapped_;        // The same: the mapping refers to its trees.
  envoy::Mapping mapping_;
  config::PartsLoader loader_;
  ResourceStore in_use_;  // Of the configuration that is in effect.
  ResourceStore next_;    // Of the last one that was made.
  std::shared_ptr<const envoy::UpstreamNames> names_ =
      std::make_shared<const envoy::UpstreamNames>();       // Of what is in effect.
  std::set<std::string> known_, next_known_;                // Findings that do not reject anything any more.
  std::set<std::string> known_fields_, next_known_fields_;  // Ignored fields that the log has.
};

}  // namespace sluice::xds
