// From YAML to a Config.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Looks at a Config that is valid by itself, for findings that concern more than the text: files that it names.
using FurtherCheck = std::function<void(const Config&, Report&)>;

/// Reads `text`, one YAML document of at most 4 MiB. All findings are reported at once: InvalidArgument with one line
/// for each, `NAME:LINE:COLUMN: what is wrong, what was expected, what to do`, in the order of the file. A Config that
/// is returned has passed validate(). What is allowed there but probably not meant goes to `warnings`, a line each.
absl::StatusOr<Config> load_text(std::string_view text, std::string_view name,
                                 std::vector<std::string>* warnings = nullptr, const FurtherCheck& further = nullptr);

/// load_text() on the content of the file at `path`, under that name. A file that cannot be read gives the system's
/// error as a status (NotFound, PermissionDenied, ...).
absl::StatusOr<Config> load_file(const std::string& path, std::vector<std::string>* warnings = nullptr,
                                 const FurtherCheck& further = nullptr);

}  // namespace sluice::config
