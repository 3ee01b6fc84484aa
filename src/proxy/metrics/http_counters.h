#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "proxy/common/counter.h"
#include "proxy/compression/content_coding.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/limits.h"

namespace sluice {

/// How a request ended. Each has exactly one; the words are in the access log and in the counters.
enum class HttpEnd : uint8_t {
  kOk,                 ///< The response went out whole, whatever its status.
  kClientReset,        ///< The client went away, or took it back.
  kBadRequest,         ///< It broke a rule within its body,
  kBadPath,            ///< or its path has no canonical form that is allowed. 400
  kNoRoute,            ///< 404
  kNotAllowed,         ///< A CONNECT or an upgrade that is not taken. 501
  kForbidden,          ///< By the client's address, or a preflight's origin. 403
  kUnauthorized,       ///< No proof of who the client is, or none that holds. 401
  kAuthBusy,           ///< Too many passwords wait to be checked. 503
  kNoEndpoint,         ///< Every endpoint is full, or the attempts to connect are used up. 503
  kNotResolved,        ///< There is no endpoint, as its names stand for no address. 503
  kTooManyPending,     ///< 503
  kUpstreamReset,      ///< The endpoint broke off before its response was complete. 502
  kUpstreamMalformed,  ///< The response breaks a rule. 502
  kUpstreamRefused,    ///< The endpoint does not take such a request: no websocket over HTTP/2. 502
  kResponseTimeout,    ///< 504
  kBodyTimeout,        ///< The client owed a body. 408
  kBodyTooLarge,       ///< It is more than is taken. 413
  kSendTimeout,        ///< The client took nothing of the response.
  kStuck,              ///< Nothing moved what waited, while memory was short. 503
  kIdleTimeout,        ///< Nothing moved in either direction.
  kRequestTimeout,     ///< It took too long in all. 504
  kDeadline,           ///< The time that a gRPC client gave is over. 504, or its grpc-status.
  kShutdown,           ///< Still under way when the time to drain was over.
};
inline constexpr int kHttpEndCount = 24;
const char* http_end_name(HttpEnd end);

/// The codecs' counts, copied from time to time: for a listener's side, or an upstream's.
struct CodecCounters {
  static constexpr int kHttp1Count = 15;
  static constexpr int kHttp2Count = 27;
  std::array<Counter, kHttp1Count> http1;
  std::array<Counter, kHttp2Count> http2;
  void set(const Http1Counters& counts);
  void set(const Http2Counters& counts);
};
/// Names of the above, in their order; as in the statistics.
std::array<std::string_view, CodecCounters::kHttp1Count> http1_counter_names();
std::array<std::string_view, CodecCounters::kHttp2Count> http2_counter_names();

/// What requests say of where they come from, and are not believed in: malformed, or too little.
enum class Claim : uint8_t { kForwardedFor, kForwardedProto, kForwarded, kRequestId, kTraceParent };
inline constexpr int kClaimCount = 5;
using ClaimCounters = std::array<Counter, kClaimCount>;
/// The field's name; `request-id` for that one.
const char* claim_name(Claim claim);

/// Of bodies that wait.
struct BodyFileCounters {
  Counter written_bytes;  ///< That went to the body file.
  Counter refused;        ///< Pieces that it did not take.
};

/// What one worker counts for one HTTP listener.
struct HttpCounters {
  Counter connections_h1, connections_h2;
  Counter requests;
  std::array<Counter, 6> statuses;  ///< Responses by the first digit of their status.
  std::array<Counter, kHttpEndCount> ended;
  Counter request_bytes;           ///< Of bodies.
  Counter response_bytes;          ///< Likewise.
  Counter retries;                 ///< Requests that were sent again, or to another endpoint.
  Counter tunnels;                 ///< Websockets, and CONNECT.
  Counter header_timeouts;         ///< Connections whose head, or preface, did not come in time.
  Counter trailer_fields_dropped;  ///< Of requests: reserved_headers.h says which.
  Counter memory_pauses;           ///< Times that reading paused, as a connection held more than its share of memory.
  ClaimCounters claims_refused;
  // What options allowed; config::Paths.
  Counter paths_changed, slashes_merged, slashes_escaped, backslashes, dot_parameters;
  std::array<Counter, kContentCodings> compressed;  ///< Responses that were, by their coding.
  Counter compression_refused;                      ///< Not, as there were too many at once.
  Counter compression_in_bytes, compression_out_bytes;
  BodyFileCounters body_file;
  CodecCounters codecs;
};

/// What one worker counts for one HTTP upstream.
struct UpstreamHttpCounters {
  Counter requests;
  Counter connections_opened, connections_reused;
  Counter connections_stale;  ///< That had waited, and were found closed before a request was sent on them.
  Counter pending_refused;
  Counter mirrored;             ///< Copies of requests,
  Counter mirrors_given_up;     ///< and those of them that it did not take in time.
  Counter retries;              ///< Requests that were sent again,
  Counter retries_over_budget;  ///< and that were not, for there were too many.
  Counter hedges;               ///< Requests that were sent to a second endpoint while the first was slow,
  Counter hedges_won;           ///< and those that it was who answered.
  CodecCounters codecs;
};

}  // namespace sluice
