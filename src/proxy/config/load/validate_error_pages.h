#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks the request id, the access log and the error bodies. `path` is the path of the listener's `http`.
void check_error_pages(const Http& http, const std::string& path, Report& report);

}  // namespace sluice::config
