#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// What must hold for an upstream's checks and ejection. `path` is where the upstream stands.
void check_health(const Upstream& upstream, const std::string& path, Report& report);

}  // namespace sluice::config
