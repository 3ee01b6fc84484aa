#pragma once

#include <string>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The endpoints of an upstream, and how one of them is chosen.
std::string endpoints_in_words(const config::Upstream& upstream);

/// Which of them a request gets while all are up, and why, where that is no matter of chance; and whether the answer
/// sets a cookie. Empty where there is nothing to tell.
std::string chosen_endpoint(const config::Upstream& upstream, const RequestAttributes& facts);

}  // namespace sluice
