#pragma once

#include "proxy/config/config.h"
#include "proxy/route/http_facts.h"

namespace sluice {

/// Whether a request fits all conditions of a route but those on host and path, which the router's tables have found.
/// What is not known fits no condition, not even one that is turned around. Allocates nothing.
bool fits_request(const config::HttpMatch& match, const HttpFacts& facts);

}  // namespace sluice
