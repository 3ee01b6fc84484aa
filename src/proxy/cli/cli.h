#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// Runs the command line, without the name of the program. Returns the process's exit code. The commands and their exit
/// codes are in all_commands(); 2 if the command line is wrong.
int run_command_line(std::span<const std::string_view> arguments);

}  // namespace sluice
