// Health checks and ejection of endpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// A health check by HTTP request, in the upstream's protocol.
struct HttpCheck {
  std::string path = "/";
  std::string host;              ///< Empty: the endpoint's address.
  std::vector<uint32_t> status;  ///< Accepted statuses. Empty: 2xx and 3xx, as in HAProxy.
  std::string body;              ///< Text that must be in the first 64 KiB of the response body; empty: no check.

  bool operator==(const HttpCheck&) const = default;
};

/// A health check by grpc.health.v1.Health/Check.
struct GrpcCheck {
  std::string service;  ///< Empty: the server as a whole.

  bool operator==(const GrpcCheck&) const = default;
};

/// Active health checks, made independently of requests. Without `http` and `grpc`, a successful connect is enough.
struct HealthCheck {
  Duration interval = std::chrono::seconds(5);  ///< From one check to the next, plus up to 10% of jitter.
  Duration timeout = std::chrono::seconds(2);   ///< For one whole check.
  uint32_t healthy_after = 2;                   ///< Consecutive passes. As in Envoy's examples and HAProxy's `rise`.
  uint32_t unhealthy_after = 3;                 ///< Consecutive failures. As HAProxy's `fall`.
  uint32_t port = 0;                            ///< 0: the endpoint's.
  std::optional<HttpCheck> http;                ///< At most one of `http` and `grpc` is set.
  std::optional<GrpcCheck> grpc;

  bool operator==(const HealthCheck&) const = default;
};

/// Temporary ejection of endpoints that fail requests. The defaults are those of Envoy's outlier detection.
struct Ejection {
  uint32_t consecutive_errors = 5;              ///< Consecutive 5xx responses, resets, timeouts and failed connections.
  uint32_t gateway_errors = 0;                  ///< As above, but of responses only 502, 503 and 504 count. 0 = never.
  Duration time = std::chrono::seconds(30);     ///< For the first ejection; the nth in a row lasts n times as long.
  Duration max_time = std::chrono::minutes(5);  ///< Longest ejection.
  uint32_t max_share = 50;                      ///< Percent of endpoints ejected at the same time; never the last one.

  bool operator==(const Ejection&) const = default;
};

}  // namespace sluice::config
