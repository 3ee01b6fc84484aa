// What external authorization by HTTP and by gRPC have in common.
#pragma once

#include <string_view>

#include "proxy/config/model/on_failure.h"
#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"
#include "proxy/http/proxy/phases/side_call.h"
#include "proxy/metrics/http_counters.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// A server that did not judge a request. The texts are literals, or of the configuration.
struct NoVerdict {
  std::string_view feature;   ///< The key in the configuration.
  std::string_view upstream;  ///< The server's upstream.
  std::string_view error;
};

/// Logs that a server did not judge a request, and what becomes of the request. At most once a second on a thread.
void log_no_verdict(PhaseContext& exchange, const NoVerdict& what, bool allowed);
/// What becomes of a request that an authorizer has not judged. Counts and logs it.
PhaseResult judge_failure(PhaseContext& exchange, HttpCounters& counters, config::OnFailure on_failure,
                          const NoVerdict& what, SideCall::Outcome outcome);
/// Makes the response of another server one of the proxy: its framing, and a Date.
void complete_other_response(ChunkPool& pool, OtherResponse& response);

}  // namespace sluice
