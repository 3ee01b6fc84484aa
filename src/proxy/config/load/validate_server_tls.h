#pragma once

#include <string>

#include "proxy/config/load/diagnostics.h"
#include "proxy/config/model/listener_tls.h"

namespace sluice::config {

/// Checks that the keys of `tls` at `path`, of a listener or the admin listener, fit together.
void check_server_tls(const ListenerTls& tls, const std::string& path, Report& report);

}  // namespace sluice::config
