// What a head says behind this proxy that it did not say before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/config/config.h"
#include "proxy/http/head.h"

namespace sluice {

/// Adds X-Forwarded-For and -Proto, and Via (RFC 9110 section 7.6.3), to a request. `client`: its IP address, empty for
/// one that has none; `via`: as via_of() made it. False when there is no room.
[[nodiscard]] bool add_forwarded(ChunkPool& pool, config::ForwardedFor forwarded_for, std::string_view client,
                                 bool secure, std::string_view via, Head& request);

/// What Via says of a message that was received in HTTP/2, or in HTTP/1.1; empty where nothing is to be said.
std::string via_of(const config::Http& config, bool http2);
[[nodiscard]] bool add_via(ChunkPool& pool, std::string_view via, Head& head);

/// The milliseconds of a grpc-timeout: at most eight digits and a unit (the gRPC protocol over HTTP/2). Nothing if it
/// is malformed.
std::optional<uint64_t> parse_grpc_timeout(std::string_view value);

/// Whether a request is gRPC's, by its Content-Type.
bool is_grpc(const Head& request);

/// The value of Date for now (RFC 9110 section 6.6.1). Good until the next call on this thread.
std::string_view http_date();

}  // namespace sluice
