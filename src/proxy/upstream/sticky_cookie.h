// A cookie that names the endpoint of a client's earlier responses.
#pragma once

#include <cstdint>
#include <optional>

#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"
#include "proxy/upstream/endpoint_set.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// Returns the endpoint that the request's cookie names, or nullopt if the cookie is missing or names none.
std::optional<uint32_t> find_sticky(const config::Sticky& sticky, const EndpointSet& endpoints, const Fields& request);

/// Adds Set-Cookie (RFC 6265 section 4.1) for `endpoint` to a response, with the attribute `Secure` if `secure`.
/// Returns false if there is no room.
[[nodiscard]] bool add_sticky(ChunkPool& pool, const config::Sticky& sticky, const EndpointSet& endpoints,
                              uint32_t endpoint, bool secure, Fields& response);

}  // namespace sluice
