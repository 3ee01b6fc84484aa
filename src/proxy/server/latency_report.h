#pragma once

#include <memory>
#include <string>
#include <vector>

#include "proxy/common/json_writer.h"
#include "proxy/config/model/config.h"
#include "proxy/metrics/l4_counters.h"

namespace sluice {

/// Formats the latency histograms, summed over the workers, as lines of the Prometheus text format. Those of routes and
/// of upstreams are left out while they are empty.
std::string format_latencies(const config::Config& config, const std::vector<std::shared_ptr<WorkerCounters>>& workers);

/// Writes the members `listeners` and `upstreams` of an object: how many times there are of each kind, their mean and
/// their percentiles.
void write_latencies(const config::Config& config, const std::vector<std::shared_ptr<WorkerCounters>>& workers,
                     JsonWriter& json);

}  // namespace sluice
