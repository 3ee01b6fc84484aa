// The files of a configuration, as one tree: `include` names more files in any of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/yaml.h"

namespace sluice::config {

inline constexpr std::string_view kIncludeKey = "include";

/// Bounds on included files. Those of yaml.h are for all files together.
inline constexpr size_t kMaxFiles = 256;       ///< With the configuration's own.
inline constexpr size_t kMaxIncludeDepth = 4;  ///< Files that include each other in a chain, without the first.

/// Parses `text` into `root`. `include` is a finding, because a text has no folder. Returns false if `root` is not
/// usable.
bool read_text(std::string_view text, Node& root, Report& report);

/// Reads the file at `path`, whose name is in `report`, and all that it includes, into `root`. Lists at the top level
/// are appended, in the order of the files: each stands before those that it includes. Any other key may be in one file
/// only. Returns whether `root` is usable, or the system's error if the file itself cannot be read. What is wrong with
/// an included file is a finding.
absl::StatusOr<bool> read_files(const std::string& path, Node& root, Report& report);

}  // namespace sluice::config
