// The rules that involve more than one key.
#pragma once

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the rules that involve several keys: names are unique and exist, addresses do not collide, marks are in
/// order, and routes are reachable. Findings go to `report` under the value's path.
void validate(const Config& config, Report& report);

}  // namespace sluice::config
