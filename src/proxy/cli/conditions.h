#pragma once

#include <string>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Describes the first condition that a request does not meet; empty if it meets all.
std::string why_not(const config::HttpMatch& match, const RequestAttributes& facts);

}  // namespace sluice
