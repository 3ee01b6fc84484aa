#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the values of one HTTP route, independently of other routes: its conditions and its actions. `path` is the
/// route's path.
void check_route_values(const HttpRoute& route, const Paths& paths, const std::string& path, Report& report);

}  // namespace sluice::config
