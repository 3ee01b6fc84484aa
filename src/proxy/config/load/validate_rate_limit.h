#pragma once

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the rate limits and where they are named, apart from their own names.
void check_rate_limits(const Config& config, Report& report);

}  // namespace sluice::config
