#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "net/listener.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/http/http_listener.h"
#include "proxy/http/http_worker.h"
#include "proxy/limits/connection_limits.h"
#include "proxy/limits/source_memory.h"
#include "proxy/listener/listener_state.h"
#include "proxy/listener/session.h"
#include "proxy/stats/l4_counters.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

/// One worker's share of a listener: accepts, applies the limits, and owns the sessions.
class ClientAcceptor final : public Listener::Owner {
 public:
  struct Context {
    Worker& worker;
    ConnectionLimit& global_connections;
    ListenerState& listener;
    std::vector<std::unique_ptr<Balancer>>& balancers;  ///< The worker's, by upstream.
    std::vector<SessionCache>& tls_sessions;            ///< Likewise.
    HandshakerServices& handshakers;                    ///< The worker's.
    WorkerCounters& counters;
    size_t listener_index;
    HttpWorker* http = nullptr;  ///< The worker's. Not null for a listener that speaks HTTP.
    AccessLogWriter* access_log = nullptr;
    uint32_t descriptor_room = UINT32_MAX;  ///< Connections (of two descriptors each) that the process has room for.
    uint64_t other_backlogs = 0;            ///< What may wait at the process's other acceptors, on all workers.
  };
  /// Takes the listening descriptor.
  ClientAcceptor(Context context, int listen_fd, bool shared);
  ~ClientAcceptor();

  void start() { listener_.start(); }
  /// Stops accepting; sessions go on.
  void stop_accepting();
  bool idle() const { return listener_.stopped() && sessions_ == nullptr; }
  /// Lets sessions end as soon as nothing is under way in them.
  void drain();
  /// Ends the sessions that are left.
  void shut_down();
  /// Copies what only the worker knows into its counters.
  void update_counters();

  Worker& worker() { return context_.worker; }
  ListenerState& listener() { return context_.listener; }
  const config::Tcp& tcp() const { return *context_.listener.config.tcp; }
  ListenerCounters& counters() { return context_.counters.listeners[context_.listener_index]; }
  EndpointCounters& endpoint_counters(uint32_t upstream, uint32_t endpoint) {
    return context_.counters.upstreams[upstream][balancer(upstream).upstream().slots().configured(endpoint)];
  }
  Balancer& balancer(uint32_t upstream) { return *context_.balancers[upstream]; }
  HttpWorker* http_worker() { return context_.http; }
  HttpListener* http() { return http_.get(); }
  HandshakerServices& handshakers() { return context_.handshakers; }
  SessionCache& tls_sessions(uint32_t upstream) { return context_.tls_sessions[upstream]; }

  /// Reviews what sessions hold, a few at a time, until memory is no longer short.
  void review_memory();
  /// What reviews have counted for each source; null while memory is not short.
  SourceMemory* source_memory() { return source_memory_.get(); }

  // For sessions.
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
  std::unique_ptr<HttpListener> http_;
  Session* sessions_ = nullptr;
  Session* next_reviewed_ = nullptr;
  bool review_again_ = false;  // A session asked for it since the list was begun.
  Timer review_timer_;
  std::unique_ptr<SourceMemory> source_memory_;  // During reviews.
  bool no_room_ = false;
  size_t session_count_ = 0;
  size_t session_peak_ = 0;  // Since the heap was trimmed last.
};

}  // namespace sluice
