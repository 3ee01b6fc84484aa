// What the admin listener needs from the process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/common/counter.h"

namespace sluice {

/// A complete request to the admin listener.
struct AdminRequest {
  std::string method;
  std::string path;  ///< Without the query.
  std::string query;
  std::string body;
  std::string accept = {};  ///< The value of the Accept field.
  std::string peer = {};    ///< Unless it only reads: who sends it, for the log.
};

class AdminWork;

struct AdminResponse {
  static constexpr std::string_view kText = "text/plain; charset=utf-8";
  static constexpr std::string_view kHtml = "text/html; charset=utf-8";
  static constexpr std::string_view kJson = "application/json";

  uint16_t status = 200;
  std::string_view content_type = kText;  ///< A string literal.
  std::string body;
  std::string_view allow = {};   ///< The methods that a 405 names, a string literal; else empty.
  std::string_view policy = {};  ///< The Content-Security-Policy of a page for browsers, which outlives it; else empty.
  std::unique_ptr<AdminWork> work = {};  ///< Set if the response comes later: from this, and nothing else counts.
};

/// Something that takes seconds, such as a profile, and then has a response. Destroyed when it has responded, or when
/// its client is gone. On the thread of the admin listener; no function may wait.
class AdminWork {
 public:
  virtual ~AdminWork() = default;
  /// Called some times per second until it returns a response.
  virtual std::optional<AdminResponse> poll(uint64_t now_ms) = 0;
};

/// Makes the responses. All functions are called on the thread of the admin listener, one at a time, and must not wait.
class AdminPages {
 public:
  /// Whether the response is for clients without the token, too, since it shows nothing of the process.
  virtual bool is_public(const AdminRequest& request) = 0;
  /// Whether the response needs current figures of the workers.
  virtual bool needs_figures(const AdminRequest& request) = 0;
  /// Requests them from each worker, for this request and others.
  virtual void request_figures(const AdminRequest& request) = 0;
  /// Whether the figures that were requested last will also do for this request, which needs_figures().
  virtual bool shares_figures(const AdminRequest& /*request*/) { return true; }
  /// Whether each worker has provided them since the last request_figures(), or has ended.
  virtual bool has_figures() = 0;
  /// Called when has_figures(), or when workers took too long, if the response needs figures; else at once.
  virtual AdminResponse respond(const AdminRequest& request) = 0;

 protected:
  ~AdminPages() = default;
};

/// Written by the thread of the admin listener, read by any.
struct AdminCounters {
  Counter accepted;             ///< Connections.
  Counter open;                 ///< Connections at the moment.
  Counter refused_connections;  ///< Beyond `max_connections`, while all others had a request in progress.
  Counter evicted;              ///< Closed in favor of a new connection, as they had no request.
  Counter requests;
  Counter unauthorized;        ///< Requests without the token.
  Counter refused_hosts;       ///< Requests for a host name that is not this machine's.
  Counter refused_origins;     ///< Requests that a browser has sent for the page of another site.
  Counter too_large;           ///< Requests with too large a body.
  Counter refused_memory;      ///< Requests refused because too much output waits for slow clients.
  Counter malformed;           ///< Requests that break a rule of HTTP, or whose head is too large.
  Counter tls_handshakes;      ///< Finished ones.
  Counter tls_failures;        ///< Connections whose handshake failed, or that violated TLS after it.
  Counter insecure;            ///< Requests on connections that do not have the TLS that a reload has required.
  Counter handshake_timeouts;  ///< Connections closed by `tls.handshake_timeout`,
  Counter idle_timeouts;       ///< by `idle_timeout`,
  Counter header_timeouts;     ///< by `header_timeout`,
  Counter send_timeouts;       ///< and by `send_timeout`.
  Counter endpoint_changes;    ///< Requests that have changed an endpoint.
  Counter figures_timeouts;    ///< Responses for which not all workers had provided figures in time.
};

}  // namespace sluice
