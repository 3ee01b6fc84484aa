#pragma once

#include <cstdint>
#include <vector>

#include "proxy/cli/lines.h"
#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Adds a description of how `route` forwards a request: upstreams, endpoints, timeouts, limits, buffering and retries.
void add_forward_words(const config::Config& config, const config::Http& http, const config::HttpRoute& route,
                       const RequestAttributes& facts, Lines& lines);

/// The upstreams that the route forwards to: one, or each of a `split`.
std::vector<const config::Upstream*> upstreams_of(const config::Config& config, const config::HttpRoute& route);

/// The largest request body that the route accepts, in bytes; 0: unlimited.
uint64_t max_body_bytes(const config::Http& http, const config::HttpRoute& route);

}  // namespace sluice
