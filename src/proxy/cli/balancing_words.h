#pragma once

#include <string>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// Describes an upstream's endpoints and its balancing policy.
std::string endpoints_in_words(const config::Upstream& upstream);

/// Describes which endpoint a request gets while all are up, and why, if the choice is deterministic; and whether the
/// response sets a cookie. Empty if neither applies.
std::string chosen_endpoint(const config::Upstream& upstream, const RequestAttributes& facts);

}  // namespace sluice
