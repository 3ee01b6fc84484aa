// A client of a control plane: keeps a stream open, and turns what arrives into configurations.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "net/features.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/xds/bootstrap.h"
#include "proxy/xds/cluster_facts.h"
#include "proxy/xds/config_dump.h"
#include "proxy/xds/config_feed.h"
#include "proxy/xds/config_maker.h"
#include "proxy/xds/health_thread.h"
#include "proxy/xds/load_reporter.h"
#include "proxy/xds/load_source.h"
#include "proxy/xds/service_stream.h"
#include "proxy/xds/subscription.h"

namespace sluice::xds {

/// The client, on a thread with a worker of its own. While there is no stream, what was accepted last stays in effect,
/// and the client connects again, soon at first and then less often.
class XdsClient final : private ServiceStream::User {
 public:
  struct Options {
    std::string bootstrap;     ///< The file.
    std::string cache_folder;  ///< For the last good resources, and for certificates and keys.
    bool accepts_unsupported = false;
    config::FurtherCheck check = nullptr;  ///< Of each configuration.
  };
  /// Reads the files and starts the thread. If the cache has resources, the first configuration is made of them.
  static absl::StatusOr<std::unique_ptr<XdsClient>> start(Options options);
  ~XdsClient();

  ConfigFeed& feed() { return feed_; }
  const XdsCounters& counters() const { return counters_; }
  const ConfigDump& dump() const { return dump_; }
  /// What load reports are made of. The control thread publishes it.
  LoadSource& loads() { return loads_; }

 private:
  XdsClient(Options options, std::unique_ptr<Bootstrap> bootstrap);
  void read_cache();
  void main();
  void begin();
  void begin_load_reports();
  void stop();
  void stop_worker();
  absl::Status apply(const ResourceStore& candidate, ResourceKeys& blamed);
  void end_wait();
  void watch_lifetimes();
  void expire();
  const ClusterTable& clusters();
  // ServiceStream::User
  void on_open() override;
  absl::Status on_message(std::string_view message) override;
  void on_lost() override;

  const Options options_;
  const std::unique_ptr<const Bootstrap> bootstrap_;
  XdsCounters counters_;
  ConfigFeed feed_;
  ConfigDump dump_;
  ConfigMaker maker_;
  std::unique_ptr<Subscription> subscription_;
  LoadSource loads_;
  std::optional<ClusterTable> clusters_;  // Of the configuration in use; nothing: to be made anew.
  std::mutex worker_mutex_;               // Guards worker_: stop() must not race with its destruction.
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<ServiceStream> stream_;
  std::unique_ptr<LoadReporter> reporter_;  // Null while nobody wants load reports.
  std::unique_ptr<Timer> wait_;             // For the end of the time that updates wait for clusters.
  std::unique_ptr<Timer> expiry_;           // For the end of the time that a resource lives.
  bool stopping_ = false;
  std::thread thread_;
  std::unique_ptr<HealthThread> health_;  // Null: the bootstrap file names no health discovery service.
};

}  // namespace sluice::xds
