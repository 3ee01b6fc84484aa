// Backends as upstreams.
#pragma once

#include <optional>
#include <string>

#include "proxy/convert/haproxy/program.h"

namespace sluice::convert::haproxy {

/// The name of the upstream with the servers of a backend; nothing if it has none, which a finding says. `is_http`:
/// whether requests go to it, or bytes.
std::optional<std::string> upstream_of(const Proxy& backend, bool is_http, State& state);

/// Keys of all routes to a backend: `retry`.
config::Node route_keys(const Proxy& backend, State& state);

}  // namespace sluice::convert::haproxy
