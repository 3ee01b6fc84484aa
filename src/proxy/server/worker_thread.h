#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/http/proxy/health_checker.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/connection_lister.h"
#include "proxy/listener/connection_table.h"
#include "proxy/listener/shared_address.h"
#include "proxy/overload/worker_overload.h"
#include "proxy/server/generation.h"

namespace sluice {

/// A worker's thread, with its acceptors, balancers and health checkers. The control thread posts messages to it.
class WorkerThread {
 public:
  struct Shared {
    ConnectionLimit& global_connections;
    uint32_t descriptor_room = UINT32_MAX;                  ///< See ClientAcceptor::Context.
    unsigned workers = 1;                                   ///< Number of workers in the process.
    BodyFile* body_file = nullptr;                          ///< See HttpWorker::Context.
    HelperThreads* lookup_threads = nullptr;                ///< See HandshakerService.
    const std::atomic<bool>* stopping = nullptr;            ///< See PhaseSetup.
    const OverloadState& overload = OverloadState::none();  ///< Of the process.
  };
  /// Starts the thread with its first generation.
  WorkerThread(Worker::Options options, const Shared& shared, WorkerGeneration first);
  /// Joins the thread, which must have been requested to stop.
  ~WorkerThread();

  /// Blocks until the thread has started or failed to, and returns the result. May be called once.
  absl::Status wait_until_ready() { return ready_.get_future().get(); }
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  // For the control thread, after wait_until_ready() returned OK.

  /// Makes `next` the generation of new connections and requests; the result is ready when it is, and when listeners
  /// that it replaces accept no more. Sessions move to it if they can. `body_file`: see Shared. Must not be called
  /// before the previous call has completed, or after drain().
  std::future<void> apply(WorkerGeneration next, BodyFile* body_file);
  /// Drains the connections of these listeners of earlier generations, or, if `now`, ends those that are left. The
  /// result is ready when that has begun, and what nobody uses of any generation is gone. The same rules as for
  /// apply().
  std::future<void> leave(std::vector<const ListenerState*> listeners, bool now);
  /// Stops accepting; the result is ready when this worker accepts no more. The worker stops when its last session has
  /// ended.
  std::future<void> drain();
  /// Ends the remaining sessions.
  void shut_down() { post(shut_down_); }
  /// Makes the worker close its connections to removed endpoints as they become free, and release those endpoints.
  void follow_endpoints();
  /// Moves sessions to another process, which accepts from the same sockets, each as soon as its state permits. What
  /// cannot move within `drain_after` is drained then. When the result is ready, this worker accepts no more.
  /// `departures` outlives the thread, or the result of end_moving_out().
  std::future<void> begin_moving_out(Departures& departures, config::Duration drain_after);
  /// The sessions that have not moved. Not while another call is pending.
  std::future<StayCounts> count_stays();
  /// When the result is ready, no session departs any more. `accepts`: the other process is gone, so this one accepts
  /// again.
  std::future<void> end_moving_out(bool accepts);
  /// Continues a session that came from another process, or did not get there. `stays`: it does not move out again.
  void resume(MovingSession session, bool stays);
  /// Whether a session of resume() is not counted among the connections yet.
  bool awaits_session() const { return arriving_.load(std::memory_order_acquire) > 0; }
  /// Notes that the level of the memory in use has changed, or is not normal. On any thread.
  void follow_memory();
  /// Makes the pool report its chunks while a profile of allocations is in progress. On any thread.
  void follow_profile();
  /// Requests an update of the gauges; snapshots() grows by one when it is complete.
  void request_snapshot() { post(snapshot_); }
  /// Requests this worker's part of the table, and no longer those of earlier ones. False if the worker has ended.
  bool list_connections(std::shared_ptr<ConnectionTable> table);
  uint64_t snapshots() const { return snapshots_.load(std::memory_order_acquire); }

 private:
  struct Request : Message {
    WorkerThread* thread;
  };
  struct Checks {
    std::shared_ptr<WorkerUpstream> upstream;  // Outlives the checker.
    std::unique_ptr<HealthChecker> checker;
  };
  using Acceptors = std::vector<std::unique_ptr<ClientAcceptor>>;

  // A session that arrives. Destroys itself when it has run.
  struct Arrival : Message {
    WorkerThread* thread;
    MovingSession session;
    bool stays;
  };
  bool post(Message& request);
  void main(WorkerGeneration first);
  void adopt(WorkerGeneration next);
  void check_applied();
  WorkerUpstreams upstreams_of(const WorkerGeneration& next);
  void replace_acceptors(const WorkerGeneration& next);
  std::shared_ptr<SharedAddress> shared_address_of(const WorkerGeneration& next, size_t index);
  void set_shared_addresses(const WorkerGeneration& next);
  /// Where the log of a listener goes, by the listener's index.
  AccessLogTarget access_log_of(const WorkerGeneration& next, size_t index);
  void retire(std::unique_ptr<ClientAcceptor> old, const SocketInodes& kept);
  void replace_checks(const WorkerUpstreams& before);
  void destroy_unused();
  void begin_moving_out();
  std::future<void> post_leaving(Request& request);
  void check_left();
  void begin_drain();
  void stop_if_idle();
  void update_counters();
  void apply_memory_level();
  void note_turn(uint64_t busy_ms);
  void review_memory();

  Worker::Options options_;
  Shared shared_;
  std::mutex worker_mutex_;  // Guards worker_: a request must not race with the worker's destruction.
  std::unique_ptr<Worker> worker_;
  std::shared_ptr<WorkerCounters> counters_;
  std::unique_ptr<WorkerOverload> overload_;
  WorkerUpstreams upstreams_;
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<HttpWorker> http_;
  std::vector<Checks> checks_;  // One for each upstream that this worker checks.
  Acceptors acceptors_;         // By listener.
  absl::flat_hash_map<std::string, std::shared_ptr<SharedAddress>> shared_addresses_;  // By key of their group.
  // Parts of earlier generations, until their last use has ended.
  std::vector<Checks> old_checks_;
  Acceptors old_acceptors_;
  std::unique_ptr<ConnectionLister> lister_;
  std::unique_ptr<Timer> unused_timer_;
  std::unique_ptr<Timer> drain_timer_;
  std::optional<WorkerGeneration> next_;  // Set while apply_ is posted.
  BodyFile* next_body_file_ = nullptr;
  std::promise<void> applied_, accepts_no_more_, ended_moving_out_;
  std::promise<StayCounts> stays_counted_;
  std::unique_ptr<Timer> applied_timer_;    // Waits until no replaced acceptor accepts.
  std::unique_ptr<Timer> left_timer_;       // Waits until no acceptor accepts.
  std::vector<const ListenerState*> left_;  // Set while leave_ is posted.
  bool leave_now_ = false;
  Request leave_, apply_, drain_, shut_down_, snapshot_, follow_, list_, begin_moving_out_, end_moving_out_;
  Request count_stays_, follow_memory_, follow_profile_;
  Departures* departures_ = nullptr;
  config::Duration drain_after_{0};
  bool accepts_again_ = false;
  std::atomic<bool> following_{false};           // follow_ is posted and has not run yet.
  std::atomic<bool> listing_{false};             // list_ likewise.
  std::atomic<bool> following_memory_{false};    // follow_memory_ likewise.
  std::atomic<bool> following_profile_{false};   // follow_profile_ likewise.
  std::shared_ptr<ConnectionTable> next_table_;  // For list_. Guarded by worker_mutex_.
  std::promise<absl::Status> ready_;
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> snapshots_{0};
  std::atomic<uint32_t> arriving_{0};
  std::thread thread_;
};

}  // namespace sluice
