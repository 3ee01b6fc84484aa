// The header fields that this proxy adds to a forwarded message.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"
#include "proxy/metrics/http_counters.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Where a request came from, and how.
struct Origin {
  const ClientIp& peer;        ///< The peer that sent it to this proxy.
  const ClientIp& client;      ///< The original client: the peer, unless a trusted proxy reports another address.
  std::string_view scheme;     ///< http or https.
  std::string_view authority;  ///< As the client sent it.
  std::string_view listener;   ///< The listener's name.
};

/// Adds X-Forwarded-For, X-Forwarded-Proto, Forwarded, and Via (RFC 9110 section 7.6.3) to a request, as configured. A
/// list that is extended gets the peer, as earlier proxies have added theirs; a list that is replaced gets the client.
/// `via`: from via_of(); `refused`: counts malformed values. Returns false if the head has no room.
[[nodiscard]] bool add_origin(ChunkPool& pool, const config::Http& config, const Origin& origin, std::string_view via,
                              ClaimCounters& refused, Head& request);

/// The value of Via for a message that was received over HTTP/2, or over HTTP/1.1. Empty if no Via is configured.
std::string via_of(const config::Http& config, bool http2);
[[nodiscard]] bool add_via(ChunkPool& pool, std::string_view via, Head& head);

/// Parses a grpc-timeout, at most eight digits and a unit (the gRPC protocol over HTTP/2), into milliseconds. Returns
/// nothing if it is malformed.
std::optional<uint64_t> parse_grpc_timeout(std::string_view value);

/// Whether a request is a gRPC call, judged by its Content-Type. A gRPC call is a POST. Anything else with that type is
/// an ordinary HTTP request, whose client, or a cache, would take the status 200 of a failed call for success.
bool is_grpc(const Head& request);

}  // namespace sluice
