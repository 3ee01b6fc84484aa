#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "net/listener.h"
#include "net/worker.h"
#include "proxy/config/config.h"
#include "proxy/l4/router.h"
#include "proxy/l4/session.h"
#include "proxy/limits/connection_limits.h"
#include "proxy/stats/l4_counters.h"
#include "proxy/tls/tls_context.h"
#include "proxy/upstream/balancer.h"

namespace sluice {

/// A listener's state that all workers share.
struct ListenerState {
  ListenerState(const config::Listener& listener, const std::vector<config::Upstream>& upstreams)
      : config(listener),
        connections(listener.max_connections),
        sources(listener.max_connections_per_source),
        router(listener.tcp, upstreams) {}
  const config::Listener& config;
  ConnectionLimit connections;
  SourceLimit sources;
  TcpRouter router;
  std::unique_ptr<TlsServerContext> tls;  ///< Where TLS is terminated.
};

/// One worker's share of a TCP listener: accepts, applies the limits, and owns the sessions.
class L4Acceptor final : public Listener::Owner {
 public:
  struct Context {
    Worker& worker;
    ConnectionLimit& global_connections;
    ListenerState& listener;
    std::vector<std::unique_ptr<Balancer>>& balancers;  ///< The worker's, by upstream.
    WorkerCounters& counters;
    size_t listener_index;
    uint32_t descriptor_room = UINT32_MAX;  ///< Connections (of two descriptors each) that the process has room for.
  };
  /// Takes the listening descriptor.
  L4Acceptor(Context context, int listen_fd, bool shared);
  ~L4Acceptor();

  void start() { listener_.start(); }
  /// Stops accepting; sessions go on.
  void stop_accepting() { listener_.stop(); }
  bool idle() const { return listener_.stopped() && sessions_ == nullptr; }
  /// Ends the sessions that are left.
  void shut_down();

  Worker& worker() { return context_.worker; }
  ListenerState& listener() { return context_.listener; }
  const config::Tcp& tcp() const { return context_.listener.config.tcp; }
  ListenerCounters& counters() { return context_.counters.listeners[context_.listener_index]; }
  EndpointCounters& endpoint_counters(uint32_t upstream, uint32_t endpoint) {
    return context_.counters.upstreams[upstream][endpoint];
  }
  Balancer& balancer(uint32_t upstream) { return *context_.balancers[upstream]; }

  // For sessions.
  void joined(L4Session& session);
  void left(L4Session& session);
  /// Whether a session that is stuck with data should give way now: memory is short, and no other just has.
  bool should_give_way(uint64_t now_ms);

 private:
  void on_accepted(Listener& listener, int fd) override;
  void on_accept_paused(Listener& listener, int error) override;
  Listener::Accepting accepting() override;
  void refuse(int fd, Refusal reason);
  void trim_heap();

  Context context_;
  Listener listener_;
  L4Session* sessions_ = nullptr;
  bool no_room_ = false;
  uint64_t gave_way_ms_ = 0;
  size_t session_count_ = 0;
  size_t session_peak_ = 0;  // Since the heap was trimmed last.
};

}  // namespace sluice
