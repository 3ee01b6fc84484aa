#pragma once

#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proxy/config/load/yaml.h"

namespace sluice::xds {

/// Certificates and keys that a control plane sends, as files, since the configuration names files. A file is named by
/// the hash of its contents and never changes; only its owner may read it.
class SecretFiles {
 public:
  /// `folder` is created with the first file.
  explicit SecretFiles(std::string folder) : folder_(std::move(folder)) {}

  /// Replaces each `inline_bytes` and `inline_string` of the certificates, keys and authorities in `tree` by the
  /// `filename` of a file with these contents.
  absl::Status move_to_files(config::Node& tree) { return move_to_files(tree, named_); }
  /// The same. Adds the names of the files to `files`; name() makes them count.
  absl::Status move_to_files(config::Node& tree, std::set<std::string>& files);
  /// Whether move_to_files() would change `tree`.
  static bool has_inline_sources(const config::Node& tree);
  /// A tree names these files.
  void name(const std::set<std::string>& files) { named_.insert(files.begin(), files.end()); }
  /// Removes the files that no tree named since the last call of one of these two functions.
  void keep_named();
  void forget_named() { named_.clear(); }

 private:
  absl::Status move_source(config::Node& source, std::set<std::string>& files);

  const std::string folder_;
  std::set<std::string> named_;  // The names of files.
};

}  // namespace sluice::xds
