// Checks of the parts of an upstream.
#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks an upstream's balancing: the policy, the hash key, the cookie and the endpoints. `path` is the upstream's
/// path.
void check_balancing(const Upstream& upstream, const std::string& path, Report& report);

/// Checks an upstream's health checks and ejection. `path` is the upstream's path.
void check_health(const Upstream& upstream, const std::string& path, Report& report);
/// Checks `adaptive_concurrency`.
void check_concurrency(const Upstream& upstream, const std::string& path, Report& report);

}  // namespace sluice::config
