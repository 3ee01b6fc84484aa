// The steps of a frontend and its backends as a list of routes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proxy/convert/haproxy/rules.h"

namespace sluice::convert::haproxy {

/// What requests for a backend meet, and where they go.
struct BackendSteps {
  std::vector<Step> steps;
  std::optional<std::string> upstream;  ///< Nothing: there is no server, so that they get 503.
  config::Node keys = map_node();       ///< Of its routes: `retry` and so on.
};

/// The routes that do the same as the steps. A list of routes stops at the first that is taken, and steps that only
/// change a request do not: behind each condition the rest is there twice, once with the change, and once without.
/// Beyond a number of routes those that are left are closed, which a finding says.
std::vector<Route> routes_of(const std::vector<Step>& steps,
                             const std::function<BackendSteps(const std::string&, const Line&)>& backend, State& state);

}  // namespace sluice::convert::haproxy
