// Who is to blame for the end of a stream or of a request. docs/health.md has the same tables for users.
#pragma once

#include <cstdint>

#include "proxy/http/stream.h"
#include "proxy/stats/http_counters.h"

namespace sluice {

/// The owner of an error. It is decided where the error is detected, and nobody else pays for it: only what kEndpoint
/// owns counts against an endpoint (ejection) and may be retried as a failure of that endpoint.
enum class Fault : uint8_t {
  kNone,      ///< Nobody's, or it cannot be known.
  kClient,    ///< The client chose it.
  kEndpoint,  ///< The endpoint broke a rule, or did not do what it has to.
  kSluice,    ///< A limit or a state of our own.
};
const char* fault_name(Fault fault);

/// Which connection a stream belongs to.
enum class Side : uint8_t { kClient, kUpstream };

/// What a reset that a codec reports means for the exchange.
struct ResetRule {
  Fault fault;
  HttpEnd end;
};
ResetRule reset_rule(Side side, ResetReason reason);

/// Who owns the end of a request. It is a statistic: what counts against an endpoint was decided at the reset, at the
/// timeout or at the connection attempt that led to this end.
Fault fault_of(HttpEnd end);

/// Whether a status is an error of the endpoint. 501 and 505 reject what the client chose, its method and its version
/// (RFC 9110 sections 15.6.2 and 15.6.6).
constexpr bool is_endpoint_error(uint32_t status) { return status >= 500 && status != 501 && status != 505; }

}  // namespace sluice
