#pragma once

#include <string>
#include <vector>

#include "proxy/config/model/config.h"

namespace sluice {

/// Returns the header fields that carry a client's authenticated identity to upstreams: those with claims of a token,
/// those of an authorizer's response (but for credentials such as Authorization, which only the routes with
/// `forward_auth` remove), and those made of %{peer}. They are removed from clients' requests on every route of the
/// listener.
std::vector<std::string> reserved_headers(const config::Http& http);

/// Returns the fields that clients may not send as trailer fields, where nothing checks them: the reserved headers,
/// those with credentials (jwt.header), those that `request_headers` of any route set, add or remove, and those of ids
/// (request_id, and traceparent and tracestate unless trace_context is off).
std::vector<std::string> reserved_trailers(const config::Http& http);

}  // namespace sluice
