#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "alts_like/secret_bytes.h"

namespace sluice {

/// Returns the contents of the file. An error names the file and the reason. Blocks: not for a worker thread.
absl::StatusOr<std::string> read_file(const std::string& path);

/// Like read_file(), for a file that holds secrets: leaves no other copy of the contents in memory.
absl::StatusOr<SecretBytes> read_secret_file(const std::string& path);

}  // namespace sluice
