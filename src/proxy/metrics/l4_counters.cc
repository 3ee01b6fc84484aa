#include "proxy/metrics/l4_counters.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace sluice {
namespace {

template <class Item>
absl::flat_hash_map<std::string_view, size_t> indices_by_name(const std::vector<Item>& items) {
  absl::flat_hash_map<std::string_view, size_t> indices;
  for (size_t i = 0; i < items.size(); ++i) indices.emplace(items[i].name, i);
  return indices;
}

void add_listener(const config::Listener& listener, WorkerCounters& to) {
  to.listeners.push_back(std::make_shared<ListenerCounters>());
  to.http_listeners.push_back(std::make_shared<HttpCounters>());
  to.latencies.push_back(std::make_shared<RouteLatencies>(listener));
}

void add_upstream(const config::Upstream& upstream, size_t added_slots, WorkerCounters& to) {
  auto& endpoints = to.upstreams.emplace_back();
  const size_t count = upstream.endpoints.size() + added_slots;
  for (size_t i = 0; i < count; ++i) endpoints.push_back(std::make_shared<EndpointCounters>());
  to.http_upstreams.push_back(std::make_shared<UpstreamHttpCounters>());
  to.upstream_latencies.push_back(std::make_shared<UpstreamLatencies>());
  to.balancers.push_back(std::make_shared<Balancer::Counters>());
}

}  // namespace

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
      "stuck",         "shutdown",      "moved",          "not_resumed",  "server_name"};
  return kNames[static_cast<size_t>(end)];
}

const char* stay_reason_name(StayReason reason) {
  constexpr std::array<const char*, kStayReasonCount> kNames = {"moving", "handshake", "connecting", "request",
                                                                "group",  "ending",    "returned",   "paced"};
  return kNames[static_cast<size_t>(reason)];
}

const char* session_kind_name(SessionKind kind) {
  constexpr std::array<const char*, kSessionKindCount> kNames = {"tcp", "http1", "tunnel", "http2"};
  return kNames[static_cast<size_t>(kind)];
}

WorkerCounters::WorkerCounters(const config::Config& config)
    : gauges(std::make_shared<WorkerGauges>()), resets(std::make_shared<ResetCounters>()) {
  const size_t added_slots = EndpointTable::added_slots(config);
  for (const config::Listener& listener : config.listeners) add_listener(listener, *this);
  for (const config::Upstream& upstream : config.upstreams) add_upstream(upstream, added_slots, *this);
  for (size_t i = 0; i < config.rate_limits.size(); ++i) rate_limits.push_back(std::make_shared<RateLimitCounters>());
}

WorkerCounters::WorkerCounters(const config::Config& config, const config::Config& old, const WorkerCounters& before)
    : gauges(before.gauges), resets(before.resets) {
  const auto listeners_before = indices_by_name(old.listeners);
  for (const config::Listener& now : config.listeners) {
    const auto was = listeners_before.find(now.name);
    if (was == listeners_before.end()) {
      add_listener(now, *this);
      continue;
    }
    const size_t i = was->second;
    listeners.push_back(before.listeners[i]);
    http_listeners.push_back(before.http_listeners[i]);
    latencies.push_back(std::make_shared<RouteLatencies>(now, old.listeners[i], *before.latencies[i]));
  }
  const auto limits_before = indices_by_name(old.rate_limits);
  for (const config::RateLimit& now : config.rate_limits) {
    const auto was = limits_before.find(now.name);
    rate_limits.push_back(was == limits_before.end() ? std::make_shared<RateLimitCounters>()
                                                     : before.rate_limits[was->second]);
  }
  const size_t added_slots = EndpointTable::added_slots(config);
  const bool same_slots = added_slots == EndpointTable::added_slots(old);
  const auto upstreams_before = indices_by_name(old.upstreams);
  for (const config::Upstream& now : config.upstreams) {
    const auto was = upstreams_before.find(now.name);
    if (was == upstreams_before.end()) {
      add_upstream(now, added_slots, *this);
      continue;
    }
    const size_t i = was->second;
    const config::Upstream& then = old.upstreams[i];
    if (same_slots && is_unchanged(then, now)) {
      upstreams.push_back(before.upstreams[i]);
      http_upstreams.push_back(before.http_upstreams[i]);
      upstream_latencies.push_back(before.upstream_latencies[i]);
      balancers.push_back(before.balancers[i]);
      continue;
    }
    add_upstream(now, added_slots, *this);
    absl::flat_hash_map<std::string, std::shared_ptr<EndpointCounters>> known;
    for (size_t e = 0; e < then.endpoints.size(); ++e) known.emplace(then.endpoints[e].text(), before.upstreams[i][e]);
    for (size_t e = 0; e < now.endpoints.size(); ++e) {
      const auto same = known.find(now.endpoints[e].text());
      if (same != known.end()) upstreams.back()[e] = same->second;
    }
  }
}

}  // namespace sluice
