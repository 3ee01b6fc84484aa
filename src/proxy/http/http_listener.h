#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/worker.h"
#include "proxy/access/listener_access.h"
#include "proxy/compress/compression_policy.h"
#include "proxy/config/config.h"
#include "proxy/http/error_pages.h"
#include "proxy/http/shared_bodies.h"
#include "proxy/http1/limits.h"
#include "proxy/http2/http2_connection.h"
#include "proxy/route/http_router.h"
#include "proxy/stats/http_counters.h"

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
  std::vector<std::string> own_fields;         ///< That no client may say,
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
  Http2Connection::Shared http2_shared;

  /// Copies what the codecs have counted.
  void update_counters() {
    counters.codecs.set(http1_counters);
    counters.codecs.set(http2_counters);
  }
};

}  // namespace sluice
