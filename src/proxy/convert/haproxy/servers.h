// The lines `server` and `server-template` of a backend.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "proxy/convert/haproxy/state.h"

namespace sluice::convert::haproxy {

/// The servers of a backend, and what they say that Sluice has for an upstream.
struct Servers {
  config::Node endpoints = list_node();
  bool has_backup = false;
  bool is_checked = false;
  config::Node check = map_node();  ///< Keys of `health_check`.
  config::Node tls = map_node();
  bool has_tls = false;
  bool speaks_http2 = false;
  bool usable = true;  ///< False: some server's TLS cannot be said, so that none may be used.
  std::string proxy_protocol;
  std::string max_connections;
  std::string slow_start;
  std::string resolvers;
  std::string max_addresses;
};

Servers read_servers(const Proxy& backend, State& state);

}  // namespace sluice::convert::haproxy
