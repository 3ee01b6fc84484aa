// Who is to blame for the end of a stream or of a request. docs/health.md has the same tables for users.
#pragma once

#include <cstdint>

#include "proxy/http/message/stream.h"
#include "proxy/metrics/http_counters.h"

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

}  // namespace sluice
