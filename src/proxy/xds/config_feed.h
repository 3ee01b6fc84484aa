#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/config/model/config.h"

namespace sluice::xds {

/// Passes configurations from the client's thread to the control thread, one at a time.
class ConfigFeed {
 public:
  ConfigFeed();
  ~ConfigFeed();
  ConfigFeed(const ConfigFeed&) = delete;
  ConfigFeed& operator=(const ConfigFeed&) = delete;

  // On the client's thread.

  /// Offers a configuration, and waits until it is in effect, or is refused for the reason in the error. The first one
  /// is in effect at once.
  absl::Status offer(std::shared_ptr<const config::Config> config);

  // On the control thread.

  /// Waits until there is a configuration, for this long at most. Returns whether there is one.
  bool wait_for_first(std::chrono::milliseconds time);
  /// Readable while there is an offer.
  int fd() const { return fd_; }
  /// The offer, or else the configuration that is in effect.
  std::shared_ptr<const config::Config> latest() const;
  /// Reports to the client whether its offer is in effect, if there is one.
  void settle(const absl::Status& status);
  /// Refuses all offers from now on. Callable on any thread.
  void close();
  bool closed() const;

 private:
  const int fd_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const config::Config> current_, offered_;  // Null: there is none.
  absl::Status settled_;
  bool closed_ = false;
};

}  // namespace sluice::xds
