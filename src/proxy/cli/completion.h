#pragma once

#include <string>
#include <string_view>

namespace sluice {

/// Returns the script that completes commands, options and their values in a shell: "bash", "zsh" or "fish".
std::string completion_script(std::string_view shell);

}  // namespace sluice
