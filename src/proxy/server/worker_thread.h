#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/access_log/access_log.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/http/proxy/health_checker.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

/// A worker's thread, with its acceptors, balancers and health checkers. The control thread posts messages to it.
class WorkerThread {
 public:
  struct Shared {
    const config::Config& config;
    ConnectionLimit& global_connections;
    std::vector<std::unique_ptr<ListenerState>>& listeners;
    std::vector<std::unique_ptr<UpstreamState>>& upstreams;
    WorkerCounters& counters;
    std::vector<AccessLogWriter*> access_logs;  ///< The worker's, by listener; null entries allowed. May be empty.
    uint32_t descriptor_room = UINT32_MAX;      ///< See ClientAcceptor::Context.
    unsigned workers = 1;                       ///< Number of workers in the process.
    BodyFile* body_file = nullptr;              ///< See HttpWorker::Context.
    HelperThreads* lookup_threads = nullptr;    ///< See HandshakerService.
  };
  /// Starts the thread. `listen_fds` has one descriptor per listener; the thread owns them. `shared_fd[i]` is true if
  /// other workers accept from descriptor i too.
  WorkerThread(Worker::Options options, Shared shared, std::vector<int> listen_fds, std::vector<bool> shared_fd);
  /// Joins the thread, which must have been requested to stop.
  ~WorkerThread();

  /// Blocks until the thread has started or failed to, and returns the result. May be called once.
  absl::Status wait_until_ready() { return ready_.get_future().get(); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  // For the control thread, after wait_until_ready() returned OK.

  /// Stops accepting. The worker stops when its last session has ended.
  void drain() { post(drain_); }
  /// Ends the remaining sessions.
  void shut_down() { post(shut_down_); }
  /// Makes the worker close its connections to removed endpoints as they become free, and release those endpoints.
  void follow_endpoints();
  /// Requests an update of the gauges; snapshots() grows by one when it is complete.
  void request_snapshot() { post(snapshot_); }
  uint64_t snapshots() const { return snapshots_.load(std::memory_order_acquire); }

 private:
  struct Request : Message {
    WorkerThread* thread;
  };
  void post(Request& request);
  void main(std::vector<int> listen_fds, std::vector<bool> shared_fd);
  std::unique_ptr<SessionFactory> make_session_factory(const ClientAcceptor::Context& context);
  void start_checks();
  void begin_drain();
  void stop_if_idle();
  void update_counters();

  Worker::Options options_;
  Shared shared_;
  std::mutex worker_mutex_;  // Guards worker_: a request must not race with the worker's destruction.
  std::unique_ptr<Worker> worker_;
  std::vector<std::unique_ptr<Balancer>> balancers_;
  std::vector<SessionCache> tls_sessions_;
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<HttpWorker> http_;
  std::vector<std::unique_ptr<HealthChecker>> checkers_;  // One for each upstream that this worker checks.
  std::vector<std::unique_ptr<ClientAcceptor>> acceptors_;
  std::unique_ptr<Timer> drain_timer_;
  Request drain_, shut_down_, snapshot_, follow_;
  std::atomic<bool> following_{false};  // follow_ is posted and has not run yet.
  std::promise<absl::Status> ready_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> snapshots_{0};
  std::thread thread_;
};

}  // namespace sluice
