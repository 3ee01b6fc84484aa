#pragma once

#include "proxy/cli/arguments.h"

namespace sluice {

/// `sluice admin`: sends one request to the admin listener of a running process and prints the response. Returns the
/// exit code.
int admin_command(const Arguments& arguments);

}  // namespace sluice
