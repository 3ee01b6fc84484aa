#pragma once

#include <cstdint>
#include <vector>

#include "proxy/cli/lines.h"
#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Adds what holds of a request that `route` forwards: where to, for how long, how much, how often.
void add_forward_words(const config::Config& config, const config::Http& http, const config::HttpRoute& route,
                       const RequestAttributes& facts, Lines& lines);

/// Those that the route forwards to: one, or each of a `split`.
std::vector<const config::Upstream*> upstreams_of(const config::Config& config, const config::HttpRoute& route);

/// The most that a request's body may have, 0: any.
uint64_t most_body_bytes(const config::Http& http, const config::HttpRoute& route);

}  // namespace sluice
