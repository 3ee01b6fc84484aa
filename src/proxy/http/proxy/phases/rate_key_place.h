#pragma once

#include <string>
#include <vector>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/rate_limit/rate_key.h"

namespace sluice {

/// What the route of a phase tells about the keys of a limit there.
RateKeyPlace place_of_route(const PhaseSetup& setup, const config::RateKey& key);

/// The names of the listener, then those of the route (null: there is none) that are not among them.
std::vector<std::string> names_of_both(const std::vector<std::string>& listener, const std::vector<std::string>* route);

}  // namespace sluice
