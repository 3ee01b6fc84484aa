// Checks of the admin listener.
#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the admin listener of `config`, if it has one: that other machines need a token or a certificate, and that no
/// listener has its addresses.
void check_admin(const Config& config, Report& report);

}  // namespace sluice::config
