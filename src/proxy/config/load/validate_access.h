#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// What the values of a route's `auth` and `cors`, which stand at `path`, must be beyond their types.
void check_auth(const Auth& auth, const std::string& path, Report& report);
void check_cors(const Cors& cors, const std::string& path, Report& report);

}  // namespace sluice::config
