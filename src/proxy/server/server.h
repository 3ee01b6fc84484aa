#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "net/features.h"
#include "net/helper_threads.h"
#include "net/socket.h"
#include "proxy/access_log/access_log.h"
#include "proxy/common/connection_limits.h"
#include "proxy/config/model/config.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/tls/server_context.h"
#include "proxy/upstream/endpoint.h"
#include "sluice/chunk_pool.h"

namespace sluice {

struct BodyFile;
class Resolver;
class WorkerThread;
struct ListenerState;

/// The running proxy: shared state, one thread per worker, and the control loop on the thread that calls run().
class Server {
 public:
  struct Options {
    std::string config_path;                      ///< For the log. Empty: the configuration came from the command line.
    std::chrono::milliseconds stats_interval{0};  ///< 0: counters are printed only at exit and on SIGUSR2.
    ChunkPool::Source pool_source = ChunkPool::Source::kArena;
    ReadMode read_mode = ReadMode::kProvided;
  };
  Server(config::Config config, Options options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Starts the proxy, serves until SIGTERM, SIGINT or SIGQUIT has drained it, and prints the counters. SIGHUP reloads
  /// the files of TLS and `auth`, SIGUSR1 reopens the access logs, and SIGUSR2 prints the counters. Returns an error if
  /// the proxy could not start; the message is for the user.
  absl::Status run();

 private:
  absl::Status start();
  absl::StatusOr<std::vector<std::vector<int>>> open_listeners(unsigned workers);
  absl::Status read_files();
  absl::Status resolve_names();
  absl::Status open_access_logs(unsigned workers);
  absl::Status open_body_file();
  void remove_unix_sockets();
  std::vector<AccessLogWriter*> log_writers(unsigned worker);
  void reopen_access_logs();
  void reload();
  void serve();
  void print_stats();
  bool all_stopped() const;

  struct UnixSocketFile {
    std::string path;
    dev_t device;
    ino_t inode;
  };

  config::Config config_;
  Options options_;
  Features features_;
  std::unique_ptr<KeySigner> key_signer_;
  TlsShared tls_shared_;
  std::unique_ptr<ConnectionLimit> global_connections_;
  std::vector<std::unique_ptr<ListenerState>> listeners_;
  std::vector<std::unique_ptr<UpstreamState>> upstreams_;
  ControlCounters control_counters_;
  std::unique_ptr<AccessLogs> access_logs_;
  std::vector<std::optional<size_t>> access_log_of_listener_;  // Index into access_logs_.
  std::vector<UnixSocketFile> unix_sockets_;                   // Of the listeners, while they are open.
  std::unique_ptr<BodyFile> body_file_;                        // Set if a route has `buffer`.
  HelperThreads lookup_threads_{2};                            // Resolve the names of handshaker services.
  std::vector<std::unique_ptr<WorkerCounters>> counters_;
  std::vector<std::unique_ptr<WorkerThread>> workers_;
  std::atomic<bool> workers_started_{false};
  std::unique_ptr<Resolver> resolver_;  // Set if endpoints have names. Posts messages to the workers.
};

}  // namespace sluice
