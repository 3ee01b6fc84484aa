// Envoy's bootstrap file, as far as a client of a control plane needs it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "proxy/config/load/yaml.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/envoy/resource_set.h"
#include "proxy/xds/discovery.h"

namespace sluice::xds {

struct Bootstrap {
  NodeIdentity node;
  bool is_delta = false;                        ///< `api_type: DELTA_GRPC`.
  config::Snapshot<config::Config> of_service;  ///< Its first upstream is the control plane.
  /// Its first upstream is the service that load reports go to; nothing: the file names none.
  std::optional<config::Snapshot<config::Config>> of_loads;
  /// Its first upstream is the health discovery service; nothing: the file names none.
  std::optional<config::Snapshot<config::Config>> of_health;
  envoy::ResourceSet resources;        ///< Static ones, and the admin listener.
  std::set<std::string> secret_names;  ///< Of the static secrets.
  std::deque<config::Node> trees;      ///< What `resources` refers to; the first one is the file.
};

/// Reads the file. Certificates and keys that are written in it become files in `secret_folder`. An error is for the
/// user and names the file.
absl::StatusOr<std::unique_ptr<Bootstrap>> read_bootstrap(const std::string& path, const std::string& secret_folder);

}  // namespace sluice::xds
