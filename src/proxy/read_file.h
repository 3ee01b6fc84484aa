#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

/// All that is in the file. An error names it, and says why. Blocks: not for a worker's thread.
absl::StatusOr<std::string> read_file(const std::string& path);

}  // namespace sluice
