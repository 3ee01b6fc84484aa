// From a Config to YAML.
#pragma once

#include <string>

#include "proxy/config/model/config.h"

namespace sluice::config {

/// The whole configuration as YAML, every default spelled out; load_text() reads it back to an equal Config.
std::string print_config(const Config& config);

}  // namespace sluice::config
