#include "proxy/server/earlier_counters.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace sluice {

namespace {

// Adds those that have no other owner to the sum. Their last one has written them before it let them go.
template <class Counters>
void fold_list(std::vector<std::shared_ptr<const Counters>>& list, ClusterFigures& sum) {
  const auto ended = std::partition(list.begin(), list.end(), [](const auto& each) { return each.use_count() > 1; });
  std::atomic_thread_fence(std::memory_order_acquire);
  for (auto each = ended; each != list.end(); ++each) sum.add(**each);
  list.erase(ended, list.end());
}

}  // namespace

void EarlierCounters::Kept::fold() {
  fold_list(endpoints, ended);
  fold_list(http, ended);
  fold_list(latencies, ended);
}

void EarlierCounters::keep(const WorkerCounters& before, size_t old_index, const WorkerCounters& now, size_t index,
                           Kept& to) {
  to.http.push_back(before.http_upstreams[old_index]);
  to.latencies.push_back(before.upstream_latencies[old_index]);
  absl::flat_hash_set<const EndpointCounters*> present;
  for (const auto& each : now.upstreams[index]) present.insert(each.get());
  for (const auto& each : before.upstreams[old_index]) {
    if (!present.contains(each.get())) to.endpoints.push_back(each);
  }
}

void EarlierCounters::follow(const ProcessView& before, const ProcessView& now) {
  if (before.counters.empty() || before.counters == now.counters) return;
  absl::flat_hash_map<std::string_view, size_t> old_indices;
  const std::vector<config::Upstream>&old = before.config->upstreams, &upstreams = now.config->upstreams;
  for (size_t i = 0; i < old.size(); ++i) old_indices.emplace(old[i].name, i);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < upstreams.size(); ++i) {
    const auto was = old_indices.find(upstreams[i].name);
    if (was == old_indices.end()) continue;
    const size_t old_index = was->second;
    old_indices.erase(was);
    for (size_t w = 0; w < now.counters.size(); ++w) {
      const WorkerCounters &earlier = *before.counters[w], &current = *now.counters[w];
      if (earlier.http_upstreams[old_index] == current.http_upstreams[i]) continue;
      keep(earlier, old_index, current, i, by_upstream_[upstreams[i].name]);
    }
  }
  for (const auto& [name, index] : old_indices) by_upstream_.erase(std::string(name));
  for (auto& [name, kept] : by_upstream_) kept.fold();
}

void EarlierCounters::add_to(const std::string& upstream, ClusterFigures& figures) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_upstream_.find(upstream);
  if (found == by_upstream_.end()) return;
  const Kept& kept = found->second;
  figures.add(kept.ended);
  for (const auto& each : kept.endpoints) figures.add(*each);
  for (const auto& each : kept.http) figures.add(*each);
  for (const auto& each : kept.latencies) figures.add(*each);
}

}  // namespace sluice
