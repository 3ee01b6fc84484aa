#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// Runs the command line `sluice run | check | explain | schema | version`. Returns the process's exit code: 0, 1
/// (start-up failed, or the configuration has errors) or 2 (the command line is wrong).
int run_command_line(std::span<const std::string_view> arguments);

}  // namespace sluice
