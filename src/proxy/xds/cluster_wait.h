// Make before break: what routes requests waits for the clusters that its next version names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/config/load/yaml.h"
#include "proxy/xds/resource_kind.h"
#include "proxy/xds/resource_store.h"

namespace sluice::xds {

/// The clusters that a route configuration or a listener forwards to. Those that it names for other purposes, such as
/// mirrors and authorization, are not among them.
std::set<std::string> forwarded_clusters(const config::Node& tree);

/// Decides which changes of routes and listeners are put off. One that works now and whose next version names a cluster
/// that is not there stays as it is until the cluster is, or until kMaxMs after the first version that waited; then the
/// newest one is used as it is. A cluster which the version in use names, too, is not waited for: it was removed.
class ClusterWait {
 public:
  /// Envoy's default for how long it waits for what a resource refers to (`initial_fetch_timeout`).
  static constexpr uint64_t kMaxMs = 15'000;

  /// One resource that waits.
  struct Waiting {
    ResourcePointer next;               ///< Its newest version.
    std::vector<std::string> clusters;  ///< Those that are not there.
    uint64_t since_ms;                  ///< When it began, of this version or an earlier one.
    bool is_over;                       ///< The bound has passed: `next` is to be used.
  };
  using Waits = std::map<ResourceKey, Waiting>;

  /// Puts the version of `in_use` in the place of each resource of `ready` that waits, with what it refers to. Clusters
  /// whose names are in `elsewhere` are there, too. commit() makes the result count.
  void put_off(const ResourceStore& in_use, const std::set<std::string>& elsewhere, uint64_t now_ms,
               ResourceStore& ready);
  /// Whether the last put_off() has put off a version that no commit() has seen yet.
  bool has_news() const;
  /// The result of the last put_off() is in effect: logs what has changed.
  void commit();

  /// How many resources wait.
  size_t size() const { return waits_.size(); }
  /// How many have waited in vain, in all.
  uint64_t timeouts() const { return timeouts_; }
  /// When put_off() is to be called again; nothing if nothing waits.
  std::optional<uint64_t> due_ms() const;

 private:
  bool must_wait(ResourceKind kind, const std::string& name, std::set<std::string> missing, const ResourcePointer& next,
                 uint64_t now_ms);

  Waits waits_, next_;
  uint64_t timeouts_ = 0;
};

}  // namespace sluice::xds
