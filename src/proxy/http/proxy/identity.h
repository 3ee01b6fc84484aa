// On whose behalf a request comes, and what tells it from others.
#pragma once

#include <cstdint>
#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/common/random_ids.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/client_ip.h"
#include "proxy/http/message/head.h"
#include "proxy/metrics/http_counters.h"

namespace sluice {

/// By what a request came to the first trusted proxy, as that one tells.
enum class ToldScheme : uint8_t { kNone, kHttp, kHttps };

/// What is known of a request. Texts lie in its head.
struct RequestIdentity {
  ClientIp client;  ///< The peer, or the one whom a trusted proxy tells.
  ToldScheme scheme = ToldScheme::kNone;
  Text request_id, trace_id;  ///< Empty: there is none.
};

/// Whether a configuration asks for any of it. Else a request's identity is its peer's address.
bool identifies(const config::Http& http);

/// Finds it out, and leaves in the head what may be believed: a request id and a traceparent of our own are put there,
/// or those of the client stay, as it is configured. What was not believed is counted. False when there is no room in
/// the head; the client is known all the same. `identity`: a new one.
[[nodiscard]] bool identify(ChunkPool& pool, const config::Http& http, const ClientIp& peer, RandomIds& ids,
                            ClaimCounters& refused, Head& request, RequestIdentity& identity);

}  // namespace sluice
