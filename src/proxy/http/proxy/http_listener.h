#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/worker.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/auth/listener_access.h"
#include "proxy/common/local_ref.h"
#include "proxy/compression/compression_policy.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/otlp_exporter.h"
#include "proxy/http/proxy/phases/phases.h"
#include "proxy/http/proxy/shared_bodies.h"
#include "proxy/listener/worker_upstream.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/metrics/latencies.h"
#include "proxy/rate_limit/rate_limiter.h"
#include "proxy/router/http_router.h"

namespace sluice {

class Exchange;
class HttpSession;
class HttpUpstream;
class HttpWorker;
class SharedAddress;

/// Begins the exchange of a new stream.
using BeginExchange = StreamReceiver& (*)(HttpSession& session, HttpStream& stream);

/// The settings of the codecs of one HTTP listener, on one worker. A connection keeps those that it began with, also
/// when it moves to another configuration. The counters outlive it.
struct HttpCodecSettings : LocallyShared {
  HttpCodecSettings(HttpWorker& worker, const config::Listener& listener, HttpCounters& counters);

  Http1Options http1;
  Http2Limits http2;
  Http2Codec::Shared http2_shared;
};

/// State that the requests of one HTTP listener share, on one worker. All references outlive it, and it outlives its
/// exchanges.
struct HttpListener {
  HttpListener(HttpWorker& http_worker, config::Snapshot<config::Listener> listener, const HttpRouter& routes,
               const ErrorPages& errors, SharedAuth& auth, const WorkerUpstreams& to, HttpCounters& counts,
               std::shared_ptr<const RouteLatencies> times, AccessLogTarget access_log, BeginExchange begin);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  /// Index of the upstream of `global_rate_limits`; HttpTarget::kNone if there is none.
  uint32_t rate_limit_service() const;

  HttpWorker& http;  ///< The HTTP state of the worker.
  const config::Snapshot<config::Listener> listener;
  const config::Snapshot<config::Http> config;
  const HttpRouter& router;
  std::vector<std::shared_ptr<HttpUpstream>> upstreams;  ///< By index in the configuration.
  std::vector<Exchange*> exchanges;                      ///< Those that have not been destroyed.
  size_t settled_tunnels = 0;                            ///< The same of SettledTunnel.
  const ErrorPages& error_pages;
  SharedBodies bodies;  ///< Bodies of our own responses.
  HttpCounters& counters;
  const std::shared_ptr<const RouteLatencies> latencies;
  const BeginExchange begin_exchange;
  std::optional<ListenerLog> log;              ///< Not set if there is no access log.
  std::unique_ptr<ListenerAccess> access;      ///< Null if every client is admitted.
  std::vector<std::string> reserved_headers;   ///< Header fields that no client may set.
  std::vector<std::string> reserved_trailers;  ///< Trailer fields that no client may set.
  bool identifies;                             ///< Whether requests have a RequestIdentity.
  std::string via_http1, via_http2;            ///< From via_of().
  std::optional<CompressionPolicy> compression;
  ListenerPhases phases;  ///< Empty until they are made.
  bool keeps_bodies;      ///< Whether some route buffers bodies, rather than leave them to connections.
  bool keeps_agreement;   ///< Whether requests need the result of the TLS handshake.
  const LocalRef<HttpCodecSettings> codecs;
  std::unique_ptr<OtlpExporter> tracing;  ///< Null if no spans are exported.
  /// The listeners of the same addresses, by server name; null if it is alone there, or does not terminate TLS.
  std::shared_ptr<const SharedAddress> shared;
};

/// Whether a rate limit of the listener or of a route counts by the name that a TLS client has sent, or an authorizer
/// is told it. `all`: the limits of the configuration.
bool needs_sni(const config::Http& http, const WorkerRateLimits& all);

}  // namespace sluice
