#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "net/listener.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "net/yielding_task.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/source_memory.h"
#include "proxy/listener/connection_balance.h"
#include "proxy/listener/listener_state.h"
#include "proxy/listener/moving_session.h"
#include "proxy/listener/session.h"
#include "proxy/listener/worker_upstream.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/overload/worker_overload.h"
#include "proxy/rate_limit/rate_limiter.h"

namespace sluice {

class ClientAcceptor;
class SharedAddress;

/// Bound on unsent bytes in the kernel toward an HTTP client. Without it the kernel accepts up to tcp_wmem, 4 MiB, for
/// each client that reads nothing. A thousand such clients keep a worker copying for seconds, and exhaust tcp_mem for
/// all connections of the machine.
inline constexpr uint32_t kHttpUnsentBytes = 128 * 1024;

/// Finds the acceptor of a listener on the same worker by its name; null if there is none.
using FindAcceptor = absl::FunctionRef<ClientAcceptor*(std::string_view name)>;

/// Makes the sessions of one listener on one worker. The factory outlives its sessions.
class SessionFactory {
 public:
  virtual ~SessionFactory() = default;
  /// Makes the session of an accepted connection. The session owns itself and joins `acceptor`. Takes ownership of the
  /// descriptor. `family` is that of the listening socket.
  virtual void start(ClientAcceptor& acceptor, int fd, int family) = 0;
  /// Makes a session of another factory of this kind continue as a session of `acceptor`, this factory's, if it can.
  virtual void adopt(ClientAcceptor& /*acceptor*/, Session& /*session*/) {}
  /// Continues a session that a factory of this kind has written, as one of `acceptor`, this factory's. `find` finds
  /// those of the other sessions that came with it. Takes ownership of the descriptors. False if it cannot; the session
  /// has ended then. `stays`: it does not move out again.
  virtual bool resume(ClientAcceptor& /*acceptor*/, MovingSession& /*session*/, FindAcceptor /*find*/, bool /*stays*/) {
    return false;
  }
  /// Starts no session from now on. Existing sessions continue.
  virtual void stop() {}
  /// Whether nothing uses it except sessions.
  virtual bool idle() const { return true; }
  /// The number of requests that began here and have not ended, and the session of one of them; null if it has left it.
  /// The session may have moved to another acceptor.
  virtual size_t requests() const { return 0; }
  virtual Session* session_of(size_t /*request*/) { return nullptr; }
};

/// A listening socket of one worker.
struct ListenSocket {
  int fd = -1;
  int family = 0;       ///< AF_INET, AF_INET6 or AF_UNIX.
  bool shared = false;  ///< Whether other workers accept from it, too: see Listener.
};

/// See socket_inode().
using SocketInodes = absl::flat_hash_set<ino_t>;

/// One worker's share of a listener: accepts connections from its sockets, applies the limits, and holds the list of
/// sessions.
///
/// When another configuration has changed the listener, another acceptor replaces this one, which lives on until its
/// last session has ended or has moved to its successor.
class ClientAcceptor final : public Listener::Owner, private ConnectionBalance::Member::Owner {
 public:
  struct Context {
    Worker& worker;
    ConnectionLimit& global_connections;
    std::shared_ptr<ListenerState> listener;
    WorkerUpstreams upstreams;
    HandshakerServices& handshakers;  ///< The worker's handshaker services.
    std::shared_ptr<ListenerCounters> counters;
    std::shared_ptr<HttpCounters> http_counters;
    std::shared_ptr<const RouteLatencies> latencies;
    uint32_t descriptor_room = UINT32_MAX;  ///< Connections (of two descriptors each) that the process has room for.
    uint64_t other_backlogs = 0;            ///< Connections that may wait at the process's other listening sockets.
    uint32_t sockets = 1;                   ///< Listening sockets of the process.
    std::shared_ptr<ResetCounters> resets = std::make_shared<ResetCounters>();
    WorkerRateLimits rate_limits = {};  ///< Those of the configuration.
    WorkerOverload& overload = WorkerOverload::none();
    std::shared_ptr<SharedAddress> shared = nullptr;  ///< If the listener shares its addresses.
  };
  /// Takes ownership of the descriptors of the sockets. There are none if another listener accepts at the addresses
  /// that it shares.
  ClientAcceptor(Context context, std::unique_ptr<SessionFactory> factory, const std::vector<ListenSocket>& sockets);
  ~ClientAcceptor();

  void start();
  /// Stops accepting. Existing sessions continue. Connections that wait in a socket of `kept` are left to the acceptor
  /// that accepts from it now.
  void stop_accepting(const SocketInodes& kept = {});
  bool idle() const;
  size_t sessions() const { return session_count_; }
  /// Ends each session as soon as it has nothing in progress, some sessions in each turn of the loop. Precondition:
  /// stop_accepting() was called.
  void drain();
  /// Like drain(), also for sessions that have moved away, but have requests that began here.
  void drain_all();
  /// Ends the sessions that drain_all() has left, some in each turn of the loop.
  void end_all();
  /// Stops accepting because `successor` accepts from the same socket or in its place. Moves the sessions that can be
  /// moved to it, some in each turn; the others continue here. `successor` has sessions of the same kind, and outlives
  /// this acceptor or is replaced by another call. `kept`: see stop_accepting().
  void hand_over(ClientAcceptor& successor, const SocketInodes& kept = {});
  /// Moves the sessions to another process, each as soon as its state permits. Those that do not get into such a state
  /// before `drains_at_ms` are drained then. Accepts nothing meanwhile: the other process accepts from the same socket.
  /// `per_ms`: how many sessions begin to move in each millisecond.
  void begin_moving_out(Departures& departures, uint64_t drains_at_ms, size_t per_ms);
  /// No session moves out any more. `accepts`: the other process is gone, so this one accepts again.
  void end_moving_out(bool accepts);
  /// Adds the sessions that have not moved. Visits all of them in this turn of the loop: most have moved before.
  void count_stays(StayCounts& counts) const;
  /// Whether the listening sockets are left to the other process, and no connection arrives here any more.
  bool has_left() const;
  /// Where sessions go. Precondition: they are moving out.
  Departures& departures() { return *departures_; }
  bool moving_out() const { return departures_ != nullptr; }
  /// Whether its sessions stay as they are: it is not leaving them to anyone, nor ending them. A pass through the
  /// sessions that does that would miss one that takes the place of another.
  bool settled() const { return !departures_ && !successor_ && !draining_ && !shut_down_; }
  /// Continues a session that has left another acceptor with this listener's name. `find`, `stays`: see SessionFactory.
  /// False: it could not, and the session has ended.
  bool resume(MovingSession session, FindAcceptor find, bool stays);
  /// Counts a session that is about to be made to continue one. It was admitted when it was accepted, so the limits do
  /// not end it now.
  void admit_resumed();
  /// Counts a session that is about to take the place of another one here, whose connection it continues.
  void admit_replacement();
  /// The session is complete.
  void resumed(Session& session);
  /// A place for a session that resume() continues. Null if the listener does not limit sources, or if the limit is
  /// reached: the session was admitted when it was accepted, and goes on uncounted.
  SourceLimit::Place take_source_place(const Source& source);
  /// The acceptor to which sessions move; null if there is none.
  ClientAcceptor* successor() const { return successor_; }
  SessionFactory& factory() { return *factory_; }
  /// Makes a session of this acceptor continue as one of its successor, if it can. Precondition: there is a successor.
  void move(Session& session) { successor_->factory_->adopt(*successor_, session); }
  /// The listening sockets of the process have changed: see Context.
  void set_others(uint64_t other_backlogs, uint32_t sockets);
  /// Ends the remaining sessions now, all in this turn of the loop.
  void shut_down();

  Worker& worker() { return context_.worker; }
  ListenerState& listener() { return *context_.listener; }
  /// Null if the listener does not share its addresses.
  SharedAddress* shared() const { return context_.shared.get(); }
  const std::shared_ptr<ListenerState>& shared_listener() const { return context_.listener; }
  const config::Tcp& tcp() const { return context_.listener->forwarding; }
  ListenerCounters& counters() { return *context_.counters; }
  const WorkerUpstreams& upstreams() const { return context_.upstreams; }
  WorkerUpstream& upstream(uint32_t index) { return *context_.upstreams[index]; }
  HandshakerServices& handshakers() { return context_.handshakers; }
  WorkerOverload& overload() { return context_.overload; }

  /// Reviews the memory that sessions hold, a few sessions at a time, until memory is no longer short.
  void review_memory();
  /// The memory that reviews have counted for each source. Null while memory is not short.
  SourceMemory* source_memory() { return source_memory_.get(); }

  /// Begins a pass through all sessions that are here now, from the newest on, by next_listed(), which returns null at
  /// the end. The loop may go on in between.
  void begin_listing() { next_listed_ = sessions_; }
  Session* next_listed();

  /// Counts a new connection of this client. Whether the listener's `connection_rate_limits` admit it.
  bool admits_rate(const PeerAddress& client) const;

  bool limits_handshakes() const { return !handshake_limits_.empty(); }
  /// Counts a TLS handshake of this client. Whether the listener's `handshake_rate_limits` admit it.
  bool admits_handshake(const PeerAddress& client, std::string_view server_name) const;

  // Called by sessions.
  /// Whether a session that is being reviewed may end itself now: a bounded number may in each step.
  bool may_shed() { return sheds_left_ > 0 && sheds_left_-- > 0; }

  /// A ListenerChoice has ended without a listener.
  void choice_left(Session& choice);
  /// `choice` has found that a connection is for `to`, which takes it over. Next: the choice destroys itself.
  void pass_on(Session& choice, ClientAcceptor& to, ConnectionBalance::Accepted connection);

  void joined(Session& session);
  void left(Session& session);
  /// The session goes on as one of `to`, which has the same limits.
  void moved(Session& session, ClientAcceptor& to);

 private:
  struct SocketListener : Listener {
    SocketListener(ClientAcceptor& acceptor, const ListenSocket& socket);
    const int family;
  };

  void on_accepted(Listener& listener, int fd) override;
  void on_accept_paused(Listener& listener, int error) override;
  void on_handed_over(ConnectionBalance::Accepted connection) override;
  uint32_t accepting() override;
  void refuse(int fd, Refusal reason);
  std::optional<Refusal> refusal_of(int fd);
  void take(ConnectionBalance::Accepted connection);
  void begin(ConnectionBalance::Accepted connection);
  void close_unused(int fd);
  void log_pause(std::string_view why);
  void link(Session& session);
  void unlink(Session& session);
  void visit_all(bool with_moved);
  void visit_some();
  void move_out_some();
  void note_stays();
  void end(Session& session);
  void trim_heap();
  void review_some();

  Context context_;
  const WorkerRateLimits rate_limits_;       // Of connections.
  const WorkerRateLimits handshake_limits_;  // Of TLS handshakes.
  std::vector<std::unique_ptr<SocketListener>> listeners_;
  ConnectionBalance::Member balance_;
  std::unique_ptr<SessionFactory> factory_;
  Session* sessions_ = nullptr;
  ClientAcceptor* successor_ = nullptr;
  Departures* departures_ = nullptr;
  size_t moves_per_ms_ = 0;
  uint64_t drains_at_ms_ = 0;      // When sessions that cannot move out are drained.
  bool stays_counted_ = false;     // That time has come.
  bool leaves_accepting_ = false;  // Another process accepts from the same sockets.
  Timer move_timer_;
  bool draining_ = false;
  bool shut_down_ = false;
  bool ending_ = false;              // Sessions are ended rather than drained.
  Session* next_visited_ = nullptr;  // The next session to move, drain or end.
  size_t requests_to_visit_ = 0;     // Then, the requests below that index.
  YieldingTask visit_task_;
  Session* next_reviewed_ = nullptr;
  Session* next_listed_ = nullptr;
  bool needs_another_round_ = false;  // A session asked for another review during this round.
  Timer review_timer_;
  int sheds_left_ = 0;
  std::unique_ptr<SourceMemory> source_memory_;  // Set during reviews only.
  bool no_room_ = false;
  size_t session_count_ = 0;
  size_t session_peak_ = 0;  // Since the last heap trim.
};

}  // namespace sluice
