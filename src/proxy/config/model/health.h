// How it is found out which endpoints are well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// A request of HTTP, in the upstream's protocol.
struct HttpCheck {
  std::string path = "/";
  std::string host;              ///< Empty: the endpoint's address.
  std::vector<uint32_t> status;  ///< Of which the answer's must be one. Empty: any of 2xx and 3xx, as HAProxy has it.
  std::string body;              ///< What must be in its first 64 KiB; empty: anything.

  bool operator==(const HttpCheck&) const = default;
};

/// grpc.health.v1.Health/Check.
struct GrpcCheck {
  std::string service;  ///< Empty: the server as a whole.

  bool operator==(const GrpcCheck&) const = default;
};

/// Checks that are made whether there are requests or not. Without `http` and `grpc` it is enough that a connection can
/// be made.
struct HealthCheck {
  Duration interval = std::chrono::seconds(5);  ///< From one to the next; up to a tenth more.
  Duration timeout = std::chrono::seconds(2);   ///< For all of one.
  uint32_t healthy_after = 2;                   ///< In a row. As Envoy's examples and HAProxy's `rise` have it,
  uint32_t unhealthy_after = 3;                 ///< and its `fall`.
  uint32_t port = 0;                            ///< 0: the endpoint's.
  std::optional<HttpCheck> http;                ///< At most one of the two.
  std::optional<GrpcCheck> grpc;

  bool operator==(const HealthCheck&) const = default;
};

/// Endpoints that fail requests are passed over for a while. The defaults are Envoy's outlier detection's.
struct Ejection {
  uint32_t consecutive_errors = 5;              ///< Answers of 5xx, resets, timeouts and failed connections, in a row.
  uint32_t gateway_errors = 0;                  ///< The same without answers other than 502, 503 and 504. 0 = never.
  Duration time = std::chrono::seconds(30);     ///< For the first time; for the nth in a row n times as long,
  Duration max_time = std::chrono::minutes(5);  ///< but not longer.
  uint32_t max_share = 50;                      ///< Percent of the endpoints that are out at once; never the last.

  bool operator==(const Ejection&) const = default;
};

}  // namespace sluice::config
