#pragma once

#include <string>

#include "proxy/config/config.h"
#include "proxy/config/report.h"

namespace sluice::config {

/// What must hold for an upstream's checks and ejection. `path` is where the upstream stands.
void check_health(const Upstream& upstream, const std::string& path, Report& report);

}  // namespace sluice::config
