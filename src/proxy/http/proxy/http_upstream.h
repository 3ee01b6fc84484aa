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

class HttpWorker;
class UpstreamRequest;
class UpstreamConnection;

/// One worker's connections to an upstream's endpoints, which requests share: in HTTP/1.1 one after the other, in
/// HTTP/2 many at once.
class HttpUpstream {
 public:
  HttpUpstream(HttpWorker& worker, Balancer& balancer, SessionCache& sessions,
               std::vector<EndpointCounters>& endpoint_counters, UpstreamHttpCounters& counters);
  ~HttpUpstream();

  /// Finds a connection for the caller: see UpstreamRequest.
  void request(UpstreamRequest& caller);
  /// Adds a cookie to a response of this endpoint, if there are to be some and the client has none of it. False when
  /// there is no room.
  [[nodiscard]] bool keep_client(const RequestAttributes& request, uint32_t endpoint, Fields& response);

  const config::Upstream& config() const { return balancer_.upstream().config(); }
  UpstreamState& state() { return balancer_.upstream(); }
  EndpointCounters& endpoint_counters(uint32_t endpoint) {
    return endpoint_counters_[balancer_.upstream().slots().configured(endpoint)];
  }
  UpstreamHttpCounters& counters() { return counters_; }
  RetryBudgetMeter& retry_budget() { return retry_budget_; }
  /// Its address, as in logs.
  std::string_view endpoint_name(uint32_t endpoint) const { return balancer_.upstream().slots().text(endpoint); }
  /// So many there are now.
  size_t present() const { return balancer_.view().present().size(); }
  /// It is used, and so stays what it is, until it is let go as often. For callers and connections.
  void hold(uint32_t endpoint) { balancer_.view().hold(endpoint); }
  void let_go(uint32_t endpoint) { balancer_.view().let_go(endpoint); }
  /// Names may stand for other endpoints than before: connections to those that are gone end as they become free.
  void follow_endpoints();
  HttpWorker& worker() { return worker_; }
  SessionCache& sessions() { return sessions_; }

  /// Ends connections as they become free.
  void close();
  /// Ends them now.
  void shut_down();
  bool idle() const { return all_.empty(); }
  /// The number of the connection that was made last.
  uint64_t newest() const { return newest_; }
  void update_counters();

 private:
  friend class UpstreamConnection;
  /// Connections to one endpoint. Those of HTTP/1.1 are in `idle` while they have no request, the last one used at its
  /// end; those of HTTP/2 are in `shared` while they take more.
  struct Endpoint {
    std::vector<UpstreamConnection*> idle;
    std::vector<UpstreamConnection*> shared;
    std::vector<UpstreamConnection*> connecting;
    uint32_t streams = UINT32_MAX;  // That the last connection of HTTP/2 was allowed to have.
  };
  std::optional<uint32_t> choose_endpoint(const UpstreamRequest& caller);
  bool is_present(uint32_t endpoint) const { return balancer_.view().is_present(endpoint); }
  bool speaks_http2() const { return config().protocol == config::Protocol::kHttp2; }
  UpstreamConnection* connect(uint32_t endpoint);
  void leave_unhealthy();

  HttpWorker& worker_;
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
  uint64_t followed_;             // Generation of the endpoints,
  uint64_t seen_generation_ = 0;  // and of their health.
  uint32_t pending_ = 0;          // Callers that wait for a connection.
  bool closed_ = false;
};

}  // namespace sluice
