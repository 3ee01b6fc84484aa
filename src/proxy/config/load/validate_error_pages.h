#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

/// Checks what concerns the identity of requests, the access log, and what clients are told of failures. `path` is that
/// of the listener's `http`.
void check_answers(const Http& http, const std::string& path, Report& report);

}  // namespace sluice::config
