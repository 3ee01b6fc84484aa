#pragma once

#include <vector>

#include "proxy/auth/auth_files.h"
#include "proxy/common/connection_limits.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/router/http_router.h"
#include "proxy/router/tcp_router.h"
#include "proxy/tls/current_context.h"

namespace sluice {

/// The state of one listener that all workers share. `config` outlives it.
struct ListenerState {
  ListenerState(const config::Listener& listener, const std::vector<config::Upstream>& upstreams)
      : config(listener),
        connections(listener.max_connections),
        sources(listener.max_connections_per_source),
        router(listener.tcp ? TcpRouter(*listener.tcp, upstreams) : TcpRouter()),
        http_router(listener.http ? HttpRouter(*listener.http, upstreams) : HttpRouter()),
        error_pages(listener.http ? ErrorPages(*listener.http) : ErrorPages()),
        handshakes(listener.tls    ? listener.tls->max_handshakes
                   : listener.alts ? listener.alts->max_handshakes
                                   : 0) {}
  /// Whether clients begin with a handshake.
  bool terminates() const { return config.tls || config.alts; }
  config::Duration handshake_timeout() const {
    return config.tls ? config.tls->handshake_timeout : config.alts->handshake_timeout;
  }
  const config::Listener& config;
  ConnectionLimit connections;
  SourceLimit sources;
  TcpRouter router;
  HttpRouter http_router;
  ErrorPages error_pages;
  ConnectionLimit handshakes;  ///< Handshakes in progress.
  CurrentContext tls;          ///< For listeners that terminate TLS, or ALTS with certificates.
  SharedAuth auth;             ///< Access rules from the files that the routes name.
};

}  // namespace sluice
