#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "net/listener.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/source_memory.h"
#include "proxy/listener/listener_state.h"
#include "proxy/listener/session.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

class ClientAcceptor;

/// Makes the sessions of one listener on one worker. The factory outlives its sessions.
class SessionFactory {
 public:
  virtual ~SessionFactory() = default;
  /// Makes the session of an accepted connection. The session owns itself and joins `acceptor`. Takes ownership of the
  /// descriptor.
  virtual void start(ClientAcceptor& acceptor, int fd) = 0;
  /// Starts no session from now on. Existing sessions continue.
  virtual void stop() {}
  /// See ClientAcceptor::update_counters().
  virtual void update_counters() {}
};

/// One worker's share of a listener: accepts connections, applies the limits, and holds the list of sessions.
class ClientAcceptor final : public Listener::Owner {
 public:
  struct Context {
    Worker& worker;
    ConnectionLimit& global_connections;
    ListenerState& listener;
    std::vector<std::unique_ptr<Balancer>>& balancers;  ///< The worker's balancers, by upstream.
    std::vector<SessionCache>& tls_sessions;            ///< The worker's TLS sessions, by upstream.
    HandshakerServices& handshakers;                    ///< The worker's handshaker services.
    WorkerCounters& counters;
    size_t listener_index;
    uint32_t descriptor_room = UINT32_MAX;  ///< Connections (of two descriptors each) that the process has room for.
    uint64_t other_backlogs = 0;  ///< Connections that may wait at the process's other acceptors, on all workers.
  };
  /// Takes ownership of the listening descriptor.
  ClientAcceptor(Context context, std::unique_ptr<SessionFactory> factory, int listen_fd, bool shared);
  ~ClientAcceptor();

  void start() { listener_.start(); }
  /// Stops accepting. Existing sessions continue.
  void stop_accepting();
  bool idle() const { return listener_.stopped() && sessions_ == nullptr; }
  /// Ends each session as soon as it has nothing in progress.
  void drain();
  /// Ends the remaining sessions now.
  void shut_down();
  /// Copies the counts that only this worker holds into its counters.
  void update_counters();

  Worker& worker() { return context_.worker; }
  ListenerState& listener() { return context_.listener; }
  const config::Tcp& tcp() const { return *context_.listener.config.tcp; }
  ListenerCounters& counters() { return context_.counters.listeners[context_.listener_index]; }
  EndpointCounters& endpoint_counters(uint32_t upstream, uint32_t endpoint) {
    return context_.counters.upstreams[upstream][balancer(upstream).upstream().slots().configured(endpoint)];
  }
  Balancer& balancer(uint32_t upstream) { return *context_.balancers[upstream]; }
  HandshakerServices& handshakers() { return context_.handshakers; }
  SessionCache& tls_sessions(uint32_t upstream) { return context_.tls_sessions[upstream]; }

  /// Reviews the memory that sessions hold, a few sessions at a time, until memory is no longer short.
  void review_memory();
  /// The memory that reviews have counted for each source. Null while memory is not short.
  SourceMemory* source_memory() { return source_memory_.get(); }

  // Called by sessions.
  /// Whether a session that is being reviewed may end itself now: a bounded number may in each step.
  bool may_shed() { return sheds_left_ > 0 && sheds_left_-- > 0; }

  void joined(Session& session);
  void left(Session& session);

 private:
  void on_accepted(Listener& listener, int fd) override;
  void on_accept_paused(Listener& listener, int error) override;
  Listener::Accepting accepting() override;
  void refuse(int fd, Refusal reason);
  void trim_heap();
  void review_some();

  Context context_;
  Listener listener_;
  std::unique_ptr<SessionFactory> factory_;
  Session* sessions_ = nullptr;
  Session* next_reviewed_ = nullptr;
  bool needs_another_round_ = false;  // A session asked for another review during this round.
  Timer review_timer_;
  int sheds_left_ = 0;
  std::unique_ptr<SourceMemory> source_memory_;  // Set during reviews only.
  bool no_room_ = false;
  size_t session_count_ = 0;
  size_t session_peak_ = 0;  // Since the last heap trim.
};

}  // namespace sluice
