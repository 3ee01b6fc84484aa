// Creates the handshakes that listeners and upstreams are configured for, and logs their failures.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "alts_like/tls_handshake.h"
#include "net/socket.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/tls/session_cache.h"
#include "proxy/transport/transport.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// Creates in `handshaking` the handshake with a client of the listener. `context` is the listener's current SSL_CTX.
/// `gate`: for TLS, may be null. Precondition: the listener has `tls` or `alts`.
void make_client_handshake(const config::Listener& listener, bssl::UniquePtr<SSL_CTX> context,
                           HandshakerServices& handshakers, const Socket& socket, Handshaking& handshaking,
                           std::unique_ptr<HelloGate> gate = nullptr);

/// Creates in `handshaking` the handshake with an endpoint, with a session from `sessions` if there is one. Returns the
/// generation of the SSL_CTX, for SessionCache::put. Precondition: the upstream has `tls` or `alts`.
uint16_t make_endpoint_handshake(const UpstreamState& upstream, uint32_t endpoint, HandshakerServices& handshakers,
                                 SessionCache& sessions, const Socket& socket, Handshaking& handshaking);

/// Describes a failed handshake with an endpoint: `TLS failed: ERROR`, with the name that was expected. `error`: empty
/// if the endpoint closed.
std::string describe_failure(const config::Upstream& upstream, std::string_view error);

/// Describes a handshake with an endpoint, by `transport`, that took longer than `connect_timeout`.
std::string describe_slow_handshake(const config::Upstream& upstream, const Transport& transport);

/// Logs a TLS or ALTS failure on one side of a connection, within a LogLimit per worker. `client`: the client's
/// address; `whom`: the endpoint's address, or "it" for the client itself.
void log_failure(const Worker& worker, const config::Listener& listener, std::string_view client, bool is_alts,
                 std::string_view whom, std::string_view error);

/// Logs an event of a client's connection, within a LogLimit per worker.
void log_client(const Worker& worker, const config::Listener& listener, std::string_view client, std::string_view what);

}  // namespace sluice
