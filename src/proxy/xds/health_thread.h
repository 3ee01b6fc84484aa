#pragma once

#include <mutex>
#include <string>
#include <thread>

#include "net/worker.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/xds/bootstrap.h"
#include "proxy/xds/health_reporter.h"

namespace sluice::xds {

/// The client of a health discovery service, on a thread with a worker of its own: a change of the configuration, which
/// takes long, must not make checks time out, and checks must not delay traffic.
class HealthThread {
 public:
  /// `bootstrap` names the service, and outlives it. `folder`: for certificates and keys that the service sends.
  HealthThread(const Bootstrap& bootstrap, std::string folder, HealthDiscoveryCounters& counters);
  /// Ends it.
  ~HealthThread();

 private:
  void main();

  const Bootstrap& bootstrap_;
  const std::string folder_;
  HealthDiscoveryCounters& counters_;
  std::mutex mutex_;                    // Guards what follows, up to the thread.
  Worker* worker_ = nullptr;            // Set once it runs, until it is stopped.
  HealthReporter* reporter_ = nullptr;  // The same. To be used by the worker only.
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::xds
