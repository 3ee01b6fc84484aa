#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/features.h"
#include "net/helper_threads.h"
#include "net/read_mode.h"
#include "proxy/access_log/access_log.h"
#include "proxy/admin/admin_server.h"
#include "proxy/auth/auth_files.h"
#include "proxy/common/connection_limits.h"
#include "proxy/config/model/config.h"
#include "proxy/log/log_sink.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/overload/memory_watch.h"
#include "proxy/overload/overload_state.h"
#include "proxy/server/control_socket.h"
#include "proxy/server/file_watch.h"
#include "proxy/server/generation.h"
#include "proxy/server/listen_sockets.h"
#include "proxy/server/predecessor.h"
#include "proxy/server/privileges.h"
#include "proxy/server/process_pages.h"
#include "proxy/server/process_view.h"
#include "proxy/server/service_manager.h"
#include "proxy/server/successor.h"
#include "proxy/server/worker_thread.h"
#include "proxy/tls/server_context.h"
#include "proxy/tls/tls_files.h"
#include "proxy/xds/config_feed.h"
#include "proxy/xds/load_source.h"
#include "sluice/chunk_pool.h"

namespace sluice {

struct BodyFile;
class Resolver;

/// The running proxy: the current configuration with its state, one thread per worker, and the control loop on the
/// thread that calls run().
class Server {
 public:
  struct Options {
    std::string config_path;                      ///< For the log. Empty: the configuration came from the command line.
    std::chrono::milliseconds stats_interval{0};  ///< 0: counters are printed only at exit and on SIGUSR2.
    ChunkPool::Source pool_source = ChunkPool::Source::kArena;
    ReadMode read_mode = ReadMode::kProvided;
    std::vector<std::string> files;  ///< The files, and patterns for files, that the configuration is made of.
    /// Loads and checks the configuration again, for a reload, and updates `files`. The error is for the user. Null: it
    /// stays as it is.
    std::function<absl::StatusOr<config::Config>(std::vector<std::string>& files)> load = nullptr;
    /// Where configurations come from that take effect by themselves; `load` returns the latest one. Outlives the
    /// server. Null: there is no control plane.
    xds::ConfigFeed* feed = nullptr;
    const XdsCounters* xds_counters = nullptr;  ///< The same.
    const xds::ConfigDump* xds_dump = nullptr;  ///< The same.
    xds::LoadSource* xds_loads = nullptr;       ///< The same.
  };
  Server(config::Snapshot<config::Config> config, Options options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Starts the proxy, serves until SIGTERM, SIGINT or SIGQUIT has drained it, and prints the counters. SIGHUP reloads
  /// the configuration and the files that it names, SIGUSR1 reopens the logs, and SIGUSR2 prints the counters.
  /// Returns an error if the proxy could not start; the message is for the user.
  absl::Status run();

 private:
  /// What is read and opened for a generation before it takes effect.
  struct Preparation {
    TlsContexts tls;
    std::vector<ListenerAuthFiles> auth;             // By listener.
    std::vector<std::optional<size_t>> access_logs;  // By listener: index into access_logs_.
    std::unique_ptr<LogSink> log;                    // Of the run-time log; null: it goes on where it is.
  };

  /// The same for the admin listener.
  struct AdminPreparation {
    std::optional<AdminSettings> settings;  // None: the configuration has no admin listener.
    std::vector<ListenSocket> sockets;      // Owned.
  };

  absl::Status start();
  absl::Status change_user(const ProcessIds& ids);
  absl::Status begin_sandbox();
  absl::Status complete_sandbox();
  absl::StatusOr<AdminPreparation> prepare_admin(const config::Config& config);
  void apply_admin(AdminPreparation prepared, const config::Config* before);
  void drop_admin(const AdminPreparation& prepared);
  absl::Status inherit(const HandedSocket& socket);
  std::vector<HandedSocket> sockets_to_hand_over() const;
  ProcessView::Applied begin_generation(const config::Snapshot<config::Config>& config) const;
  ProcessView view() const;
  void publish_view();
  absl::StatusOr<Preparation> prepare(const Generation& generation);
  void install(const Generation& generation, Preparation prepared);
  absl::StatusOr<std::vector<WorkerGeneration>> for_workers(const Generation& next, const Generation* before,
                                                            const Preparation& prepared);
  absl::Status resolve_names(const Generation& generation);
  absl::Status open_body_file(const config::Config& config);
  absl::Status make_common_budget(const config::Memory& memory);
  void watch_memory();
  uint32_t max_connections() const;
  void log_listeners(const config::Config* before) const;
  void reopen_logs();
  absl::StatusOr<std::string> reload();
  absl::StatusOr<std::string> replace_generation();
  absl::StatusOr<std::string> obey(std::string_view command);
  absl::StatusOr<std::string> upgrade(std::string_view binary);
  void end_phase();
  bool has_moved_out() const;
  void exchange_with_successor();
  void leave_to_successor();
  void serve_again();
  void stop_moving_out(bool accepts);
  std::string print_stays();
  void keep_session(unsigned worker, MovingSession session);
  bool exchange_with(Predecessor& predecessor);
  bool can_resume(const MovingSession& session) const;
  bool has(const MovingSession::Endpoint& wanted) const;
  int wait(std::chrono::nanoseconds pause);
  void watch_files();
  void retire(Generation old, ProcessView::Applied applied, const std::vector<std::optional<size_t>>& access_logs);
  void end_endpoint_changes();
  void bound_generations();
  void end_overdue(std::chrono::steady_clock::time_point now);
  void destroy_unused();
  void close_unused_logs();
  void log_resets();
  void stop_accepting();
  void serve();
  void feed_watchdog();
  std::string status_line() const;
  void print_stats();
  bool all_stopped() const;

  // The parts of an earlier generation that the current one does not share.
  struct Retired {
    std::vector<std::shared_ptr<ListenerState>> listeners;
    std::vector<std::shared_ptr<UpstreamState>> upstreams;
    std::vector<size_t> access_logs;  // Those that it writes: indices into access_logs_.
    ProcessView::Applied applied;
    bool draining = false;
    // When to end what is left, while it drains.
    std::chrono::steady_clock::time_point end_at = std::chrono::steady_clock::time_point::max();

    bool has_clients() const;
  };
  void leave(const Retired& retired, bool now);

  Options options_;
  const unsigned worker_count_;
  Generation generation_;         // The current one.
  ProcessView::Applied applied_;  // The same, to show.
  std::vector<Retired> retired_;  // Those that connections still use, the oldest first.
  Features features_;
  std::unique_ptr<KeySigner> key_signer_;
  TlsShared tls_shared_;
  uint32_t descriptor_room_ = 0;  // See ClientAcceptor::Context.
  ConnectionLimit global_connections_{0};
  ControlCounters control_counters_;
  std::unique_ptr<AccessLogs> access_logs_;
  std::vector<std::optional<size_t>> access_log_of_listener_;  // Index into access_logs_.
  ListenSockets sockets_;
  ServiceManager manager_;
  Watchdog watchdog_{std::chrono::microseconds(0)};
  std::unique_ptr<ControlSocket> control_;         // Null if it could not be opened.
  int signal_fd_ = -1;                             // Readable if a handled signal has arrived.
  std::unique_ptr<FileWatch> watch_;               // Set if the configuration has `watch`.
  std::chrono::steady_clock::time_point changed_;  // When a watched file changed first, if `settled_` is set.
  std::chrono::steady_clock::time_point settled_ = std::chrono::steady_clock::time_point::max();  // When to reload.
  enum class Phase : uint8_t {
    kServing,
    kMovingOut,  // A successor serves; sessions move to it, or end here.
    kDelaying,   // `shutdown_delay`: accepts, but is not ready.
    kDraining,
    kShuttingDown,
  };
  Phase phase_ = Phase::kServing;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();  // Of the phase.
  // The process that this one replaces, if it still exists, and those before it that do.
  std::vector<std::unique_ptr<Predecessor>> predecessors_;
  std::unique_ptr<Successor> successor_;  // Set from an upgrade on.
  unsigned next_worker_ = 0;              // Takes the next session that arrives.
  std::atomic<bool> stopping_{false};     // The first signal to stop has come; workers read it.
  std::array<uint64_t, kSessionKindCount> logged_resets_{};
  std::unique_ptr<BodyFile> body_file_;  // Set if a route has, or had, `buffer`.
  HelperThreads lookup_threads_{2};      // Resolve the names of handshaker services.
  OverloadState overload_;
  std::unique_ptr<Budget> common_budget_;  // What workers lend one another; null if they do not.
  std::vector<std::unique_ptr<WorkerThread>> workers_;
  std::atomic<bool> workers_started_{false};
  std::unique_ptr<MemoryWatch> memory_watch_;  // Posts messages to the workers.
  AdminCounters admin_counters_;
  ListenSockets admin_sockets_{/*workers=*/1};
  std::shared_ptr<const xds::LoadView> load_view_;  // Of the current generation, for load reports.
  ProcessPages pages_{{control_counters_, admin_counters_, global_connections_, stopping_, workers_, overload_}};
  std::unique_ptr<AdminServer> admin_;  // Set if the configuration has `admin`. Shows the workers.
  Phase shown_phase_ = Phase::kServing;
  std::unique_ptr<Resolver> resolver_;  // Set if endpoints have names. Posts messages to the workers.
};

}  // namespace sluice
