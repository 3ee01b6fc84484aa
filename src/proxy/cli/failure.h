#pragma once

#include <cstdio>
#include <string_view>

namespace sluice {

/// Prints an error for the user to standard error. Returns `code`, the exit code of the command.
inline int fail(int code, std::string_view message) {
  std::fprintf(stderr, "sluice: %.*s\n", static_cast<int>(message.size()), message.data());
  return code;
}

}  // namespace sluice
