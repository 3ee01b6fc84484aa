// The messages of Envoy's envoy.service.health.v3.HealthDiscoveryService (envoy/service/health/v3/hds.proto), as far as
// a client needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::xds {

/// The service's method.
inline constexpr std::string_view kHealthPath = "/envoy.service.health.v3.HealthDiscoveryService/StreamHealthCheck";

/// HealthCheckSpecifier: what the service wants to be checked. It refers to the message.
struct HealthSpecifier {
  struct Endpoint {
    std::string_view bytes;    ///< envoy.config.endpoint.v3.Endpoint.
    std::string_view address;  ///< Of it: envoy.config.core.v3.Address.
  };
  struct Locality {
    std::string_view place;  ///< envoy.config.core.v3.Locality.
    std::vector<Endpoint> endpoints;
  };
  struct Cluster {
    std::string_view bytes;  ///< ClusterHealthCheck.
    std::string_view name;
    std::vector<std::string_view> checks;          ///< envoy.config.core.v3.HealthCheck.
    std::vector<std::string_view> socket_matches;  ///< envoy.config.cluster.v3.Cluster.TransportSocketMatch.
    std::vector<Locality> localities;
  };
  /// More are no specifier.
  static constexpr size_t kMaxClusters = 2000, kMaxEndpoints = 20'000;
  static constexpr uint64_t kDefaultIntervalMs = 1000;

  std::vector<Cluster> clusters;
  uint64_t interval_ms = kDefaultIntervalMs;  ///< From one report to the next; never 0.
};
/// Nothing if the message is malformed, or has too many clusters or endpoints.
std::optional<HealthSpecifier> read_health_specifier(std::string_view message);

/// envoy.config.core.v3.HealthStatus, those that a client reports.
enum class HealthStatus : uint8_t { kUnknown = 0, kHealthy = 1, kUnhealthy = 2, kTimeout = 4 };

/// The state of a cluster's endpoints, for a report. It refers to what the caller keeps.
struct ClusterHealth {
  struct Endpoint {
    std::string_view address;  ///< As in HealthSpecifier.
    HealthStatus status = HealthStatus::kUnknown;
  };
  struct Locality {
    std::string_view place;
    std::vector<Endpoint> endpoints;
  };
  std::string_view name;
  std::vector<Locality> localities;
};

/// The first message of a stream: what can be checked. `node`: envoy.config.core.v3.Node.
std::string write_health_request(std::string_view node);
/// EndpointHealthResponse, in both of its forms: endpoints by cluster, and all in one list.
std::string write_health_report(const std::vector<ClusterHealth>& clusters);

}  // namespace sluice::xds
