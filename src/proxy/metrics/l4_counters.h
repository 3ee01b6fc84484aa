#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/common/counter.h"
#include "proxy/config/model/config.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/metrics/latencies.h"
#include "proxy/metrics/overload_counters.h"
#include "proxy/rate_limit/rate_limiter.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/endpoint.h"
#include "sluice/tier.h"

namespace sluice {

/// The limit that refused a connection.
enum class Refusal : uint8_t { kGlobal, kListener, kSource, kHandshakes, kRate, kOverload };
inline constexpr int kRefusalCount = 6;
const char* refusal_name(Refusal refusal);

/// Why a session ended. Each accepted connection that was not refused ends with exactly one.
enum class SessionEnd : uint8_t {
  kFinished,       ///< Both sides sent end of stream.
  kClientError,    ///< The client's connection was reset or became unreachable.
  kUpstreamError,  ///< The same for the connection to the endpoint.
  kIdleTimeout,
  kMaxDuration,
  kProxyHeader,   ///< A required PROXY header was invalid or missing, or came from an untrusted source.
  kProxyTimeout,  ///< The PROXY header did not arrive in time.
  kHello,         ///< The ClientHello was invalid or missing, and routes need it.
  kHelloTimeout,  ///< The ClientHello did not arrive in time.
  kClientLeft,    ///< The client closed before an upstream connection was made.
  kNoRoute,
  kNoEndpoint,    ///< Every endpoint refused or is full, or the attempts are used up.
  kNotResolved,   ///< The upstream has no endpoint: its names resolve to no address.
  kTlsHandshake,  ///< The client's TLS handshake failed.
  kTlsTimeout,    ///< The client's TLS handshake did not finish in time.
  kTlsError,      ///< A record after the handshake violated the protocol.
  kMemory,        ///< It held more than its share of the chunk budget and released none while memory was short.
  kOverload,      ///< It held much while the memory of the process was nearly used up.
  kStuck,         ///< Its peer read nothing while other connections waited for the chunk budget.
  kShutdown,      ///< It was still open when the drain timeout expired.
  kMoved,         ///< It continues in the process that replaces this one.
  kNotResumed,    ///< It came from the process that this one replaces, and could not continue.
  kServerName,    ///< No listener of its address has the server name that the client sends.
};
inline constexpr int kSessionEndCount = 23;
const char* session_end_name(SessionEnd end);

/// Why a session has not moved to the process that replaces this one.
enum class StayReason : uint8_t {
  kMoving,      ///< It is about to.
  kHandshake,   ///< The client has not said yet what it wants: TLS, ALTS, a PROXY header or the first bytes.
  kConnecting,  ///< The connection to its endpoint is being made.
  kRequest,     ///< A request is in a part that cannot move.
  kGroup,       ///< Its streams share a connection to an endpoint with another session, which cannot move.
  kEnding,      ///< It ends.
  kReturned,    ///< The other process could not continue it.
  kPaced,       ///< A TCP connection with a limit of bandwidth.
};
inline constexpr int kStayReasonCount = 8;
const char* stay_reason_name(StayReason reason);
/// Sessions by StayReason.
using StayCounts = std::array<uint32_t, kStayReasonCount>;

/// What a session carries.
enum class SessionKind : uint8_t {
  kTcp,
  kHttp1,
  kTunnel,  ///< A websocket or CONNECT tunnel over HTTP/1.1.
  kHttp2,   ///< With the tunnels that are in it.
};
inline constexpr int kSessionKindCount = 4;
const char* session_kind_name(SessionKind kind);

/// The counters of one worker for one listener. `bytes_in` is received from clients, `bytes_out` is sent to them.
struct ListenerCounters {
  Counter accepted;
  Counter admitted;       ///< Accepted connections that no limit refused at once.
  Counter resumed;        ///< Sessions that continue from another process.
  Counter rebalanced;     ///< Connections that another worker got, which had fewer.
  Counter accept_pauses;  ///< Pauses in accepting for lack of descriptors or kernel memory.
  Counter bytes_in;
  Counter bytes_out;
  Counter tls_handshakes;               ///< Finished handshakes.
  Counter tls_resumed;                  ///< Finished handshakes that resumed a session ticket.
  Counter tls_truncated;                ///< Clients that closed without a close_notify alert.
  LatencyHistogram tls_handshake_time;  ///< Of the finished handshakes.
  std::array<Counter, kRefusalCount> refused;
  std::array<Counter, kSessionEndCount> ended;
  std::array<Counter, kStayReasonCount> stayed;  ///< Sessions that did not move in time, by StayReason.
  // Of an access log that goes to an OpenTelemetry collector.
  Counter log_records_exported;  ///< Records that the collector took.
  Counter log_records_dropped;   ///< Records for which there was no room, or whose request failed.
  Counter log_requests_failed;   ///< Requests to the collector that failed.
};

/// The counters of one worker for one endpoint. `bytes_in` is received from the endpoint, `bytes_out` is sent to it.
struct EndpointCounters {
  /// Sets all to 0. The worker must not use them meanwhile.
  void reset() {
    for (Counter* const each : {&connected, &tls_handshakes, &tls_resumed, &tls_truncated, &bytes_in, &bytes_out,
                                &requests, &requests_succeeded, &requests_failed, &begun, &open, &requests_active}) {
      each->set(0);
    }
    for (Counter& each : connect_errors) each.set(0);
  }

  Counter connected;
  Counter tls_handshakes;  ///< Finished handshakes.
  Counter tls_resumed;     ///< Finished handshakes that resumed a session.
  Counter tls_truncated;   ///< Connections that the endpoint closed without a close_notify alert.
  Counter bytes_in;
  Counter bytes_out;
  // For load reports to a control plane. A request without a response that its client gives up is of neither kind.
  Counter requests;            ///< Of HTTP: those that were given to a connection.
  Counter requests_succeeded;  ///< Those with a response below 500.
  Counter requests_failed;     ///< Those with another one, or with none though the endpoint owes one.
  std::array<Counter, kConnectErrorCount> connect_errors;
  Counter begun;            ///< Attempts to connect.
  Counter open;             ///< Connections that are connecting or open now.
  Counter requests_active;  ///< Of HTTP: requests and tunnels that have a connection now.
};

/// The state of one worker, copied periodically from its loop.
struct WorkerGauges {
  std::array<Counter, kTierCount> tier_out_bytes;
  Counter pool_out_bytes, pool_out_bytes_peak, pool_mapped_bytes, pool_refused, pool_discarded_bytes;
  Counter pool_budget_bytes, pool_held_bytes, pool_borrowed_bytes, pool_claims, pool_recalls;
  Counter posted_bytes, parked, no_buffers;
  Counter copied_bytes, packed, receives, sends, zero_copy_sends, zero_copy_copied;
  Counter batches, coalesced_batches, completions, overflows;
  OverloadCounters overload;
};

/// The sessions of one worker that were reset because their time to drain was over, by SessionKind.
struct ResetCounters {
  std::array<Counter, kSessionKindCount> by_kind;
};

/// The counters of the control loop.
struct ControlCounters {
  Counter reloads;                 ///< Reloads of the configuration that were applied.
  Counter reload_failures;         ///< Reloads that changed nothing, because of an error.
  Counter upgrades;                ///< New processes that have taken over.
  Counter upgrade_failures;        ///< New processes that did not start, or died before this one had ended.
  Counter tls_reloads;             ///< Successful reloads of TLS files.
  Counter tls_reload_failures;     ///< Failed reloads of TLS files.
  Counter configurations;          ///< Configurations in use: the current one, and earlier ones with connections left.
  Counter configurations_drained;  ///< Those that were drained because more than `reload.max_generations` were in use.
};

/// The counters of one worker for one configuration; indices are those of the configuration. Counters outlive a
/// configuration that is replaced by another one with the same listener, upstream or endpoint: both point to them.
struct WorkerCounters {
  explicit WorkerCounters(const config::Config& config);
  /// For the configuration that replaces `old`, whose counters are `before`. A listener keeps the counters of the
  /// listener of its name, an endpoint those of the endpoint with its address in the upstream of that name. The other
  /// counters of an upstream begin at 0 unless it is unchanged.
  WorkerCounters(const config::Config& config, const config::Config& old, const WorkerCounters& before);

  std::vector<std::shared_ptr<ListenerCounters>> listeners;
  std::vector<std::shared_ptr<HttpCounters>> http_listeners;     ///< By listener, like `listeners`.
  std::vector<std::shared_ptr<const RouteLatencies>> latencies;  ///< By listener, too.
  /// By upstream, then by endpoint: the configured ones, and those of EndpointTable::added_slots().
  std::vector<std::vector<std::shared_ptr<EndpointCounters>>> upstreams;
  std::vector<std::shared_ptr<UpstreamHttpCounters>> http_upstreams;
  std::vector<std::shared_ptr<UpstreamLatencies>> upstream_latencies;
  std::vector<std::shared_ptr<Balancer::Counters>> balancers;
  std::vector<std::shared_ptr<RateLimitCounters>> rate_limits;  ///< By rate limit; kept by its name.
  std::shared_ptr<WorkerGauges> gauges;
  std::shared_ptr<ResetCounters> resets;
};

}  // namespace sluice
