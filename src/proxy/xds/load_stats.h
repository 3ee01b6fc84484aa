// The messages of Envoy's envoy.service.load_stats.v3.LoadReportingService (envoy/service/load_stats/v3/lrs.proto and
// envoy/config/endpoint/v3/load_report.proto), as far as a client needs them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/xds/cluster_facts.h"

namespace sluice::xds {

/// The service's method.
inline constexpr std::string_view kLoadStatsPath = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";
/// What the client can do: report all clusters without a list of them.
inline constexpr std::string_view kSendsAllClusters = "envoy.lrs.supports_send_all_clusters";

/// What has happened since the last report, and how many requests are under way.
struct LoadCounts {
  uint64_t succeeded = 0, failed = 0, issued = 0, in_progress = 0;

  bool any() const { return succeeded + failed + issued + in_progress != 0; }
  LoadCounts& operator+=(const LoadCounts& other) {
    succeeded += other.succeeded;
    failed += other.failed;
    issued += other.issued;
    in_progress += other.in_progress;
    return *this;
  }
};

struct EndpointLoad {
  std::string address;  ///< `IP:PORT`, `NAME:PORT` or `unix:PATH`.
  LoadCounts counts;
};

struct LocalityLoad {
  EndpointLocality place;
  LoadCounts counts;                    ///< Of all its endpoints.
  std::vector<EndpointLoad> endpoints;  ///< Empty unless they are wanted.
};

struct ClusterLoad {
  std::string name;
  std::string service_name;  ///< The name of its endpoints, by EDS; empty: its own.
  std::vector<LocalityLoad> localities;
  uint64_t dropped = 0;  ///< Requests that got no endpoint, as there were too many of them.
  uint64_t interval_ms = 0;
};

/// LoadStatsRequest. `node`: only in the first one of a stream.
std::string write_load_request(std::string_view node, const std::vector<ClusterLoad>& clusters);

/// LoadStatsResponse: what the service wants.
struct LoadWish {
  std::set<std::string> clusters;
  bool all_clusters = false;
  bool by_endpoint = false;
  uint64_t interval_ms = 0;
};
/// Nothing if the message is malformed.
std::optional<LoadWish> read_load_response(std::string_view message);

}  // namespace sluice::xds
