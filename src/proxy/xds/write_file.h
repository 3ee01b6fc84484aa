#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice::xds {

/// Replaces the file by one with these contents, at once: a reader, or a crash, sees the old file or the new one. Only
/// its owner may read it. Creates its folder if need be. An error names the file and the reason.
absl::Status write_file(const std::string& path, std::string_view contents);

}  // namespace sluice::xds
