#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/metrics/l4_counters.h"

namespace sluice {

/// What `adaptive_concurrency` of an upstream has come to: the sums of all workers, but for the latency.
struct ConcurrencyFigures {
  uint64_t limit = 0;
  uint64_t in_flight = 0;
  uint64_t waiting = 0;
  uint64_t base_us = 0;  ///< The latency without load, the highest of the workers'.
  std::array<uint64_t, config::kPriorityCount> refused{};

  /// `index`: the upstream's in the configuration.
  static ConcurrencyFigures of(const std::vector<std::shared_ptr<WorkerCounters>>& workers, size_t index) {
    ConcurrencyFigures figures;
    for (const auto& worker : workers) {
      const UpstreamHttpCounters& counters = *worker->http_upstreams[index];
      figures.limit += counters.limit.value();
      figures.in_flight += counters.limit_in_flight.value();
      figures.waiting += counters.limit_waiting.value();
      figures.base_us = std::max(figures.base_us, counters.limit_base_us.value());
      for (size_t i = 0; i < figures.refused.size(); ++i) figures.refused[i] += counters.limit_refused[i].value();
    }
    return figures;
  }
};

}  // namespace sluice
