#pragma once

#include <string>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/server/landlock.h"

namespace sluice {

/// What a process with `sandbox` may open: the folders of all files that its configuration names, so that these can be
/// replaced and rotated, and what the program and its libraries need. `files`: those that the configuration is made of.
AllowedFiles sandbox_files(const config::Config& config, const std::vector<std::string>& files);

}  // namespace sluice
