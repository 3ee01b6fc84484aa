#include "proxy/l4/tcp_bandwidth.h"

#include <algorithm>

#include "proxy/rate_limit/rate_key.h"

namespace sluice {

TcpBandwidth::TcpBandwidth(const config::Listener& listener, const WorkerRateLimits& all)
    : upload_(rate_limits_named(all, listener.tcp->upload_bandwidth)),
      download_(rate_limits_named(all, listener.tcp->download_bandwidth)) {
  const size_t routes = std::max<size_t>(listener.tcp->routes.size(), 1);
  for (uint32_t i = 0; i < routes; ++i) {
    route_keys_.push_back(rate_key_of_route(RateSecret::of_process(), listener.name, "", i));
  }
}

Bandwidth TcpBandwidth::limits_of(const WorkerRateLimits& limits, const RequestAttributes& facts,
                                  uint32_t route) const {
  const RateKeyPlace place{.route = route_keys_[route], .claim_header = {}};
  Bandwidth made;
  for (const WorkerRateLimit& each : limits) {
    made.add(each, rate_key_of_request(RateSecret::of_process(), each.limiter->key(), place, facts));
  }
  return made;
}

}  // namespace sluice
