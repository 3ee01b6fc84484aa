#pragma once

#include <string>

#include "proxy/config/config.h"
#include "proxy/route/http_facts.h"

namespace sluice {

/// The first condition that a request does not fit, in words; empty if it fits all of them.
std::string why_not(const config::HttpMatch& match, const HttpFacts& facts);

}  // namespace sluice
