#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"
#include "proxy/envoy/resource_set.h"
#include "proxy/xds/health_messages.h"
#include "proxy/xds/secret_files.h"

namespace sluice::xds {

/// How endpoints are checked: by one health check of one cluster.
struct CheckSettings {
  std::string key;                  ///< What it was made of. The same key: the same settings.
  std::string problem;              ///< Why the check cannot be made; empty: it can.
  config::Upstream upstream;        ///< With `health_check`, and without endpoints.
  bssl::UniquePtr<SSL_CTX> tls;     ///< Null: endpoints use no TLS.
  std::set<std::string> key_files;  ///< Of SecretFiles.
};

/// Makes CheckSettings of what a health discovery service sends: it becomes a cluster of Envoy's, which is mapped like
/// one of the control plane.
class CheckSettingsMaker {
 public:
  /// More are not checked.
  static constexpr size_t kMaxChecksOfCluster = 8;
  /// The shortest time from one check of an endpoint to the next, whatever the service wants.
  static constexpr config::Duration kMinInterval{100};

  /// `resources`: the static ones, of which secrets may be used; they outlive it. `folder`: for certificates and keys.
  CheckSettingsMaker(const envoy::ResourceSet& resources, const std::string& folder)
      : resources_(resources), files_(folder) {}

  /// The settings for all checks of a cluster, at least one. Those that `known` has are used again.
  std::vector<std::shared_ptr<CheckSettings>> make_all(const HealthSpecifier::Cluster& cluster,
                                                       const std::vector<std::shared_ptr<CheckSettings>>& known);
  /// Removes the certificates and keys that none of `used` names.
  void keep_files(const std::vector<std::shared_ptr<CheckSettings>>& used);

 private:
  std::shared_ptr<CheckSettings> make(const HealthSpecifier::Cluster& cluster, std::string_view check);
  absl::Status fill(const HealthSpecifier::Cluster& cluster, std::string_view check, CheckSettings& made);
  absl::Status note_findings(const envoy::Findings& findings);

  const envoy::ResourceSet& resources_;
  SecretFiles files_;
  std::set<std::string> warned_fields_;
};

/// Reads the certificates and keys of the settings again.
absl::Status read_certificates(CheckSettings& settings);

}  // namespace sluice::xds
