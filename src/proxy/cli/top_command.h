#pragma once

#include "proxy/cli/arguments.h"

namespace sluice {

/// `sluice top`: shows the figures of a running process in the terminal, once per second, until `q` or a signal ends
/// it. Where standard output is no terminal, it prints them once. Returns the exit code.
int top_command(const Arguments& arguments);

}  // namespace sluice
