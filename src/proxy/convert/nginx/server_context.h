// The server of nginx whose locations are mapped, on one listener.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "proxy/convert/common/request_set.h"
#include "proxy/convert/nginx/state.h"
#include "proxy/convert/nginx/values.h"

namespace sluice::convert::nginx {

struct ServerContext {
  State& state;
  const Directive& block;
  Scope scope;  ///< Of the server.
  bool has_tls = false;
  FixedVariables fixed;
  config::Node& http;  ///< Of the listener: what its routes need is added.
  std::chrono::milliseconds tunnel_timeout{0};
  std::set<const Directive*> pages = {};  ///< Locations that hold a page of `error_page`.
};

/// What becomes of the requests of a block whose rules have no counterpart.
inline config::Node closed_node() { return respond_node(403); }
/// What becomes of those for which there is nothing that could respond.
inline config::Node unavailable_node() { return respond_node(503); }

}  // namespace sluice::convert::nginx
