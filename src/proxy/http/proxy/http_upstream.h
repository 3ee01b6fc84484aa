#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "proxy/http/proxy/upstream_pool.h"
#include "proxy/router/request_attributes.h"
#include "proxy/upstream/retry_budget.h"

namespace sluice {

class ConcurrencyLimit;
class UpstreamCaller;

/// One worker's access to an upstream: it chooses the endpoint and the connection for each request. Requests share the
/// connections: one after the other in HTTP/1.1, many at once in HTTP/2.
class HttpUpstream : public UpstreamPool {
 public:
  HttpUpstream(HttpServices& services, std::shared_ptr<WorkerUpstream> upstream);
  ~HttpUpstream();

  /// A new connection, which owns itself. One that came from another process continues with read_state().
  UpstreamConnection& add_connection(uint32_t endpoint);
  /// Finds a connection for the caller, which is notified of the result: see UpstreamRequest.
  void request(UpstreamCaller& caller);
  /// Whether the caller may make another attempt.
  bool attempts_left(const UpstreamCaller& caller) const;
  /// Adds the sticky cookie for this endpoint to a response, if stickiness is configured and the client does not have
  /// that cookie. Returns false if the head has no room.
  [[nodiscard]] bool keep_client(const RequestAttributes& request, uint32_t endpoint, Fields& response);

  RetryBudgetMeter& retry_budget() { return retry_budget_; }
  /// Null unless `adaptive_concurrency` is configured.
  ConcurrencyLimit* concurrency() { return concurrency_.get(); }
  /// How many requests wait for a connection.
  uint32_t pending() const { return pending_; }
  /// Whether nothing is left: no connection, and no request that waits.
  bool idle() const;
  /// The endpoint's address, as in logs.
  std::string_view endpoint_name(uint32_t endpoint) const { return balancer_.upstream().slots().text(endpoint); }
  /// The number of endpoints that are present now.
  size_t present() const { return balancer_.view().present().size(); }
  /// Call it when the upstream's names may have resolved to other endpoints: connections to removed endpoints end as
  /// they become free.
  void follow_endpoints();

  /// Ends each connection as it becomes free.
  void close();
  /// Ends all connections now.
  void shut_down();
  /// The number of the newest connection.
  uint64_t newest() const { return newest_; }

 private:
  std::optional<uint32_t> choose_endpoint(const UpstreamCaller& caller);
  UpstreamConnection& connect(uint32_t endpoint);
  void leave_unhealthy();

  RetryBudgetMeter retry_budget_;
  std::unique_ptr<ConcurrencyLimit> concurrency_;
  uint64_t newest_ = 0;
  uint64_t followed_;             // Generation of the endpoints that was followed last.
  uint64_t seen_generation_ = 0;  // Generation of the endpoints' health that was seen last.
};

}  // namespace sluice
