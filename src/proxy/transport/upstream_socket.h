#pragma once

#include "proxy/config/model/config.h"

namespace sluice {

/// Opens a socket of this address family with the options of `upstream`. Returns -1 with errno on failure.
int open_upstream_socket(const config::Upstream& upstream, int family);

}  // namespace sluice
