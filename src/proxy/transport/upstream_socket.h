#pragma once

#include "proxy/config/model/config.h"

namespace sluice {

/// A socket of this address family with the options that `upstream` asks for; -1 and errno if there is none to be had.
int open_upstream_socket(const config::Upstream& upstream, int family);

}  // namespace sluice
