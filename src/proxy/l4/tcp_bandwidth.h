#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/rate_limit/bandwidth.h"
#include "proxy/rate_limit/rate_limiter.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The limits of bandwidth of a TCP listener, on one worker.
class TcpBandwidth {
 public:
  /// Precondition: the limits that `listener.tcp` names are in `all`.
  TcpBandwidth(const config::Listener& listener, const WorkerRateLimits& all);

  bool empty() const { return upload_.empty() && download_.empty(); }
  /// Those of a connection on this route, by what `facts` says of its client, towards the upstream or the client. They
  /// refer to this object.
  Bandwidth upload(const RequestAttributes& facts, uint32_t route) const { return limits_of(upload_, facts, route); }
  Bandwidth download(const RequestAttributes& facts, uint32_t route) const {
    return limits_of(download_, facts, route);
  }

 private:
  Bandwidth limits_of(const WorkerRateLimits& limits, const RequestAttributes& facts, uint32_t route) const;

  const WorkerRateLimits upload_, download_;
  std::vector<uint64_t> route_keys_;  // By route.
};

}  // namespace sluice
