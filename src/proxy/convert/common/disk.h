// The files that a conversion reads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice::convert {

/// How files are read: from the disk, or, in tests, from memory.
struct Disk {
  std::function<absl::StatusOr<std::string>(const std::string& path)> read;
  /// The paths that fit a pattern with `*`, `?` and `[ ]`, in order.
  std::function<std::vector<std::string>(const std::string& pattern)> matches;
};

Disk real_disk();

}  // namespace sluice::convert
