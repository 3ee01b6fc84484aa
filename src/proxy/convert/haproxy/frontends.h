// Frontends as listeners.
#pragma once

#include "proxy/convert/haproxy/state.h"

namespace sluice::convert::haproxy {

void map_frontend(const Proxy& frontend, State& state);

}  // namespace sluice::convert::haproxy
