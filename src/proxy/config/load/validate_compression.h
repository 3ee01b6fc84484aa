#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/compression.h"

namespace sluice::config {

/// Reports values of `compression` that cannot be intended. `path` is the path of `compression`.
void check_compression(const Compression& compression, const std::string& path, Report& report);

}  // namespace sluice::config
