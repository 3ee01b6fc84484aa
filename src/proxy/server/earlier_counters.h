// Counters that an upstream had in earlier configurations.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "proxy/server/cluster_figures.h"
#include "proxy/server/process_view.h"

namespace sluice {

/// Keeps them, so that the sums over an upstream's endpoints never fall: a sum that falls looks to Prometheus like a
/// counter that began anew, and all of it like traffic. With a control plane, endpoints come and go all the time.
class EarlierCounters {
 public:
  /// What is shown changes from `before` to `now`. One of several threads at a time.
  void follow(const ProcessView& before, const ProcessView& now);
  /// Adds those of the upstream of this name. On any thread.
  void add_to(const std::string& upstream, ClusterFigures& figures) const;

 private:
  // Connections of an earlier configuration still use some.
  struct Kept {
    std::vector<std::shared_ptr<const EndpointCounters>> endpoints;
    std::vector<std::shared_ptr<const UpstreamHttpCounters>> http;
    std::vector<std::shared_ptr<const UpstreamLatencies>> latencies;
    ClusterFigures ended;  // The sum of those that nothing uses any more.

    void fold();
  };
  static void keep(const WorkerCounters& before, size_t old_index, const WorkerCounters& now, size_t index, Kept& to);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Kept> by_upstream_;
};

}  // namespace sluice
