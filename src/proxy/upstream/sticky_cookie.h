// A cookie that names the endpoint which has answered before.
#pragma once

#include <cstdint>
#include <optional>

#include "pool/chunk_pool.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"
#include "proxy/upstream/endpoint_set.h"

namespace sluice {

/// The endpoint that the request's cookie names, if there is one of that name.
std::optional<uint32_t> find_sticky(const config::Sticky& sticky, const EndpointSet& endpoints, const Fields& request);

/// Adds Set-Cookie to a response of this endpoint (RFC 6265 section 4.1), with `Secure` if the client's connection is.
/// False when there is no room.
[[nodiscard]] bool add_sticky(ChunkPool& pool, const config::Sticky& sticky, const EndpointSet& endpoints,
                              uint32_t endpoint, bool secure, Fields& response);

}  // namespace sluice
