#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool/tier.h"
#include "proxy/common/counter.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/endpoint.h"

namespace sluice {

/// Which limit a connection was refused by.
enum class Refusal : uint8_t { kGlobal, kListener, kSource, kHandshakes };
inline constexpr int kRefusalCount = 4;
const char* refusal_name(Refusal refusal);

/// Why a session ended. Each accepted connection that was not refused ends with exactly one.
enum class SessionEnd : uint8_t {
  kFinished,       ///< Both sides sent their end.
  kClientError,    ///< Reset or unreachable,
  kUpstreamError,  ///< on one side or the other.
  kIdleTimeout,
  kMaxDuration,
  kProxyHeader,   ///< No valid PROXY header where one is required, or from a source that is not trusted,
  kProxyTimeout,  ///< or not in time.
  kHello,         ///< No valid ClientHello where routes need one,
  kHelloTimeout,  ///< or not in time.
  kClientLeft,    ///< The client closed before there was an upstream.
  kNoRoute,
  kNoEndpoint,    ///< Every endpoint refused, is full, or the attempts are used up.
  kNotResolved,   ///< There is no endpoint, as its names stand for no address.
  kTlsHandshake,  ///< The client's TLS handshake failed,
  kTlsTimeout,    ///< or was not done in time.
  kTlsError,      ///< A record after it was not what TLS allows.
  kMemory,        ///< It held more than its share of the chunk budget, and gave nothing back while memory was short.
  kStuck,         ///< Its reader took nothing while others waited for the chunk budget.
  kShutdown,      ///< Still open when the time to drain was over.
};
inline constexpr int kSessionEndCount = 19;
const char* session_end_name(SessionEnd end);

/// What one worker counts for one listener. `bytes_in` comes from clients, `bytes_out` goes to them.
struct ListenerCounters {
  Counter accepted;
  Counter accept_pauses;  ///< Out of descriptors or kernel memory.
  Counter bytes_in;
  Counter bytes_out;
  Counter tls_handshakes;  ///< That were finished,
  Counter tls_resumed;     ///< and of these, with a session ticket.
  Counter tls_truncated;   ///< Clients that closed without saying so in TLS.
  std::array<Counter, kRefusalCount> refused;
  std::array<Counter, kSessionEndCount> ended;
};

/// What one worker counts for one endpoint. `bytes_in` comes from the endpoint, `bytes_out` goes to it.
struct EndpointCounters {
  Counter connected;
  Counter tls_handshakes;  ///< That were finished,
  Counter tls_resumed;     ///< and of these, with a session that the endpoint knew.
  Counter tls_truncated;   ///< Ends without saying so in TLS.
  Counter bytes_in;
  Counter bytes_out;
  std::array<Counter, kConnectErrorCount> connect_errors;
};

/// How one worker has chosen among an upstream's endpoints, copied from its balancer from time to time: see
/// Balancer::Counts.
struct BalancerCounters {
  Counter preferred, preferred_lost, failovers, panics;
  void set(const Balancer::Counts& counts);
};

/// What one worker says about itself, copied out of its loop from time to time.
struct WorkerGauges {
  std::array<Counter, kTierCount> tier_out_bytes;
  Counter pool_out_bytes, pool_out_bytes_peak, pool_mapped_bytes, pool_refused, pool_discarded_bytes;
  Counter posted_bytes, parked, no_buffers;
  Counter copied_bytes, packed, receives, sends, zero_copy_sends, zero_copy_copied;
  Counter batches, completions, overflows;
};

/// What the control loop counts.
struct ControlCounters {
  Counter tls_reloads;          ///< TLS files were read again,
  Counter tls_reload_failures;  ///< or could not be.
};

/// All counters of one worker. Laid out once at start; indices as in the configuration.
struct WorkerCounters {
  WorkerCounters(size_t listener_count, const std::vector<size_t>& endpoint_counts);
  std::vector<ListenerCounters> listeners;
  std::vector<HttpCounters> http_listeners;              ///< By listener, in step with the above.
  std::vector<std::vector<EndpointCounters>> upstreams;  ///< By upstream, then endpoint.
  std::vector<UpstreamHttpCounters> http_upstreams;
  std::vector<BalancerCounters> balancers;
  WorkerGauges gauges;
};

}  // namespace sluice
