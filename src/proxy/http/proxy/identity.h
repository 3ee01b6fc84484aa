// The identity of a request: its client, its scheme, and its request and trace IDs.
#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/common/random_ids.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"
#include "proxy/metrics/http_counters.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The scheme by which a request reached the first trusted proxy, as reported by that proxy.
enum class ForwardedScheme : uint8_t { kNone, kHttp, kHttps };

/// The identity of a request. The texts lie in the request's head.
struct RequestIdentity {
  ClientIp client;  ///< The peer, or the client that a trusted proxy reports.
  ForwardedScheme scheme = ForwardedScheme::kNone;
  Text request_id, trace_id;  ///< Empty if there is none.
  Text parent_span;           ///< The client's span, if the request is recorded and has one.
  bool recorded = false;      ///< Whether a span is exported. The request's traceparent names it.
};

/// Whether the configuration needs any of it. If not, a request's identity is its peer's address.
bool identifies(const config::Http& http);

/// Fills in `identity`, which must be new, and leaves only trustworthy values in the head: as configured, it keeps the
/// client's request ID and traceparent or replaces them with new ones. Values that were not believed are counted in
/// `refused`. Returns false if the head has no room; the client is known even then.
[[nodiscard]] bool identify(ChunkPool& pool, const config::Http& http, const ClientIp& peer, RandomIds& ids,
                            ClaimCounters& refused, Head& request, RequestIdentity& identity);

}  // namespace sluice
