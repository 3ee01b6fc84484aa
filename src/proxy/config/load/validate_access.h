#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the values of a route's `auth` beyond their types. `path` is the path of `auth`.
void check_auth(const Auth& auth, const std::string& path, Report& report);
/// Checks the values of a route's `cors` beyond their types. `path` is the path of `cors`.
void check_cors(const Cors& cors, const std::string& path, Report& report);

}  // namespace sluice::config
