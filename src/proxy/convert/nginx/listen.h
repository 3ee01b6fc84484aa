// The sockets of nginx's servers, and which servers share one.
#pragma once

#include <string>
#include <vector>

#include "proxy/convert/nginx/state.h"

namespace sluice::convert::nginx {

/// Sockets on which the same servers listen in the same way: a listener of the result.
struct ServerGroup {
  std::vector<std::string> addresses;
  std::vector<const Directive*> servers;  ///< The first is the default server.
  const Directive* listen = nullptr;      ///< The first of its directives.
  std::string port;                       ///< Empty for Unix sockets.
  bool has_tls = false;
  bool has_http2 = false;
  bool has_proxy_protocol = false;
  bool ipv6_only = false;
  std::string backlog = {};
};

/// The groups of the `server` blocks in `context`: `http` or `stream`.
std::vector<ServerGroup> server_groups(const Directive& context, State& state);

}  // namespace sluice::convert::nginx
