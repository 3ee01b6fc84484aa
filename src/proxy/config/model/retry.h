// Retries, hedging and mirrors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proxy/config/model/units.h"

namespace sluice::config {

/// A reason to retry a request. A request is never retried once the client has received part of a response, or when its
/// body is not available anymore.
enum class RetryOn : uint8_t {
  kConnectFailure,  ///< No connection could be established.
  kRefused,         ///< The endpoint did not process the request (REFUSED_STREAM, GOAWAY; a reused connection ended).
  kReset,           ///< The connection or stream ended without a response. Idempotent methods only.
  kTimeout,         ///< No response within `try_timeout`. Idempotent methods only.
  k5xx,             ///< A 5xx response. Idempotent methods only.
  kGatewayError,    ///< A 502, 503 or 504 response. Idempotent methods only.
  /// A gRPC call that ended with status UNAVAILABLE in a trailers-only response. Any method: gRPC always uses POST.
  kGrpcUnavailable,
  kGrpcResourceExhausted,  ///< As kGrpcUnavailable, for status RESOURCE_EXHAUSTED.
  kStatusCode,             ///< One of Retry::retriable_status_codes, which stands for this word: `on` cannot have it.
};

/// Retries and hedging.
struct Retry {
  std::vector<RetryOn> on;                       ///< Empty: kConnectFailure and kRefused.
  std::vector<uint32_t> retriable_status_codes;  ///< Further responses, from 400 to 599. Idempotent methods only.
  uint32_t attempts = 2;                         ///< In total, including the first.
  /// Bound on one attempt, from the end of the request to the head of the response. 0: only response_timeout applies.
  Duration try_timeout{0};
  /// Upper bound of the random wait before the second attempt; doubled for each further attempt. As in Envoy.
  Duration backoff = std::chrono::milliseconds(25);
  /// Largest value that `backoff` is doubled to. As in Envoy.
  Duration max_backoff = std::chrono::milliseconds(250);
  /// If no response arrives within this time, the request is also sent to a second endpoint, and the first response is
  /// used. 0: never. Idempotent methods only.
  Duration hedge_after{0};

  bool operator==(const Retry&) const = default;
};

/// Bound on the retries to one upstream, on one worker, so that failures do not cause a retry storm.
struct RetryBudget {
  uint32_t percent = 20;  ///< Of the requests in progress and those of the last ten seconds.
  uint32_t min = 100;     ///< Retries always allowed in ten seconds, even if `percent` yields fewer.

  bool operator==(const RetryBudget&) const = default;
};

/// An upstream that gets copies of a route's requests. Its responses are dropped.
struct Mirror {
  std::string to;          ///< Name of an upstream.
  uint32_t percent = 100;  ///< Of the requests.

  bool operator==(const Mirror&) const = default;
};

}  // namespace sluice::config
