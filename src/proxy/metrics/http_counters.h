#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "proxy/common/counter.h"
#include "proxy/compression/content_coding.h"
#include "proxy/config/model/overload.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/limits.h"

namespace sluice {

/// How a request ended. Each request has exactly one reason, whose name appears in the access log and in the counters.
enum class HttpEnd : uint8_t {
  kOk,                 ///< The complete response was sent, whatever its status.
  kClientReset,        ///< The client closed the connection or reset the stream.
  kBadRequest,         ///< The request is malformed, for example in its body. 400
  kBadPath,            ///< The path has no canonical form that is allowed. 400
  kNoRoute,            ///< No route matches. 404
  kMisdirected,        ///< The host belongs to another listener of the address. 421
  kNotAllowed,         ///< A CONNECT or an upgrade that is not supported here. 501
  kForbidden,          ///< The client's address or a preflight's origin is not allowed. 403
  kUnauthorized,       ///< The client's credentials are missing or invalid. 401
  kAuthBusy,           ///< Too many password checks are pending. 503
  kAuthRefused,        ///< The authorizer (`forward_auth`) refused the request; the client got its response.
  kAuthFailed,         ///< The authorizer did not respond in time, or not properly. 503
  kRateLimited,        ///< A rate limit refused the request. 429
  kRateLimitFailed,    ///< The service of global rate limits did not respond in time, or not properly. 503
  kMaintenance,        ///< The route is down for maintenance. 503
  kNoEndpoint,         ///< Every endpoint is full, or the connection attempts are used up. 503
  kNotResolved,        ///< The upstream has no endpoint: its names resolve to no address. 503
  kTooManyPending,     ///< Too many requests wait for a connection. 503
  kConcurrencyLimit,   ///< The upstream has as many requests as `adaptive_concurrency` allows. 503
  kUpstreamReset,      ///< The endpoint ended the response before it was complete. 502
  kUpstreamMalformed,  ///< The response is malformed. 502
  kUpstreamRefused,    ///< The endpoint does not support the request, such as a websocket over HTTP/2. 502
  kResponseTimeout,    ///< The endpoint sent no response in time. 504
  kBodyTimeout,        ///< The client did not send the request body in time. 408
  kBodyTooLarge,       ///< The request body is larger than the limit. 413
  kSendTimeout,        ///< The client did not read the response in time.
  kOverload,        ///< The worker had too many requests (503), or the client's connection was closed for its memory.
  kStuck,           ///< Queued data did not move while memory was short. 503
  kIdleTimeout,     ///< No data moved in either direction for too long.
  kRequestTimeout,  ///< The request as a whole took too long. 504
  kDeadline,        ///< The deadline of a gRPC client passed. 504, or the grpc-status for it.
  kShutdown,        ///< The request was still in progress when the drain timeout expired.
  kMoved,           ///< It is a tunnel, which continues in the process that replaces this one.
};
inline constexpr int kHttpEndCount = 33;
const char* http_end_name(HttpEnd end);

/// The counters of the codecs on one side, a listener's or an upstream's.
struct CodecCounters {
  Http1Counters http1;
  Http2Counters http2;
};
/// A counter of a codec, and its name in the statistics.
template <class Counters>
struct NamedCounter {
  std::string_view name;
  Counter Counters::* member;
};
/// All counters of the codecs.
std::span<const NamedCounter<Http1Counters>> http1_counters();
std::span<const NamedCounter<Http2Counters>> http2_counters();

/// Header fields in which a request claims its origin or identity. A value that is malformed or incomplete is not
/// believed, and is counted.
enum class Claim : uint8_t { kForwardedFor, kForwardedProto, kForwarded, kRequestId, kTraceParent };
inline constexpr int kClaimCount = 5;
using ClaimCounters = std::array<Counter, kClaimCount>;
/// The name of the header field; `request-id` for kRequestId, whose field name is configurable.
const char* claim_name(Claim claim);

/// What came of a request to an authorizer (`forward_auth`, `ext_authz`).
enum class ForwardAuthResult : uint8_t {
  kAllowed,    ///< 2xx; of a CheckResponse, the status OK.
  kRefused,    ///< Any other status.
  kFailed,     ///< No endpoint, a lost connection, or a response that is too large.
  kTimeout,    ///< No response in time.
  kCancelled,  ///< The client's request ended first.
};
inline constexpr int kForwardAuthResultCount = 5;
const char* forward_auth_result_name(ForwardAuthResult result);

/// What came of a call of the service of global rate limits.
enum class GlobalRateLimitResult : uint8_t {
  kOk,
  kOverLimit,
  kError,      ///< No endpoint, a lost connection, a status of gRPC other than OK, or no proper response.
  kTimeout,    ///< No response in time.
  kCancelled,  ///< The client's request ended first.
};
inline constexpr int kGlobalRateLimitResultCount = 5;
const char* global_rate_limit_result_name(GlobalRateLimitResult result);

/// Counters for bodies that are buffered.
struct BodyFileCounters {
  Counter written_bytes;  ///< Bytes written to the body file.
  Counter refused;        ///< Writes that the body file refused.
};

/// The counters of one worker for one HTTP listener.
struct HttpCounters {
  Counter connections_h1, connections_h2;
  Counter requests;
  std::array<Counter, 6> statuses;  ///< Responses by the first digit of their status.
  std::array<Counter, kHttpEndCount> ended;
  Counter request_bytes;           ///< Bytes of request bodies.
  Counter response_bytes;          ///< Bytes of response bodies.
  Counter retries;                 ///< Further attempts, on the same or another endpoint.
  Counter tunnels;                 ///< Websockets and CONNECT.
  Counter header_timeouts;         ///< Connections whose head or preface did not arrive in time.
  Counter trailer_fields_dropped;  ///< Trailer fields of requests; see reserved_trailers().
  Counter memory_pauses;           ///< Pauses in reading because a connection held more than its memory share.
  ClaimCounters claims_refused;
  // Paths that were accepted or changed because an option of config::Paths allows it.
  Counter paths_changed, slashes_merged, slashes_escaped, backslashes, dot_parameters;
  std::array<Counter, kContentCodings> compressed;  ///< Compressed responses, by content coding.
  Counter compression_refused;  ///< Responses not compressed because too many were being compressed.
  Counter compression_in_bytes, compression_out_bytes;
  BodyFileCounters body_file;
  std::array<Counter, kForwardAuthResultCount> forward_auth;  ///< Requests to authorizers, by result.
  Counter forward_auth_unchecked;                             ///< Requests that went on as `on_failure` is `allow`.
  std::array<Counter, kGlobalRateLimitResultCount> global_rate_limits;  ///< Calls of the service, by result.
  Counter trace_spans_exported;                                         ///< Spans that the collector took.
  Counter trace_spans_lost;     ///< Spans whose request to the collector failed.
  Counter trace_spans_dropped;  ///< Spans for which there was no room.
  CodecCounters codecs;
};

/// The counters of one worker for one HTTP upstream.
struct UpstreamHttpCounters {
  Counter requests;
  Counter connections_opened, connections_reused;
  Counter connections_stale;  ///< Idle connections found closed before a request was sent on them.
  Counter pending_refused;
  Counter mirrored;             ///< Copies of requests sent to this upstream.
  Counter mirrors_given_up;     ///< Copies given up because the upstream did not accept them in time.
  Counter retries;              ///< Retries that were sent.
  Counter retries_over_budget;  ///< Retries that the retry budget refused.
  Counter hedges;               ///< Hedges: copies sent to a second endpoint while the first was slow.
  Counter hedges_won;           ///< Hedges whose response was used.
  Counter reconnects;           ///< Further attempts after a connection could not be made.
  Counter waited;               ///< Requests that had to wait for a connection.
  Counter waiting;              ///< Those that wait now.
  Counter timeouts;             ///< Requests that ended with HttpEnd::kResponseTimeout.
  /// Responses by the first digit of their status: those that were passed on, and those that the proxy gave because the
  /// upstream had none.
  std::array<Counter, 6> statuses;
  // Of `adaptive_concurrency`; copied periodically, but for the first.
  std::array<Counter, config::kPriorityCount> limit_refused;  ///< Requests that were refused, by priority.
  Counter limit, limit_in_flight, limit_waiting;
  Counter limit_base_us;  ///< The latency without load.
  CodecCounters codecs;
};

}  // namespace sluice
