#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proxy/http/proxy/http_worker.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/xds/check_settings.h"
#include "proxy/xds/endpoint_checks.h"
#include "proxy/xds/health_messages.h"

namespace sluice::xds {

/// What a health discovery service wants to be checked, and its checks. On one worker's thread.
class CheckedClusters {
 public:
  /// How many checks are made: an endpoint with two checks counts twice. The endpoints of the others are unknown.
  static constexpr size_t kMaxChecks = 1000;

  CheckedClusters(HttpWorker& worker, CheckSettingsMaker maker, HealthDiscoveryCounters& counters)
      : worker_(worker), maker_(std::move(maker)), counters_(counters) {}

  /// Checks what `specifier` names, and nothing else. Endpoints whose settings are the same are checked on; those with
  /// others keep their state until the first outcome.
  void follow(const HealthSpecifier& specifier);
  /// The state of all endpoints that the service named, in its order. Valid until the next call of follow().
  std::vector<ClusterHealth> health() const;
  /// Reads the certificates of one cluster after the other, with each call one.
  void renew_certificates();

  /// Ends all checks.
  void close();
  /// Destroys what has ended. Returns for how many endpoints it has not.
  size_t destroy_ended();

 private:
  using Settings = std::vector<std::shared_ptr<CheckSettings>>;
  struct Endpoint {
    std::string bytes;  // envoy.config.endpoint.v3.Endpoint
    std::string address;
    std::string problem;                     // Why it cannot be checked, whatever the settings.
    std::unique_ptr<EndpointChecks> checks;  // Null: it is not checked.
  };
  struct Locality {
    std::string place;
    std::vector<Endpoint> endpoints;
  };
  struct Cluster {
    std::string name;
    Settings settings;
    std::vector<Locality> localities;
  };
  using ByBytes = std::unordered_multimap<std::string_view, Endpoint*>;

  Cluster make_cluster(const HealthSpecifier::Cluster& wanted, Cluster* before);
  Endpoint make_endpoint(const HealthSpecifier::Endpoint& wanted, const Settings& settings, bool can_be_checked,
                         ByBytes& before);
  void give_checks(Endpoint& endpoint, const Settings& settings, std::unique_ptr<EndpointChecks> before);
  void retire(std::unique_ptr<EndpointChecks> checks);
  void retire_all(Cluster& cluster);
  void log_result();

  HttpWorker& worker_;
  CheckSettingsMaker maker_;
  HealthDiscoveryCounters& counters_;
  std::vector<Cluster> clusters_;
  std::vector<std::unique_ptr<EndpointChecks>> ending_;
  size_t checks_left_ = 0;   // Of kMaxChecks, while follow() runs.
  size_t endpoints_ = 0;     // That are checked.
  size_t unknown_ = 0;       // That are not.
  size_t too_many_ = 0;      // Of them, for lack of room.
  size_t next_renewed_ = 0;  // The cluster whose certificates are read next.
  std::string logged_;       // The last summary.
};

}  // namespace sluice::xds
