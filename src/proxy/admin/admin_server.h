#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/listener.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/admin/admin_connection.h"
#include "proxy/admin/admin_pages.h"
#include "proxy/admin/admin_services.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/listener/client_acceptor.h"

namespace sluice {

/// Serves AdminPages by HTTP/1.1, on a thread with a worker of its own: clients of the proxy and operators do not delay
/// each other. Connections, heads, bodies, waiting output and times are bounded. The functions are for the control
/// thread; each returns when the thread has done it.
class AdminServer final : private AdminServices::Owner {
 public:
  /// How long a response waits for the figures of busy workers.
  static constexpr uint64_t kFiguresTimeoutMs = 1000;
  static constexpr uint64_t kStopMs = 500;
  /// Connections beyond `max_connections` that may be closing at a time.
  static constexpr uint32_t kClosing = 32;

  /// Starts the thread. It listens from apply() on. `pages` and `counters` outlive the server.
  static absl::StatusOr<std::unique_ptr<AdminServer>> start(AdminPages& pages, AdminCounters& counters,
                                                            Features features);
  /// Ends the connections and the thread. Requests in progress have kStopMs to end.
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  /// Accepts from these sockets in place of the previous ones. Takes ownership of the descriptors. Open connections
  /// stay, and follow the new settings from their next request on; but those for which clients had to prove less, or
  /// something else, end after the request in progress.
  void apply(AdminSettings settings, std::vector<ListenSocket> sockets);
  /// Accepts no more, as another process accepts from the same sockets, and lets the open connections end with their
  /// requests. Waits for a moment until no connection arrives any more.
  void leave();
  /// The other process is gone: accepts again.
  void accept_again();

 private:
  struct Task : Message {
    std::function<void()> work;
    std::promise<void> done;
  };
  // Accepts from one socket.
  struct SocketListener final : Listener::Owner {
    SocketListener(AdminServer& of, const ListenSocket& socket);
    void on_accepted(Listener& listener, int fd) override;
    void on_accept_paused(Listener& listener, int error) override;
    uint32_t accepting() override;

    AdminServer& server;
    const int family;
    Listener listener;
  };

  AdminServer(AdminPages& pages, AdminCounters& counters, Features features);
  void main(Features features);
  void call(std::function<void()> work);
  // AdminServices::Owner
  void await_figures(AdminConnection& connection) override;
  void forget(AdminConnection& connection) override;
  void remove(AdminConnection& connection) override;
  bool make_room();
  void request_figures();
  void check_figures();
  void destroy_stopped();
  void drain_all();
  void end_outdated();
  void stop();

  AdminPages& pages_;
  AdminCounters& counters_;
  std::mutex worker_mutex_;  // Guards worker_: a task must not race with the worker's destruction.
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<HandshakerServices> handshakers_;
  std::unique_ptr<AdminServices> services_;
  std::vector<std::unique_ptr<SocketListener>> listeners_;
  std::vector<std::unique_ptr<SocketListener>> stopped_listeners_;  // Until nothing of them is in flight.
  absl::flat_hash_set<AdminConnection*> connections_;
  size_t ending_ = 0;                      // Of them, those that make room for others.
  std::vector<AdminConnection*> waiting_;  // For figures.
  std::vector<AdminConnection*> later_;    // For others than those that are on their way, in order.
  uint64_t figures_due_ms_ = 0;            // 0: none are requested.
  bool leaving_ = false;                   // Another process accepts: see leave().
  bool stopping_ = false;
  uint64_t end_at_ms_ = 0;  // When to end what is left, while stopping.
  std::unique_ptr<Timer> figures_timer_, stopped_timer_;
  std::promise<absl::Status> ready_;
  std::thread thread_;
};

}  // namespace sluice
