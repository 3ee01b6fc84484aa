#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// Runs `sluice explain` with the arguments after that word, and prints the result of explain(). Returns the exit code,
/// as run_command_line().
int explain_command(std::span<const std::string_view> arguments);

}  // namespace sluice
