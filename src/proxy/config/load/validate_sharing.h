#pragma once

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks `server_names`, and that listeners which share their addresses can.
void check_sharing(const Config& config, Report& report);

}  // namespace sluice::config
