// What is different between two configurations.
#pragma once

#include <string>

#include "proxy/config/model/config.h"

namespace sluice::config {

/// Describes the changes from `old` to `now` for the user: which listeners and upstreams are added, removed or changed,
/// by name, and the changed keys as print_config() writes them, behind `-` and `+`, below the keys around them. Empty
/// if the configurations are equal.
std::string diff_configs(const Config& old, const Config& now);

}  // namespace sluice::config
