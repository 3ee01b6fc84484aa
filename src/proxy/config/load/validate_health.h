#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks an upstream's health checks and ejection. `path` is the upstream's path.
void check_health(const Upstream& upstream, const std::string& path, Report& report);

}  // namespace sluice::config
