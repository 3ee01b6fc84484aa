#pragma once

#include <string>

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
  absl::Status move_to_files(config::Node& tree) const;

 private:
  absl::Status move_source(config::Node& source) const;

  const std::string folder_;
};

}  // namespace sluice::xds
