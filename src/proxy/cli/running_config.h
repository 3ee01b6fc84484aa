#pragma once

#include "absl/status/statusor.h"
#include "proxy/cli/arguments.h"
#include "proxy/config/model/config.h"

namespace sluice {

/// The configuration of the process whose admin listener `--against` names, without its secrets. The error is for the
/// user.
absl::StatusOr<config::Config> running_config(const Arguments& arguments);

/// The configuration as running_config() would have it: comparing both, secrets do not differ.
absl::StatusOr<config::Config> without_secrets(const config::Config& config);

}  // namespace sluice
