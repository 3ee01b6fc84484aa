#pragma once

#include <span>
#include <string_view>

namespace sluice {

/// `sluice explain`, with what follows it: prints what explain() says. Returns the exit code, as run_command_line().
int explain_command(std::span<const std::string_view> arguments);

}  // namespace sluice
