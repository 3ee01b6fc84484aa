// From YAML to a Config.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/yaml.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// A further check of a Config that has passed validate(), for findings beyond its text, such as unreadable files.
using FurtherCheck = std::function<void(const Config&, Report&)>;

/// Parses `text`, one YAML document of at most 4 MiB. It cannot `include` files, since it has no folder. A Config that
/// is returned has passed validate(). All findings are reported together: InvalidArgument with one line for each,
/// `NAME:LINE:COLUMN: what is wrong, what was expected, what to do`, in file order. Probable mistakes in a valid
/// configuration go to `warnings`, one line each.
absl::StatusOr<Config> load_text(std::string_view text, std::string_view name,
                                 std::vector<std::string>* warnings = nullptr, const FurtherCheck& further = nullptr);

/// The same for a tree that a program has made. It may have no listeners.
absl::StatusOr<Config> load_tree(const Node& root, std::string_view name, const FurtherCheck& further = nullptr);

/// Reads the file at `path`, and those that it includes, and parses them as load_text() does. Findings have the name of
/// their file: `path`, or the path of the included file. If the file at `path` cannot be read, returns the system's
/// error as a status (NotFound, PermissionDenied, ...).
absl::StatusOr<Config> load_file(const std::string& path, std::vector<std::string>* warnings = nullptr,
                                 const FurtherCheck& further = nullptr);

}  // namespace sluice::config
