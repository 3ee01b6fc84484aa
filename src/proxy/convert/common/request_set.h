// Routes as a conversion makes them: sets of requests, in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/load/yaml.h"
#include "proxy/convert/common/path_set.h"
#include "proxy/convert/common/yaml_writer.h"

namespace sluice::convert {

/// The requests for which all of these hold.
struct RequestSet {
  std::vector<std::string> hosts;  ///< Patterns, one of which matches the host. Empty: all hosts.
  PathSet path;
  std::vector<std::string> methods;
  std::vector<std::string> sources;  ///< Ranges of addresses.
  config::Node headers = list_node();
  config::Node query = list_node();

  bool has_other_conditions() const {
    return !methods.empty() || !sources.empty() || !headers.items.empty() || !query.items.empty();
  }
};

/// What became of a set that was narrowed.
enum class Narrowing : uint8_t {
  kDone,
  kEmpty,    ///< No request is in both.
  kUnknown,  ///< It cannot be said with the conditions of a route; the set is as it was.
};

/// Leaves in `set` the requests that are in `by`, too.
Narrowing narrow(RequestSet& set, const RequestSet& by);

/// Whether each host that `narrow` fits is one that `wide` fits.
bool host_covers(std::string_view wide, std::string_view narrow);

/// A route without its `match`.
struct Route {
  RequestSet when;
  config::Node out = map_node();
};

/// Leaves out routes that are never taken, as routes before them take their requests: they are a mistake in a
/// configuration.
void drop_untaken(std::vector<Route>& routes);

/// The value of `routes`.
config::Node routes_node(const std::vector<Route>& routes);

/// A route that sends this status, perhaps with a line of text.
config::Node respond_node(int status, std::string_view body = "");

}  // namespace sluice::convert
