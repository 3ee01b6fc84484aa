#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "alts_like/secret_bytes.h"

namespace sluice {

/// All that is in the file. An error names it, and says why. Blocks: not for a worker's thread.
absl::StatusOr<std::string> read_file(const std::string& path);

/// The same for a file that holds secrets: no copy of what was read stays behind in memory.
absl::StatusOr<SecretBytes> read_secret_file(const std::string& path);

}  // namespace sluice
