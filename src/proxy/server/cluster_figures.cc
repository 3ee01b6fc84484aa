#include "proxy/server/cluster_figures.h"

namespace sluice {

void ClusterFigures::add(const EndpointCounters& counters) {
  connections += counters.begun.value();
  connections_open += counters.open.value();
  for (const Counter& each : counters.connect_errors) connect_failures += each.value();
  connect_timeouts += counters.connect_errors[static_cast<size_t>(ConnectError::kTimeout)].value();
  bytes_in += counters.bytes_in.value();
  bytes_out += counters.bytes_out.value();
  requests_active += counters.requests_active.value();
}

void ClusterFigures::add(const UpstreamHttpCounters& counters) {
  requests += counters.requests.value();
  waited += counters.waited.value();
  waiting += counters.waiting.value();
  overflows += counters.pending_refused.value();
  retries += counters.retries.value() + counters.reconnects.value();
  retries_over_budget += counters.retries_over_budget.value();
  timeouts += counters.timeouts.value();
  for (size_t i = 0; i < statuses.size(); ++i) statuses[i] += counters.statuses[i].value();
}

void ClusterFigures::add(const UpstreamLatencies& latencies) {
  connect_time.add(latencies.connect);
  request_time.add(latencies.whole);
}

void ClusterFigures::add(const ClusterFigures& other) {
  for (uint64_t ClusterFigures::* const each :
       {&ClusterFigures::connections, &ClusterFigures::connections_open, &ClusterFigures::connect_failures,
        &ClusterFigures::connect_timeouts, &ClusterFigures::bytes_in, &ClusterFigures::bytes_out,
        &ClusterFigures::requests, &ClusterFigures::requests_active, &ClusterFigures::waited, &ClusterFigures::waiting,
        &ClusterFigures::overflows, &ClusterFigures::retries, &ClusterFigures::retries_over_budget,
        &ClusterFigures::timeouts}) {
    this->*each += other.*each;
  }
  for (size_t i = 0; i < statuses.size(); ++i) statuses[i] += other.statuses[i];
  connect_time.add(other.connect_time);
  request_time.add(other.request_time);
}

}  // namespace sluice
