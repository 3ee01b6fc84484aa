#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/compression.h"

namespace sluice::config {

/// What of `compression` cannot be meant so. `path`: where it stands.
void check_compression(const Compression& compression, const std::string& path, Report& report);

}  // namespace sluice::config
