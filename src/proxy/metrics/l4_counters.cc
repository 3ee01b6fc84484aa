#include "proxy/metrics/l4_counters.h"

namespace sluice {

const char* refusal_name(Refusal refusal) {
  constexpr std::array<const char*, kRefusalCount> kNames = {"global", "listener", "source", "handshakes"};
  return kNames[static_cast<size_t>(refusal)];
}

const char* session_end_name(SessionEnd end) {
  constexpr std::array<const char*, kSessionEndCount> kNames = {
      "finished",    "client_error",  "upstream_error", "idle_timeout", "max_duration", "proxy_header", "proxy_timeout",
      "hello",       "hello_timeout", "client_left",    "no_route",     "no_endpoint",  "not_resolved", "tls_handshake",
      "tls_timeout", "tls_error",     "memory",         "stuck",        "shutdown"};
  return kNames[static_cast<size_t>(end)];
}

void BalancerCounters::set(const Balancer::Counts& counts) {
  preferred.set(counts.preferred);
  preferred_lost.set(counts.preferred_lost);
  failovers.set(counts.failovers);
  panics.set(counts.panics);
}

WorkerCounters::WorkerCounters(size_t listener_count, const std::vector<size_t>& endpoint_counts)
    : listeners(listener_count),
      http_listeners(listener_count),
      http_upstreams(endpoint_counts.size()),
      balancers(endpoint_counts.size()) {
  upstreams.reserve(endpoint_counts.size());
  for (size_t count : endpoint_counts) upstreams.emplace_back(count);
}

}  // namespace sluice
