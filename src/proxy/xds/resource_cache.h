#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/xds/resource_store.h"

namespace sluice::xds {

/// Keeps the resources that were accepted last in a file, for a start while the control plane is away.
///
/// The file is a DeltaDiscoveryResponse for each kind, one after the other, each behind its size as a 32-bit number in
/// little endian: what the control plane has sent.
absl::Status save_resources(const std::string& path, const ResourceStore& store);
/// Nothing is in the store if there is no such file. An error names the file and its defect.
absl::StatusOr<ResourceStore> load_resources(const std::string& path);

}  // namespace sluice::xds
