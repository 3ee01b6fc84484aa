#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// The command line: `sluice run | check | explain | schema | version`. Returns the process's exit code: 0, 1 (it could
/// not start, or the configuration has errors) or 2 (the command line is wrong).
int run_command_line(std::span<const std::string_view> arguments);

}  // namespace sluice
