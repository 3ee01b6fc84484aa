#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "proxy/auth/auth_files.h"
#include "proxy/common/connection_limits.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/listener/connection_balance.h"
#include "proxy/router/http_router.h"
#include "proxy/router/tcp_router.h"
#include "proxy/tls/current_context.h"

namespace sluice {

/// What the limits of a listener count, on all workers. Listeners of the same name in successive configurations share
/// it.
struct ListenerLimits {
  explicit ListenerLimits(const config::Listener& listener) { set(listener); }

  ConnectionLimit connections{0};
  ConnectionLimit choices{
      0};  ///< Connections that it has accepted for the listeners of its address, until one is chosen.
  SourceLimit sources{0};
  ConnectionLimit handshakes{0};  ///< Handshakes in progress.

  /// Sets the limits that `listener` configures.
  void set(const config::Listener& listener) {
    connections.set_limit(listener.max_connections);
    choices.set_limit(listener.max_connections);
    sources.set_limit(listener.max_connections_per_source);
    handshakes.set_limit(listener.tls    ? listener.tls->max_handshakes
                         : listener.alts ? listener.alts->max_handshakes
                                         : 0);
  }
};

/// The state of one listener of a configuration that all workers share.
struct ListenerState {
  /// `shared`: the limits of the listener that it replaces. Without one it makes its own. `workers`: how many accept.
  ListenerState(config::Snapshot<config::Listener> listener, const std::vector<config::Upstream>& upstreams,
                std::shared_ptr<ListenerLimits> shared = nullptr, unsigned workers = 1)
      : config(std::move(listener)),
        limits(shared ? std::move(shared) : std::make_shared<ListenerLimits>(*config)),
        router(config->tcp ? TcpRouter(*config->tcp, upstreams) : TcpRouter()),
        http_router(config->http ? HttpRouter(*config->http, upstreams) : HttpRouter()),
        error_pages(config->http ? ErrorPages(*config->http) : ErrorPages()),
        forwarding(forwarding_of(*config)),
        balance(workers) {}
  /// Whether clients begin with a handshake.
  bool terminates() const { return config->tls || config->alts; }
  config::Duration handshake_timeout() const {
    return config->tls ? config->tls->handshake_timeout : config->alts->handshake_timeout;
  }
  const config::Snapshot<config::Listener> config;
  const std::shared_ptr<ListenerLimits> limits;
  TcpRouter router;
  HttpRouter http_router;
  ErrorPages error_pages;
  CurrentContext tls;  ///< For listeners that terminate TLS, or ALTS with certificates.
  SharedAuth auth;     ///< Access rules from the files that the routes name.
  /// How connections without HTTP are forwarded: as `tcp` says, or with `http` as its tunnels are.
  const config::Tcp forwarding;
  ConnectionBalance balance;

 private:
  static config::Tcp forwarding_of(const config::Listener& listener) {
    if (listener.tcp) return *listener.tcp;
    config::Tcp tunnels;
    if (!listener.http) return tunnels;
    tunnels.idle_timeout = listener.http->tunnel_timeout;
    tunnels.stuck_timeout = listener.http->stuck_timeout;
    tunnels.buffer_high = listener.http->buffer_high;
    tunnels.buffer_low = {tunnels.buffer_high.bytes / 2};
    return tunnels;
  }
};

}  // namespace sluice
