#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "net/timer_wheel.h"
#include "proxy/xds/checked_clusters.h"
#include "proxy/xds/service_stream.h"

namespace sluice::xds {

/// Checks the endpoints that a health discovery service names, and reports their health to it as often as it wants.
/// While there is no stream, the checks go on, so that the first report of the next one is right.
class HealthReporter final : private ServiceStream::User {
 public:
  /// The shortest time between two reports, whatever the service wants.
  static constexpr uint64_t kMinIntervalMs = 100;
  /// The shortest time between two changes of what is checked: of what comes sooner, the last counts. Each may begin
  /// all checks anew, with a descriptor for each.
  static constexpr uint64_t kMinChangeMs = 100;

  struct Options {
    config::Snapshot<config::Config> service;  ///< Its first upstream is the service.
    std::string node;                          ///< envoy.config.core.v3.Node.
    std::function<void()> on_ended;            ///< After stop(): nothing of it is in progress.
  };
  HealthReporter(HttpWorker& worker, Options options, CheckSettingsMaker maker, HealthDiscoveryCounters& counters);

  void start();
  void stop();

 private:
  // ServiceStream::User
  void on_open() override;
  absl::Status on_message(std::string_view message) override;
  void on_lost() override;

  void apply_newest();
  void report();
  void renew_certificates();
  void clean_up();
  void clean_up_later();

  Worker& worker_;
  const Options options_;
  HealthDiscoveryCounters& counters_;
  CheckedClusters clusters_;
  std::string newest_;  // The specifier that waits for change_timer_.
  uint64_t next_change_ms_ = 0;
  Timer change_timer_;
  Timer report_timer_;
  Timer certificate_timer_;
  Timer clean_up_timer_;
  std::optional<uint64_t> interval_ms_;  // Of the stream; nothing: the service has not said what it wants.
  bool stopping_ = false;
  ServiceStream stream_;
};

}  // namespace sluice::xds
