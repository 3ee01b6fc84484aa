// Envoy's statistics that Sluice has, and those that it has not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proxy/server/cluster_figures.h"

namespace sluice {

/// The sums of the counters of listeners that have a name in common.
struct ListenerFigures {
  uint64_t connections = 0, connections_open = 0, connections_ended = 0, idle_timeouts = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  bool has_tls = false;
  uint64_t tls_handshakes = 0, tls_resumed = 0;
  // Of HTTP.
  uint64_t connections_h1 = 0, connections_h2 = 0;
  uint64_t requests = 0, requests_active = 0;
  std::array<uint64_t, 6> statuses{};
  LatencySum request_time;

  uint64_t completed() const {
    uint64_t sum = 0;
    for (const uint64_t each : statuses) sum += each;
    return sum;
  }
};

/// What there is once.
struct ServerFigures {
  bool is_live = true;
  uint64_t uptime_s = 0, workers = 0, connections = 0;
  uint64_t allocated_bytes = 0, heap_bytes = 0, resident_bytes = 0;
  uint64_t active_clusters = 0, warming_clusters = 0, active_listeners = 0, warming_listeners = 0;
  bool has_control_plane = false;
  bool is_connected = false;
  uint64_t accepted_clusters = 0, rejected_clusters = 0, accepted_listeners = 0, rejected_listeners = 0;
};

enum class StatType : uint8_t { kCounter, kGauge, kHistogram };

/// The numbers of one statistic: one of the three is there.
template <class Figures>
struct StatValue {
  uint64_t (*number)(const Figures&) = nullptr;
  const std::array<uint64_t, 6>& (*by_class)(const Figures&) = nullptr;  ///< By the first digit of a status.
  const LatencySum& (*times)(const Figures&) = nullptr;
};

template <class Figures>
struct EnvoyStat {
  std::string_view name;  ///< Behind that of what it belongs to, with Envoy's dots.
  StatType type = StatType::kCounter;
  std::string_view help;    ///< What it counts.
  std::string_view source;  ///< What it is made of, for the documentation.
  StatValue<Figures> value;
  bool (*applies)(const Figures&) = nullptr;  ///< Null: always.
};

std::span<const EnvoyStat<ClusterFigures>> cluster_stats();
std::span<const EnvoyStat<ListenerFigures>> http_stats();
std::span<const EnvoyStat<ListenerFigures>> tcp_stats();
std::span<const EnvoyStat<ListenerFigures>> listener_stats();
std::span<const EnvoyStat<ServerFigures>> server_stats();

/// A statistic of Envoy's that dashboards query, and that is left out because no figure of Sluice's means the same.
struct MissingStat {
  std::string_view metric;  ///< As Prometheus has it.
  std::string_view reason;
};
std::span<const MissingStat> missing_stats();

/// The name in Prometheus: `cluster.` and `ssl.handshake` become `envoy_cluster_ssl_handshake`.
std::string metric_name(std::string_view scope, std::string_view name);

/// The tables of docs/reference/envoy-stats.md.
std::string envoy_stats_markdown();

}  // namespace sluice
