#pragma once

#include <string>

#include "proxy/config/model/config.h"

namespace sluice {

/// How many listeners and upstreams a reload adds, removes and changes, for the log.
std::string describe_changes(const config::Config& old, const config::Config& now);

/// The files that a reload has read besides the configuration, for the log; empty if there are none.
std::string reloaded_files(const config::Config& config);

}  // namespace sluice
