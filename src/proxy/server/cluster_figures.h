// What the statistics under Envoy's names show of one upstream.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/metrics/l4_counters.h"

namespace sluice {

/// The sums of an upstream's counters over the workers and its endpoints, with those that it had before.
struct ClusterFigures {
  void add(const EndpointCounters& counters);
  void add(const UpstreamHttpCounters& counters);
  void add(const UpstreamLatencies& latencies);
  void add(const ClusterFigures& other);

  uint64_t connections = 0;  ///< That were begun.
  uint64_t connections_open = 0;
  uint64_t connect_failures = 0, connect_timeouts = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t requests = 0, requests_active = 0;
  uint64_t waited = 0, waiting = 0, overflows = 0;
  uint64_t retries = 0, retries_over_budget = 0;
  uint64_t timeouts = 0;
  std::array<uint64_t, 6> statuses{};  ///< By their first digit.
  LatencySum connect_time, request_time;

  // Of the addresses that it has now.
  uint64_t members = 0, healthy = 0, ejected = 0;
  bool has_ejection = false;
  bool has_http2 = false;

  /// Whether there is anything to show but addresses.
  bool is_used() const {
    return connections + connections_open + bytes_in + bytes_out + requests + waited + overflows + completed() > 0;
  }
  uint64_t completed() const {
    uint64_t sum = 0;
    for (const uint64_t each : statuses) sum += each;
    return sum;
  }
};

}  // namespace sluice
