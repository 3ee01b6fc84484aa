#include "proxy/xds/load_meter.h"

#include <atomic>
#include <utility>

namespace sluice::xds {
namespace {

// An endpoint, and its place in the counters.
struct CountedEndpoint {
  std::string address;
  size_t index;
};

std::vector<CountedEndpoint> counted_endpoints(const UpstreamState& upstream) {
  std::vector<CountedEndpoint> all;
  const std::vector<config::Endpoint>& configured = upstream.config().endpoints;
  for (size_t i = 0; i < configured.size(); ++i) all.push_back({.address = configured[i].text(), .index = i});
  for (const EndpointTable::Added& each : upstream.slots().added()) {
    all.push_back({.address = each.address, .index = upstream.slots().configured(each.slot)});
  }
  return all;
}

// Requests under way, by place in the counters.
std::vector<uint64_t> active_of(const UpstreamState& upstream) {
  std::vector<uint64_t> active(upstream.config().endpoints.size() + upstream.slots().added_slots());
  for (size_t slot = 0; slot < upstream.size(); ++slot) {
    active[upstream.slots().configured(slot)] += upstream.endpoint(slot).active.load(std::memory_order_relaxed);
  }
  return active;
}

uint64_t dropped_of(const LoadView& view, size_t upstream) {
  uint64_t dropped = 0;
  for (const auto& worker : view.counters) {
    const UpstreamHttpCounters& counters = *worker->http_upstreams[upstream];
    dropped += counters.pending_refused.value();
    for (const Counter& each : counters.limit_refused) dropped += each.value();
  }
  return dropped;
}

// What has been added since; all of it if the counter began anew.
uint64_t growth(uint64_t& before, uint64_t now) {
  const uint64_t last = std::exchange(before, now);
  return now >= last ? now - last : now;
}

}  // namespace

void LoadMeter::follow(const std::vector<std::string>& clusters, const ClusterTable& table, const LoadView& view,
                       uint64_t now_ms) {
  const Indices indices = indices_of(view);
  std::map<std::string, Followed> next;
  for (const std::string& name : clusters) {
    const auto facts = table.find(name);
    if (facts == table.end()) continue;
    if (auto known = followed_.extract(name)) {
      next.insert(std::move(known));
      continue;
    }
    Followed& followed = next[name];
    followed.since_ms = now_ms;
    (void)measure(name, facts->second, view, indices, false, followed);
  }
  followed_ = std::move(next);
}

std::vector<ClusterLoad> LoadMeter::take(const ClusterTable& table, const LoadView& view, bool by_endpoint,
                                         uint64_t now_ms) {
  const Indices indices = indices_of(view);
  std::vector<ClusterLoad> loads;
  for (auto each = followed_.begin(); each != followed_.end();) {
    const auto facts = table.find(each->first);
    if (facts == table.end()) {
      each = followed_.erase(each);
      continue;
    }
    ClusterLoad& load =
        loads.emplace_back(measure(each->first, facts->second, view, indices, by_endpoint, each->second));
    load.interval_ms = now_ms - std::exchange(each->second.since_ms, now_ms);
    ++each;
  }
  return loads;
}

LoadMeter::Indices LoadMeter::indices_of(const LoadView& view) {
  Indices indices;
  for (size_t i = 0; i < view.upstreams.size(); ++i) indices.emplace(view.upstreams[i]->config().name, i);
  return indices;
}

ClusterLoad LoadMeter::measure(const std::string& name, const ClusterFacts& facts, const LoadView& view,
                               const Indices& indices, bool by_endpoint, Followed& followed) {
  ClusterLoad load{.name = name, .service_name = facts.service_name, .localities = {}};
  const auto upstream = indices.find(facts.upstream);
  if (upstream == indices.end()) return load;
  const UpstreamState& state = *view.upstreams[upstream->second];
  load.dropped = growth(followed.dropped, dropped_of(view, upstream->second));
  const std::vector<uint64_t> active = active_of(state);
  std::map<EndpointLocality, LocalityLoad> by_place;
  std::map<std::string, Counted> counted;
  for (const CountedEndpoint& endpoint : counted_endpoints(state)) {
    Counted now;
    for (const auto& worker : view.counters) {
      const EndpointCounters& counters = *worker->upstreams[upstream->second][endpoint.index];
      now.requests += counters.requests.value();
      now.succeeded += counters.requests_succeeded.value();
      now.failed += counters.requests_failed.value();
    }
    Counted before = followed.endpoints[endpoint.address];
    const LoadCounts counts{.succeeded = growth(before.succeeded, now.succeeded),
                            .failed = growth(before.failed, now.failed),
                            .issued = growth(before.requests, now.requests),
                            .in_progress = active[endpoint.index]};
    counted.emplace(endpoint.address, now);
    if (!counts.any()) continue;
    const auto place = facts.places.find(endpoint.address);
    LocalityLoad& locality = by_place[place != facts.places.end() ? place->second : EndpointLocality()];
    locality.counts += counts;
    if (by_endpoint) locality.endpoints.push_back({.address = endpoint.address, .counts = counts});
  }
  followed.endpoints = std::move(counted);
  for (auto& [place, locality] : by_place) {
    locality.place = place;
    load.localities.push_back(std::move(locality));
  }
  return load;
}

}  // namespace sluice::xds
