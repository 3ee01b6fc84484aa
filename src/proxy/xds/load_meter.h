#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proxy/xds/cluster_facts.h"
#include "proxy/xds/load_source.h"
#include "proxy/xds/load_stats.h"

namespace sluice::xds {

/// What clusters have had to do since the last report, from counters that only grow.
class LoadMeter {
 public:
  /// Measures these clusters from now on, and no others. One that was measured before goes on.
  void follow(const std::vector<std::string>& clusters, const ClusterTable& table, const LoadView& view,
              uint64_t now_ms);
  /// What has happened since the last call, or since follow(). Of localities without requests nothing is said.
  std::vector<ClusterLoad> take(const ClusterTable& table, const LoadView& view, bool by_endpoint, uint64_t now_ms);
  void clear() { followed_.clear(); }

 private:
  struct Counted {
    uint64_t requests = 0, succeeded = 0, failed = 0;
  };
  struct Followed {
    uint64_t since_ms = 0;
    uint64_t dropped = 0;
    std::map<std::string, Counted> endpoints;  // By address.
  };

  // The indices of the upstreams in a view.
  using Indices = std::unordered_map<std::string_view, size_t>;
  static Indices indices_of(const LoadView& view);
  static ClusterLoad measure(const std::string& name, const ClusterFacts& facts, const LoadView& view,
                             const Indices& indices, bool by_endpoint, Followed& followed);

  std::map<std::string, Followed> followed_;
};

}  // namespace sluice::xds
