#pragma once

#include <string>

namespace sluice {

/// Returns the man page sluice(1), in the macros of man(7).
std::string manual_page();

}  // namespace sluice
