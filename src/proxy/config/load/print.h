// From a Config to YAML.
#pragma once

#include <string>

#include "proxy/config/model/config.h"

namespace sluice::config {

/// Prints the whole configuration as YAML, defaults included. load_text() reads it back to an equal Config.
std::string print_config(const Config& config);

}  // namespace sluice::config
