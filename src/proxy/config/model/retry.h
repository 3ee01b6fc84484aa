// When a request is sent again, and where copies and shares of requests go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// What a request is sent again for. Whatever it says, nothing is sent again of which the client has seen something, or
/// whose body is gone.
enum class RetryOn : uint8_t {
  kConnectFailure,  ///< No connection could be made.
  kRefused,  ///< The endpoint says that it has not looked at it (REFUSED_STREAM, GOAWAY; a reused connection ended).
  kReset,    ///< The connection or stream ended without a response. Idempotent methods only.
  kTimeout,  ///< Nothing was answered within `try_timeout`. Idempotent methods only.
  k5xx,      ///< A response of 5xx. Idempotent methods only.
  kGatewayError,  ///< The same of 502, 503 and 504 only.
  /// A gRPC call that ended with this status before anything else. Whatever the method, which is always POST.
  kGrpcUnavailable,
  kGrpcResourceExhausted,  ///< The same.
};

/// Sending again.
struct Retry {
  std::vector<RetryOn> on;  ///< Empty: kConnectFailure and kRefused.
  uint32_t attempts = 2;    ///< In all, the first among them.
  Duration try_timeout{
      0};  ///< From the end of the request to the head of the response, of one attempt. 0: as long as there is.
  Duration backoff =
      std::chrono::milliseconds(25);  ///< Before the second attempt at most, at random; doubled with each,
  Duration max_backoff = std::chrono::milliseconds(250);  ///< up to so much. Both as Envoy has them.
  /// Without an answer for so long, a second endpoint is asked the same, and who answers first is taken. 0: never.
  /// Idempotent methods only.
  Duration hedge_after{0};

  bool operator==(const Retry&) const = default;
};

/// How many attempts may be repetitions, so that many failures do not become a storm. Of one upstream, on one worker.
struct RetryBudget {
  uint32_t percent = 20;  ///< Of the requests under way and of those of the last ten seconds.
  uint32_t min = 100;     ///< In ten seconds, whatever the percentage comes to.

  bool operator==(const RetryBudget&) const = default;
};

/// A share of a route's requests.
struct SplitTarget {
  std::string forward;  ///< Name of an upstream.
  uint32_t weight = 1;

  bool operator==(const SplitTarget&) const = default;
};

/// Copies of a route's requests, whose answers nobody waits for.
struct Mirror {
  std::string to;          ///< Name of an upstream.
  uint32_t percent = 100;  ///< Of the requests.

  bool operator==(const Mirror&) const = default;
};

}  // namespace sluice::config
