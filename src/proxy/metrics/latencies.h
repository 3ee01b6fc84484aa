// What is measured in LatencyHistograms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/metrics/latency_histogram.h"

namespace sluice {

/// Times of requests from their head on.
struct RequestLatencies {
  LatencyHistogram duration;    ///< To the end of the request. Tunnels have none: they last as long as they are used.
  LatencyHistogram first_byte;  ///< To the head of the final response, as it was passed to the client's connection.
};

/// The times of the requests of one HTTP listener, by route. A route with a name has its own; those without a name, and
/// requests without a route, share one.
struct RouteLatencies {
  /// Only so many routes have their own, so that a listener has a bounded number of series.
  static constexpr size_t kMaxNamed = 100;

  explicit RouteLatencies(const config::Listener& listener);
  /// For the configuration of a listener that replaces `old`, whose times are `before`: a route keeps the times of the
  /// route of its name.
  RouteLatencies(const config::Listener& listener, const config::Listener& old, const RouteLatencies& before);

  /// Whether the route at this index has its own.
  bool has_own(size_t route) const { return by_route[route] != others; }

  std::shared_ptr<RequestLatencies> others = std::make_shared<RequestLatencies>();
  std::vector<std::shared_ptr<RequestLatencies>> by_route;  ///< By index of the route; of many routes, `others`.
};

/// Times of the connections and requests to one upstream.
struct UpstreamLatencies {
  LatencyHistogram connect;   ///< From the beginning of a connection until it can be used. Failures have none.
  LatencyHistogram queue;     ///< From when a request needs a connection until it has one.
  LatencyHistogram whole;     ///< From when the client's request was complete until the response was.
  LatencyHistogram response;  ///< From when a request has been passed on until the head of its final response arrives.
};

}  // namespace sluice
