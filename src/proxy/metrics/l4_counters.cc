#include "proxy/metrics/l4_counters.h"

#include <string>

#include "absl/container/flat_hash_map.h"

namespace sluice {

const char* refusal_name(Refusal refusal) {
  constexpr std::array<const char*, kRefusalCount> kNames = {"global",     "listener", "source",
                                                             "handshakes", "rate",     "overload"};
  return kNames[static_cast<size_t>(refusal)];
}

const char* session_end_name(SessionEnd end) {
  constexpr std::array<const char*, kSessionEndCount> kNames = {
      "finished",      "client_error",  "upstream_error", "idle_timeout", "max_duration", "proxy_header",
      "proxy_timeout", "hello",         "hello_timeout",  "client_left",  "no_route",     "no_endpoint",
      "not_resolved",  "tls_handshake", "tls_timeout",    "tls_error",    "memory",       "overload",
      "stuck",         "shutdown",      "moved",          "not_resumed"};
  return kNames[static_cast<size_t>(end)];
}

const char* stay_reason_name(StayReason reason) {
  constexpr std::array<const char*, kStayReasonCount> kNames = {"moving", "handshake", "connecting", "request",
                                                                "group",  "ending",    "returned"};
  return kNames[static_cast<size_t>(reason)];
}

const char* session_kind_name(SessionKind kind) {
  constexpr std::array<const char*, kSessionKindCount> kNames = {"tcp", "http1", "tunnel", "http2"};
  return kNames[static_cast<size_t>(kind)];
}

WorkerCounters::WorkerCounters(const config::Config& config)
    : gauges(std::make_shared<WorkerGauges>()), resets(std::make_shared<ResetCounters>()) {
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    listeners.push_back(std::make_shared<ListenerCounters>());
    http_listeners.push_back(std::make_shared<HttpCounters>());
    latencies.push_back(std::make_shared<RouteLatencies>(config.listeners[i]));
  }
  for (const config::Upstream& upstream : config.upstreams) {
    auto& endpoints = upstreams.emplace_back();
    const size_t count = upstream.endpoints.size() + EndpointTable::added_slots(config);
    for (size_t i = 0; i < count; ++i) endpoints.push_back(std::make_shared<EndpointCounters>());
    http_upstreams.push_back(std::make_shared<UpstreamHttpCounters>());
    upstream_latencies.push_back(std::make_shared<UpstreamLatencies>());
    balancers.push_back(std::make_shared<Balancer::Counters>());
  }
  for (size_t i = 0; i < config.rate_limits.size(); ++i) rate_limits.push_back(std::make_shared<RateLimitCounters>());
}

WorkerCounters::WorkerCounters(const config::Config& config, const config::Config& old, const WorkerCounters& before)
    : WorkerCounters(config) {
  gauges = before.gauges;
  resets = before.resets;
  for (size_t i = 0; i < config.listeners.size(); ++i) {
    for (size_t was = 0; was < old.listeners.size(); ++was) {
      if (old.listeners[was].name != config.listeners[i].name) continue;
      listeners[i] = before.listeners[was];
      http_listeners[i] = before.http_listeners[was];
      latencies[i] = std::make_shared<RouteLatencies>(config.listeners[i], old.listeners[was], *before.latencies[was]);
    }
  }
  for (size_t i = 0; i < config.rate_limits.size(); ++i) {
    for (size_t was = 0; was < old.rate_limits.size(); ++was) {
      if (old.rate_limits[was].name == config.rate_limits[i].name) rate_limits[i] = before.rate_limits[was];
    }
  }
  for (size_t i = 0; i < config.upstreams.size(); ++i) {
    for (size_t was = 0; was < old.upstreams.size(); ++was) {
      const config::Upstream &now = config.upstreams[i], &then = old.upstreams[was];
      if (then.name != now.name) continue;
      absl::flat_hash_map<std::string, std::shared_ptr<EndpointCounters>> known;
      for (size_t e = 0; e < then.endpoints.size(); ++e) {
        known.emplace(then.endpoints[e].text(), before.upstreams[was][e]);
      }
      for (size_t e = 0; e < now.endpoints.size(); ++e) {
        const auto same = known.find(now.endpoints[e].text());
        if (same != known.end()) upstreams[i][e] = same->second;
      }
      if (!is_unchanged(then, now) || EndpointTable::added_slots(old) != EndpointTable::added_slots(config)) continue;
      upstreams[i] = before.upstreams[was];
      http_upstreams[i] = before.http_upstreams[was];
      upstream_latencies[i] = before.upstream_latencies[was];
      balancers[i] = before.balancers[was];
    }
  }
}

}  // namespace sluice
