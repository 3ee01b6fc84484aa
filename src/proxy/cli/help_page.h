#pragma once

#include <string>

#include "proxy/cli/command_table.h"

namespace sluice {

/// The page of `sluice help`: all commands, in lines of up to 80 columns.
std::string help_overview();
/// The page of `sluice COMMAND --help`.
std::string help_page(const Command& command);
/// docs/reference/command-line.md.
std::string command_line_reference();

}  // namespace sluice
