#pragma once

#include "proxy/cli/arguments.h"

namespace sluice {

/// Runs `sluice explain`, and prints the result of explain(). Returns the exit code.
int explain_command(const Arguments& arguments);

}  // namespace sluice
