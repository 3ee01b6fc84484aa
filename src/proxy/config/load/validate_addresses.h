#pragma once

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the addresses of all listeners: that each can be listened at, and that two listeners have the same one, or
/// one that includes the other, only where they can share it.
void check_addresses(const Config& config, Report& report);

}  // namespace sluice::config
