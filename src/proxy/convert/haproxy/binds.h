// The lines `bind` of a frontend as listeners.
#pragma once

#include <string>
#include <vector>

#include "proxy/convert/haproxy/state.h"

namespace sluice::convert::haproxy {

/// Addresses with the same settings: a listener of the result.
struct BindGroup {
  std::vector<std::string> addresses;
  std::string port;  ///< Empty if there are several, or none.
  bool has_tls = false;
  bool is_closed = false;          ///< Clients would be let in that HAProxy keeps out.
  config::Node keys = map_node();  ///< Of the listener: `tls`, `proxy_protocol` and so on.
};

std::vector<BindGroup> read_binds(const Proxy& frontend, State& state);

}  // namespace sluice::convert::haproxy
