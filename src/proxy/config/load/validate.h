// The rules that concern more than one key.
#pragma once

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks what no single key can tell: names are unique and exist, addresses do not collide, marks are in order, routes
/// can be reached. Findings go to `report` under the value's path.
void validate(const Config& config, Report& report);

}  // namespace sluice::config
