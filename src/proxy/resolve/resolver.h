#pragma once

#include <poll.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "proxy/config/model/config.h"
#include "proxy/resolve/lookup.h"
#include "proxy/resolve/refresh_times.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// Looks up the names of all upstreams on its own thread and puts the results into the upstreams' slots. It repeats a
/// lookup when the answer expires, and soon after a failure; until then the known addresses stay in use. The upstreams
/// outlive it.
class Resolver {
 public:
  using Upstreams = std::vector<std::shared_ptr<UpstreamState>>;
  /// `changed` is called on the resolver's thread after the endpoints of an upstream have changed. Workers notice the
  /// change by themselves when they next choose an endpoint.
  Resolver(const Upstreams& upstreams, std::function<void()> changed);
  /// Stops the thread.
  ~Resolver();

  static bool has_names(const config::Config& config);

  /// Starts the thread. Fails if no eventfd can be created to wake it.
  absl::Status start();
  /// Waits until each name has been looked up once, or for the longest configured timeout of one query.
  void wait_for_first();

 private:
  struct Name {
    Name(UpstreamState& upstream_state, uint32_t index)
        : upstream(upstream_state), configured(index), times(upstream_state.config().resolve) {}
    const config::Endpoint& config() const { return upstream.config().endpoints[configured]; }

    UpstreamState& upstream;
    uint32_t configured;
    RefreshTimes times;
    uint64_t due_ms = 0;
    std::unique_ptr<Lookup> lookup;  // Null unless a lookup is in progress.
    bool first = true;
  };

  void main();
  void begin_due(uint64_t now_ms);
  void wait(std::vector<pollfd>& polled, uint64_t now_ms);
  void finish(Name& name);
  void take(Name& name, LookupResult& result);
  void log_failure(const Name& name, const LookupResult& result) const;
  void note_first(Name& name);

  std::vector<std::unique_ptr<Name>> names_;
  std::function<void()> changed_;
  config::Duration patience_{0};
  int wake_fd_ = -1;
  size_t lookups_in_flight_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex first_mutex_;
  std::condition_variable first_done_;
  size_t first_pending_ = 0;  // Names whose first lookup has not finished.
  std::thread thread_;
};

}  // namespace sluice
