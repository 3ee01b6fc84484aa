// From YAML to a Config.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/config/load/diagnostics.h"
#include "proxy/config/load/tree_parts.h"
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

/// Loads one tree after the other, and reads and checks only those parts that are not the same as in the one before.
/// The result is that of load_tree(), and so are the findings.
class PartsLoader {
 public:
  /// `defaults`: the values of keys that no part has.
  explicit PartsLoader(Config defaults) : defaults_(std::move(defaults)) {}

  /// `further` checks all of the result. The parts of what was loaded last are kept until the next call that succeeds.
  absl::StatusOr<std::shared_ptr<const Config>> load(TreeParts parts, std::string_view name,
                                                     const FurtherCheck& further = nullptr);

 private:
  const Config defaults_;
  TreeParts known_;  // Of config_.
  std::shared_ptr<const Config> config_;
  std::map<std::string, std::string> http_forwards_;
};

/// Reads the file at `path`, and those that it includes, and parses them as load_text() does. Findings have the name of
/// their file: `path`, or the path of the included file. If the file at `path` cannot be read, returns the system's
/// error as a status (NotFound, PermissionDenied, ...).
absl::StatusOr<Config> load_file(const std::string& path, std::vector<std::string>* warnings = nullptr,
                                 const FurtherCheck& further = nullptr);

}  // namespace sluice::config
