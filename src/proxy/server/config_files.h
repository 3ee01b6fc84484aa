#pragma once

#include <string>
#include <vector>

#include "proxy/config/model/config.h"

namespace sluice {

/// The files that a configuration names and that a reload reads: certificates, keys, passwords, error pages and so on.
std::vector<std::string> files_of(const config::Config& config);

/// The files that logs are written to.
std::vector<std::string> log_files_of(const config::Config& config);

}  // namespace sluice
