#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/worker.h"
#include "proxy/auth/listener_access.h"
#include "proxy/compression/compression_policy.h"
#include "proxy/config/model/config.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/http2_codec.h"
#include "proxy/http/message/error_pages.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/phases/phases.h"
#include "proxy/http/proxy/shared_bodies.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/http_router.h"

namespace sluice {

class AccessLogWriter;
class HttpSession;
class HttpWorker;

/// Begins the exchange of a new stream.
using BeginExchange = StreamReceiver& (*)(HttpSession& session, HttpStream& stream);

/// State that the sessions of one HTTP listener share, on one worker. All references outlive it.
struct HttpListener {
  HttpListener(HttpWorker& http_worker, const config::Listener& listener, const HttpRouter& routes,
               const ErrorPages& errors, SharedAuth& auth, HttpCounters& counts, AccessLogWriter* access_log,
               BeginExchange begin);
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  HttpWorker& http;  ///< The HTTP state of the worker.
  const config::Listener& listener;
  const config::Http& config;
  const HttpRouter& router;
  const ErrorPages& error_pages;
  SharedBodies bodies;  ///< Bodies of our own responses.
  HttpCounters& counters;
  const BeginExchange begin_exchange;
  AccessLogWriter* log;  ///< Null if there is no access log.
  config::LogFormat log_format;
  std::unique_ptr<ListenerAccess> access;      ///< Null if every client is admitted.
  std::vector<std::string> reserved_headers;   ///< Header fields that no client may set.
  std::vector<std::string> reserved_trailers;  ///< Trailer fields that no client may set.
  bool identifies;                             ///< Whether requests have a RequestIdentity.
  std::string via_http1, via_http2;            ///< From via_of().
  std::optional<CompressionPolicy> compression;
  ListenerPhases phases;  ///< Empty until they are made.
  bool keeps_bodies;      ///< Whether some route buffers bodies, rather than leave them to connections.
  bool keeps_agreement;   ///< Whether requests need the result of the TLS handshake.
  Http1Options http1;
  Http2Limits http2;
  Http1Counters http1_counters;
  Http2Counters http2_counters;
  Http2Codec::Shared http2_shared;

  /// Copies the counts of the codecs into `counters`.
  void update_counters() {
    counters.codecs.set(http1_counters);
    counters.codecs.set(http2_counters);
  }
};

}  // namespace sluice
