#pragma once

#include "proxy/cli/arguments.h"

namespace sluice {

/// `sluice convert`. Returns the exit code.
int convert_command(const Arguments& arguments);

}  // namespace sluice
