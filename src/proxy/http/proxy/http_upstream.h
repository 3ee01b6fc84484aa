#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "net/timer_wheel.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/router/request_attributes.h"
#include "proxy/tls/session_cache.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/retry_budget.h"

namespace sluice {

class HttpServices;
class UpstreamRequest;
class UpstreamConnection;

/// One worker's connections to the endpoints of an upstream. Requests share them: one after the other in HTTP/1.1, many
/// at once in HTTP/2.
class HttpUpstream {
 public:
  HttpUpstream(HttpServices& services, Balancer& balancer, SessionCache& sessions,
               std::vector<EndpointCounters>& endpoint_counters, UpstreamHttpCounters& counters);
  ~HttpUpstream();

  /// Finds a connection for the caller, which is notified of the result: see UpstreamRequest.
  void request(UpstreamRequest& caller);
  /// Adds the sticky cookie for this endpoint to a response, if stickiness is configured and the client does not have
  /// that cookie. Returns false if the head has no room.
  [[nodiscard]] bool keep_client(const RequestAttributes& request, uint32_t endpoint, Fields& response);

  const config::Upstream& config() const { return balancer_.upstream().config(); }
  UpstreamState& state() { return balancer_.upstream(); }
  EndpointCounters& endpoint_counters(uint32_t endpoint) {
    return endpoint_counters_[balancer_.upstream().slots().configured(endpoint)];
  }
  UpstreamHttpCounters& counters() { return counters_; }
  RetryBudgetMeter& retry_budget() { return retry_budget_; }
  /// The endpoint's address, as in logs.
  std::string_view endpoint_name(uint32_t endpoint) const { return balancer_.upstream().slots().text(endpoint); }
  /// The number of endpoints that are present now.
  size_t present() const { return balancer_.view().present().size(); }
  /// Keeps the slot of an endpoint that is in use from being reused until let_go() was called as often. For callers and
  /// connections.
  void hold(uint32_t endpoint) { balancer_.view().hold(endpoint); }
  void let_go(uint32_t endpoint) { balancer_.view().let_go(endpoint); }
  /// Call it when the upstream's names may have resolved to other endpoints: connections to removed endpoints end as
  /// they become free.
  void follow_endpoints();
  HttpServices& services() { return services_; }
  SessionCache& sessions() { return sessions_; }

  /// Ends each connection as it becomes free.
  void close();
  /// Ends all connections now.
  void shut_down();
  bool idle() const { return all_.empty(); }
  /// The number of the newest connection.
  uint64_t newest() const { return newest_; }
  void update_counters();

 private:
  friend class UpstreamConnection;
  /// The connections to one endpoint. An HTTP/1.1 connection is in `idle` while it has no request, the most recently
  /// used one last. An HTTP/2 connection is in `shared` while it accepts more requests.
  struct Endpoint {
    std::vector<UpstreamConnection*> idle;
    std::vector<UpstreamConnection*> shared;
    std::vector<UpstreamConnection*> connecting;
    uint32_t streams = UINT32_MAX;  // The stream limit that the last HTTP/2 connection reported.
  };
  std::optional<uint32_t> choose_endpoint(const UpstreamRequest& caller);
  bool is_present(uint32_t endpoint) const { return balancer_.view().is_present(endpoint); }
  bool speaks_http2() const { return config().protocol == config::Protocol::kHttp2; }
  UpstreamConnection* connect(uint32_t endpoint);
  void leave_unhealthy();

  HttpServices& services_;
  Balancer& balancer_;
  SessionCache& sessions_;
  std::vector<EndpointCounters>& endpoint_counters_;
  UpstreamHttpCounters& counters_;
  Http1Options http1_;
  Http2Limits http2_;
  Http1Counters http1_counters_;
  Http2Counters http2_counters_;
  Http2Codec::Shared http2_shared_;
  RetryBudgetMeter retry_budget_;
  std::vector<Endpoint> endpoints_;
  std::vector<UpstreamConnection*> all_;
  uint64_t newest_ = 0;
  uint64_t followed_;             // Generation of the endpoints that was followed last.
  uint64_t seen_generation_ = 0;  // Generation of the endpoints' health that was seen last.
  uint32_t pending_ = 0;          // Callers waiting for a connection.
  bool closed_ = false;
};

}  // namespace sluice
