// The handshakes that listeners and upstreams are configured for.
#pragma once

#include <cstdint>
#include <string_view>

#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/tls/session_cache.h"
#include "proxy/transport/transport.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// Puts in `handshaking` the one that the listener's clients begin with. `context` is the listener's current one.
/// Precondition: the listener has `tls` or `alts`.
void make_client_handshake(const config::Listener& listener, bssl::UniquePtr<SSL_CTX> context,
                           HandshakerServices& handshakers, const Socket& socket, Handshaking& handshaking);

/// The same for an endpoint, with a session from `sessions` where there is one. Returns the generation of the context,
/// for SessionCache::put.
uint16_t make_endpoint_handshake(const UpstreamState& upstream, uint32_t endpoint, HandshakerServices& handshakers,
                                 SessionCache& sessions, const Socket& socket, Handshaking& handshaking);

/// Logs what went wrong on one side of a connection, within a LogLimit of each worker. `client`: its address; `whom`:
/// an endpoint's, or `it` for the client itself.
void log_failure(const Worker& worker, const config::Listener& listener, std::string_view client, bool is_alts,
                 std::string_view whom, std::string_view error);

/// Logs what became of a client's connection, or why, within a LogLimit of each worker.
void log_client(const Worker& worker, const config::Listener& listener, std::string_view client, std::string_view what);

}  // namespace sluice
