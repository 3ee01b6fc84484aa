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

/// Looks up the names of all upstreams, on a thread of its own, and puts what they stand for into the upstreams' slots:
/// again whenever an answer is no longer good, and after a failure soon, while what was known before stays in use.
class Resolver {
 public:
  using Upstreams = std::vector<std::unique_ptr<UpstreamState>>;
  /// `changed` is called on the resolver's thread when an upstream has got other endpoints. Workers see that by
  /// themselves as soon as they choose one.
  Resolver(const Upstreams& upstreams, std::function<void()> changed);
  /// Ends the thread.
  ~Resolver();

  static bool has_names(const config::Config& config);

  /// An error if there is nothing to wake the thread with.
  absl::Status start();
  /// Waits until each name has been looked up once, or one try of each could have been.
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
    std::unique_ptr<Lookup> lookup;  // Under way.
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
  size_t under_way_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex first_mutex_;
  std::condition_variable first_done_;
  size_t first_pending_ = 0;  // Names that were not looked up yet.
  std::thread thread_;
};

}  // namespace sluice
