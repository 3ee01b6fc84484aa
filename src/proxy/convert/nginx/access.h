// Who may send requests to a location: addresses, passwords, authorizers, limits.
#pragma once

#include <map>
#include <string>

#include "proxy/convert/nginx/state.h"

namespace sluice::convert::nginx {

/// The access rules of a location.
struct Access {
  config::Node out = map_node();  ///< Keys of a route.
  bool is_open = true;            ///< False: a rule has no counterpart, so that nobody may be let in.
  /// Names of fields that an authorizer sets, by the variable that has their value.
  std::map<std::string, std::string, std::less<>> authorized_fields;
};

/// `scope`: of the location; `server`: its server's block.
Access map_access(const Scope& scope, const Directive& server, State& state);

/// Reads the zones that `limit_req_zone` and `limit_conn_zone` of the `http` block define.
void read_zones(const Directive& http, State& state);

}  // namespace sluice::convert::nginx
