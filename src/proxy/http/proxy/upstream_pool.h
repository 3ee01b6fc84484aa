#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/listener/worker_upstream.h"

namespace sluice {

class HttpServices;
class UpstreamConnection;

/// One worker's connections to the endpoints of an upstream, and what they share. A connection enters itself into the
/// lists where requests find it, and leaves them.
class UpstreamPool {
 public:
  const config::Upstream& config() const { return upstream_->state->config(); }
  bool speaks_http2() const { return config().protocol == config::Protocol::kHttp2; }
  UpstreamState& state() { return *upstream_->state; }
  const std::shared_ptr<WorkerUpstream>& upstream() const { return upstream_; }
  EndpointCounters& endpoint_counters(uint32_t endpoint) { return upstream_->counters_of(endpoint); }
  UpstreamHttpCounters& counters() { return counters_; }
  UpstreamLatencies& latencies() { return latencies_; }
  bool is_present(uint32_t endpoint) const { return balancer_.view().is_present(endpoint); }
  /// Keeps the slot of an endpoint that is in use from being reused until let_go() was called as often. For callers and
  /// connections.
  void hold(uint32_t endpoint) { balancer_.view().hold(endpoint); }
  void let_go(uint32_t endpoint) { balancer_.view().let_go(endpoint); }
  HttpServices& services() { return services_; }
  SessionCache& sessions() { return upstream_->tls_sessions; }
  /// Whether no connection exists, not even one that is to be destroyed at the end of the turn.
  bool idle() const { return existing_ == 0; }

 protected:
  UpstreamPool(HttpServices& services, std::shared_ptr<WorkerUpstream> upstream);
  ~UpstreamPool();

  friend class UpstreamConnection;  // It keeps the lists.
  /// The connections to one endpoint. An HTTP/1.1 connection is in `idle` while it has no request, the most recently
  /// used one last. An HTTP/2 connection is in `shared` while it accepts more requests.
  struct Endpoint {
    std::vector<UpstreamConnection*> idle;
    std::vector<UpstreamConnection*> shared;
    std::vector<UpstreamConnection*> connecting;
    uint32_t streams = UINT32_MAX;  // The stream limit that the last HTTP/2 connection reported.
  };

  HttpServices& services_;
  const std::shared_ptr<WorkerUpstream> upstream_;
  Balancer& balancer_;
  UpstreamHttpCounters& counters_;
  UpstreamLatencies& latencies_;
  Http1Options http1_;
  Http2Limits http2_;
  Http2Codec::Shared http2_shared_;
  std::vector<Endpoint> endpoints_;
  std::vector<UpstreamConnection*> all_;
  size_t existing_ = 0;   // Those of all_, and those that are to be destroyed at the end of the turn.
  uint32_t pending_ = 0;  // Callers waiting for a connection.
  bool closed_ = false;
};

}  // namespace sluice
