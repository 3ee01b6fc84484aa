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
#include "proxy/http/proxy/shared_bodies.h"
#include "proxy/metrics/http_counters.h"
#include "proxy/router/http_router.h"

namespace sluice {

class AccessLogWriter;

/// What the sessions of one HTTP listener share, on one worker.
struct HttpListener {
  HttpListener(Worker& worker, const config::Listener& listener, const HttpRouter& routes, const ErrorPages& errors,
               SharedAuth& auth, HttpCounters& counts, AccessLogWriter* access_log);
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  const config::Listener& listener;
  const config::Http& config;
  const HttpRouter& router;
  const ErrorPages& error_pages;
  SharedBodies bodies;  ///< Of our own responses.
  HttpCounters& counters;
  AccessLogWriter* log;  ///< Null: none.
  config::LogFormat log_format;
  std::unique_ptr<ListenerAccess> access;      ///< Null: everybody may ask.
  std::vector<std::string> reserved_headers;   ///< That no client may say,
  std::vector<std::string> reserved_trailers;  ///< and those that no client may put behind a body.
  bool identifies;                             ///< Requests have a RequestIdentity.
  std::string via_http1, via_http2;            ///< As via_of() made them.
  std::optional<CompressionPolicy> compression;
  bool keeps_bodies;     ///< Of some route, rather than leave them to connections.
  bool keeps_agreement;  ///< What was agreed on in TLS is asked for with each request.
  Http1Options http1;
  Http2Limits http2;
  Http1Counters http1_counters;
  Http2Counters http2_counters;
  Http2Codec::Shared http2_shared;

  /// Copies what the codecs have counted.
  void update_counters() {
    counters.codecs.set(http1_counters);
    counters.codecs.set(http2_counters);
  }
};

}  // namespace sluice
