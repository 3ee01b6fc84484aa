// Which server gets the requests for a host.
#pragma once

#include <string>
#include <vector>

#include "proxy/convert/nginx/listen.h"

namespace sluice::convert::nginx {

/// Hosts whose requests a server gets.
struct HostsOfServer {
  const Directive* server = nullptr;  ///< nullptr: what these hosts get is not known.
  std::vector<std::string> hosts;     ///< None: all that are left.
};

/// The servers of an address in the order in which nginx looks for a name: exact names, stars, the longest first,
/// expressions, and the default server.
std::vector<HostsOfServer> hosts_of_group(const ServerGroup& group, State& state);

}  // namespace sluice::convert::nginx
