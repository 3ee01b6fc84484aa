// The statistics under Envoy's names, for dashboards and tools that were made for Envoy.
#pragma once

#include <cstdint>
#include <string>

#include "proxy/server/earlier_counters.h"
#include "proxy/server/envoy_stat_list.h"
#include "proxy/server/process_view.h"

namespace sluice {

/// What the statistics are made of.
struct EnvoyStatsSource {
  const ProcessView& view;
  const EarlierCounters& earlier;
  bool is_live = true;
  uint64_t uptime_s = 0, connections = 0, resident_bytes = 0;
};

/// The page /stats/prometheus: the Prometheus text format, whatever a client accepts, since in OpenMetrics the names of
/// counters have to be other ones. Traffic of clusters without any is left out. `used_only`: so is all that is 0.
std::string envoy_stats_page(const EnvoyStatsSource& source, bool used_only);

/// One bucket of Envoy's histograms.
struct EnvoyBucket {
  std::string_view le;  ///< Its bound in milliseconds, as Envoy writes it.
  size_t last;          ///< The last of LatencyHistogram's buckets that is within it.
};
/// Those of Envoy's bounds that LatencyHistogram has, too; without `+Inf`.
std::span<const EnvoyBucket> envoy_buckets();

}  // namespace sluice
