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

/// A worker's thread with what it serves: its acceptors and balancers. The control thread talks to it by messages.
class WorkerThread {
 public:
  struct Shared {
    const config::Config& config;
    ConnectionLimit& global_connections;
    std::vector<std::unique_ptr<ListenerState>>& listeners;
    std::vector<std::unique_ptr<UpstreamState>>& upstreams;
    WorkerCounters& counters;
    std::vector<AccessLogWriter*> access_logs;  ///< The worker's, by listener; null where there is none. May be empty.
    uint32_t descriptor_room = UINT32_MAX;      ///< See ClientAcceptor::Context.
    unsigned workers = 1;                       ///< All that there are.
    BodyFile* body_file = nullptr;              ///< See HttpWorker::Context.
    HelperThreads* lookup_threads = nullptr;    ///< See HandshakerService.
  };
  /// Starts the thread. `listen_fds` holds one descriptor per listener, which it takes; `shared_fd[i]` tells that other
  /// workers accept from descriptor i too.
  WorkerThread(Worker::Options options, Shared shared, std::vector<int> listen_fds, std::vector<bool> shared_fd);
  /// Joins the thread; it must have been asked to stop.
  ~WorkerThread();

  /// Whether it could start.
  absl::Status wait_until_ready() { return ready_.get_future().get(); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  // From the control thread, not before wait_until_ready() was OK.

  /// Stops accepting and ends when the last session has.
  void drain() { post(drain_); }
  /// Ends the sessions that are left.
  void shut_down() { post(shut_down_); }
  /// Has connections to endpoints that are gone ended, and lets go of those.
  void follow_endpoints();
  /// Asks for fresh gauges; `snapshots()` grows by one when they are there.
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
  std::mutex worker_mutex_;  // Guards the pointer: a request must not meet a worker that is going away.
  std::unique_ptr<Worker> worker_;
  std::vector<std::unique_ptr<Balancer>> balancers_;
  std::vector<SessionCache> tls_sessions_;
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<HttpWorker> http_;
  std::vector<std::unique_ptr<HealthChecker>> checkers_;  // Of the upstreams that this worker checks.
  std::vector<std::unique_ptr<ClientAcceptor>> acceptors_;
  std::unique_ptr<Timer> drain_timer_;
  Request drain_, shut_down_, snapshot_, follow_;
  std::atomic<bool> following_{false};  // It is under way.
  std::promise<absl::Status> ready_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> snapshots_{0};
  std::thread thread_;
};

}  // namespace sluice
