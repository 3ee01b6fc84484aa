#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/upstream/endpoint.h"

namespace sluice::xds {

/// The upstreams of the current configuration, and what the workers count of them. Immutable; what it refers to may be
/// read on any thread.
struct LoadView {
  config::Snapshot<config::Config> config;
  std::vector<std::shared_ptr<UpstreamState>> upstreams;
  std::vector<std::shared_ptr<WorkerCounters>> counters;  ///< By worker.
};

/// Passes the view of the control thread to the client of a control plane. It keeps nothing alive.
class LoadSource {
 public:
  void publish(const std::shared_ptr<const LoadView>& view) {
    const std::lock_guard lock(mutex_);
    view_ = view;
  }
  /// Null if there is none (any more).
  std::shared_ptr<const LoadView> view() const {
    const std::lock_guard lock(mutex_);
    return view_.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::weak_ptr<const LoadView> view_;  // Guarded by mutex_.
};

}  // namespace sluice::xds
