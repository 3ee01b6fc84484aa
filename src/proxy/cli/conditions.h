#pragma once

#include <string>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The first condition that a request does not fit, in words; empty if it fits all of them.
std::string why_not(const config::HttpMatch& match, const RequestAttributes& facts);

}  // namespace sluice
