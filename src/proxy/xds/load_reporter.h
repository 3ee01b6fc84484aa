#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/timer_wheel.h"
#include "proxy/xds/load_meter.h"
#include "proxy/xds/service_stream.h"

namespace sluice::xds {

/// Reports the load of clusters to a service, as often and of those clusters as it wants.
class LoadReporter final : private ServiceStream::User {
 public:
  /// The shortest time between two reports, whatever the service wants.
  static constexpr uint64_t kMinIntervalMs = 100;

  struct Options {
    config::Snapshot<config::Config> service;  ///< Its first upstream is the service.
    std::string node;                          ///< envoy.config.core.v3.Node.
    bool only_wanted = false;                  ///< Only of clusters whose `lrs_server` is `self`.
    std::function<const ClusterTable&()> table;
    std::function<void()> on_ended;  ///< After stop(): it has ended().
  };
  LoadReporter(Worker& worker, HandshakerServices& handshakers, Options options, const LoadSource& source,
               XdsCounters& counters);

  void start() { stream_.connect(); }
  void stop();
  bool ended() const { return stream_.ended(); }

 private:
  // ServiceStream::User
  void on_open() override;
  absl::Status on_message(std::string_view message) override;
  void on_lost() override;

  void report();
  void follow(const LoadView& view, uint64_t now_ms);
  void schedule();
  std::vector<std::string> wanted_clusters() const;

  Worker& worker_;
  const Options options_;
  const LoadSource& source_;
  Counter& reports_;
  Timer timer_;
  LoadMeter meter_;
  std::optional<LoadWish> wish_;  // Of the stream.
  ServiceStream stream_;
};

}  // namespace sluice::xds
