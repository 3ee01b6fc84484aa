#pragma once

#include <string>
#include <vector>

#include "proxy/config/config.h"

namespace sluice {

/// Fields in which upstreams are told who a client has proven to be: those with claims of a token, and those made of
/// %{peer}. No client may say one of them, on any route of the listener.
std::vector<std::string> own_fields(const config::Http& http);

}  // namespace sluice
