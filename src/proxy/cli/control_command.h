// Commands that talk to a running process.
#pragma once

#include "proxy/cli/arguments.h"

namespace sluice {

/// Runs `sluice reload`. Returns the exit code.
int reload_command(const Arguments& arguments);
/// Runs `sluice upgrade`. Returns the exit code.
int upgrade_command(const Arguments& arguments);
/// Runs `sluice diff`. Returns the exit code.
int diff_command(const Arguments& arguments);

}  // namespace sluice
