// Which side is at fault when a stream or a request ends. docs/operating/health.md has the same tables for users.
#pragma once

#include <cstdint>

#include "proxy/http/message/stream.h"
#include "proxy/metrics/http_counters.h"

namespace sluice {

/// The side at fault for an error. It is decided where the error is detected, and no other side is charged: only
/// kEndpoint counts against an endpoint (ejection) and may be retried as a failure of that endpoint.
enum class Fault : uint8_t {
  kNone,      ///< No side is at fault, or it cannot be known.
  kClient,    ///< The client caused it.
  kEndpoint,  ///< The endpoint broke a rule, or failed to do its part.
  kSluice,    ///< A limit or a state of this proxy.
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

/// The side at fault for the end of a request. This is only a statistic: what counts against an endpoint was decided at
/// the reset, the timeout, or the connection attempt that led to this end.
Fault fault_of(HttpEnd end);

}  // namespace sluice
