#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// What must hold for how an upstream's endpoints are chosen. `path` is where the upstream stands.
void check_balancing(const Upstream& upstream, const std::string& path, Report& report);

}  // namespace sluice::config
