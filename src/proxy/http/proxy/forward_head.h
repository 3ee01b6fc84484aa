// What a head says behind this proxy that it did not say before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"
#include "proxy/metrics/http_counters.h"

namespace sluice {

/// By whom a request came, and how.
struct Origin {
  const ClientIp& peer;        ///< Who sent it to us,
  const ClientIp& client;      ///< and for whom: the same, unless trusted proxies tell of another.
  std::string_view scheme;     ///< http or https.
  std::string_view authority;  ///< As the client wrote it.
  std::string_view listener;   ///< Its name.
};

/// Adds X-Forwarded-For and -Proto, Forwarded, and Via (RFC 9110 section 7.6.3), to a request, as it is configured.
/// What is added to tells of the peer, as those before us have told of theirs; what is replaced, of the client. `via`:
/// as via_of() made it; `refused`: counts what was malformed. False when there is no room.
[[nodiscard]] bool add_origin(ChunkPool& pool, const config::Http& config, const Origin& origin, std::string_view via,
                              ClaimCounters& refused, Head& request);

/// What Via says of a message that was received in HTTP/2, or in HTTP/1.1; empty where nothing is to be said.
std::string via_of(const config::Http& config, bool http2);
[[nodiscard]] bool add_via(ChunkPool& pool, std::string_view via, Head& head);

/// The milliseconds of a grpc-timeout: at most eight digits and a unit (the gRPC protocol over HTTP/2). Nothing if it
/// is malformed.
std::optional<uint64_t> parse_grpc_timeout(std::string_view value);

/// Whether a request is gRPC's, by its Content-Type. A call of gRPC is a POST: anything else with that type is an HTTP
/// request as any other, and its client, or a cache, would take the status 200 of a failed call for success.
bool is_grpc(const Head& request);

}  // namespace sluice
