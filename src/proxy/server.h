#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "net/features.h"
#include "pool/chunk_pool.h"
#include "proxy/config/config.h"
#include "proxy/limits/connection_limits.h"
#include "proxy/stats/l4_counters.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

class WorkerThread;
struct ListenerState;

/// The running proxy: shared state, one thread per worker, and the control loop on the calling thread.
class Server {
 public:
  struct Options {
    std::chrono::milliseconds stats_interval{0};  ///< 0: counters are printed at exit only.
    ChunkPool::Source pool_source = ChunkPool::Source::kArena;
  };
  Server(config::Config config, Options options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Opens everything, serves until SIGTERM or SIGINT has drained it, prints the counters. An error means that it could
  /// not start; its message is for the user.
  absl::Status run();

 private:
  absl::Status start();
  absl::StatusOr<std::vector<std::vector<int>>> open_listeners(unsigned workers);
  void serve();
  void print_stats();
  bool all_stopped() const;

  config::Config config_;
  Options options_;
  Features features_;
  std::unique_ptr<ConnectionLimit> global_connections_;
  std::vector<std::unique_ptr<ListenerState>> listeners_;
  std::vector<std::unique_ptr<UpstreamState>> upstreams_;
  std::vector<std::unique_ptr<WorkerCounters>> counters_;
  std::vector<std::unique_ptr<WorkerThread>> workers_;
};

}  // namespace sluice
