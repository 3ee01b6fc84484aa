// The rules of a proxy, in the order in which a request meets them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/convert/haproxy/condition.h"

namespace sluice::convert::haproxy {

/// What a request that goes on will be changed by.
struct Changes {
  config::Node request_headers = list_node();
  config::Node response_headers = list_node();  ///< Of responses of upstreams.
  config::Node every_response = list_node();    ///< Of the proxy's own, too.
  config::Node rewrite = map_node();
};

struct Step {
  enum class Kind : uint8_t {
    kEnd,      ///< The request ends here, by `out`.
    kChange,   ///< It is changed by `changes`.
    kBackend,  ///< It goes to `backend`.
    kSkip,     ///< It goes on behind the rules for connections.
  };
  Kind kind = Kind::kEnd;
  Condition when;
  config::Node out = map_node();
  Changes changes = {};
  std::string backend = {};
  const Line* line = nullptr;
};

/// The steps of a proxy. Rules that have no counterpart and may keep requests out end them.
std::vector<Step> steps_of(const Proxy& proxy, const Surroundings& around, State& state);

}  // namespace sluice::convert::haproxy
