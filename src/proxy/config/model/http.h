// What a listener does with HTTP/1.1 and HTTP/2.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/access_log.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/compression.h"
#include "proxy/config/model/error_pages.h"
#include "proxy/config/model/http_route.h"
#include "proxy/config/model/identity.h"
#include "proxy/config/model/rate_limit.h"
#include "proxy/config/model/tracing.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// How a percent-encoded slash or backslash in a path is interpreted. Servers disagree, which lets clients evade
/// routes.
enum class EscapedSlashes : uint8_t {
  kReject,  ///< The request is rejected with 400.
  kKeep,    ///< Part of a segment, forwarded unchanged; 400 next to a dot segment.
  kDecode,  ///< A slash.
};

/// How request paths are canonicalized for routes, logs and upstreams.
struct Paths {
  EscapedSlashes escaped_slashes = EscapedSlashes::kReject;
  /// Treats `//` as `/`, as many servers do. Off: `//` is forwarded unchanged, because other servers distinguish the
  /// two.
  bool merge_slashes = false;
  /// Accepts backslashes, which some servers treat as slashes; otherwise 400. Next to a dot segment, always 400.
  bool allow_backslashes = false;
  /// Accepts `..;`, `.;` and the like; otherwise 400. Some servers strip the parameters, which leaves a dot segment.
  bool allow_dot_parameters = false;

  bool operator==(const Paths&) const = default;
};

/// How an HTTP/1.1 client is treated that half-closes before its response is complete.
enum class HalfClose : uint8_t {
  kClose,  ///< As gone: its request ends after a second of silence.
  kAllow,  ///< As waiting for the response.
};

/// HTTP/1.1 with clients.
struct Http1 {
  uint32_t max_requests = 1000;  ///< Per connection, which closes after the last response. As in nginx. 0 = unlimited.
  /// Accepts field names with an underscore, which some servers treat as a hyphen; otherwise 400.
  bool allow_underscores = false;
  /// Skips one empty line before a request (RFC 9112 section 2.2); otherwise 400.
  bool allow_empty_line = true;
  HalfClose half_close = HalfClose::kClose;

  bool operator==(const Http1&) const = default;
};

/// HTTP/2 with clients.
struct Http2 {
  uint32_t max_streams = 100;                          ///< Concurrent requests per connection.
  Size stream_window{64 * kKiB};                       ///< Flow-control window of one request's body.
  Size connection_window{1 * kMiB};                    ///< Flow-control window of all request bodies on a connection.
  uint32_t max_requests = 10000;                       ///< Per connection, which then drains. 0 = unlimited.
  Duration preface_timeout = std::chrono::seconds(5);  ///< Deadline for the client's connection preface.

  bool operator==(const Http2&) const = default;
};

/// HTTP/1.1 and HTTP/2 on a listener. The version is selected by ALPN where TLS is terminated, otherwise by the first
/// bytes of the connection.
struct Http {
  std::string forward;            ///< The upstream of every request. Either this or `routes`; see routes_of().
  std::vector<HttpRoute> routes;  ///< A request that matches no route gets 404.

  /// From the first byte of a request to the end of its head. 10 seconds, as in Envoy's edge guide.
  Duration header_timeout = std::chrono::seconds(10);
  /// Time without progress on a request body that Sluice is waiting for, after which it sends 408. As nginx's
  /// client_body_timeout.
  Duration body_timeout = std::chrono::seconds(60);
  /// Time that a client may take none of the output queued for it. As nginx's send_timeout.
  Duration send_timeout = std::chrono::seconds(30);
  /// Time without progress on a request with queued bytes, while memory is short. As tcp.stuck_timeout.
  Duration stuck_timeout = std::chrono::seconds(5);
  /// Time that a connection may have no request. As nginx's keepalive_timeout.
  Duration idle_timeout = std::chrono::seconds(75);
  /// Time without progress on a request in either direction. As Envoy's stream_idle_timeout.
  Duration stream_idle_timeout = std::chrono::minutes(5);
  /// As stream_idle_timeout, for tunnels (websocket, CONNECT), which are often quiet. A usual value for HAProxy's
  /// `timeout tunnel`.
  Duration tunnel_timeout = std::chrono::hours(1);
  /// Bound on a whole request, from its head to the end of the response. Does not apply to tunnels. 0 = unlimited.
  Duration request_timeout{0};
  /// Age at which a connection stops accepting requests. 0 = unlimited.
  Duration max_connection_age{0};

  Size max_start_line{8 * kKiB};  ///< Bound on method and target; beyond it 414.
  Size max_head{32 * kKiB};       ///< Bound on a request head, start line included; beyond it 431.
  uint32_t max_fields = 100;      ///< Bound on the fields of a head; beyond it 431.
  /// Bound on a request body; beyond it 413. Does not apply to tunnels. 0 = unlimited, as in HAProxy and Envoy: a body
  /// occupies memory only while the upstream is slow to take it.
  Size max_body{0};
  /// Queued body bytes toward one side at which reading from the other pauses, as tcp.buffer_high. It applies per
  /// stream, hence the smaller default; the streams of a connection together may queue four times this value, or 16 KiB
  /// each.
  Size buffer_high{256 * kKiB};

  std::vector<FieldChange> request_headers;   ///< Applied to all forwarded requests.
  std::vector<FieldChange> response_headers;  ///< Applied to all responses, including those that Sluice makes itself.
  ForwardedFor forwarded_for = ForwardedFor::kAppend;
  ForwardedFor forwarded = ForwardedFor::kOff;
  /// Number of proxies in front of Sluice whose X-Forwarded-For and X-Forwarded-Proto are trusted.
  uint32_t trusted_hops = 0;
  /// Addresses of trusted proxies. With trusted_hops, the proxy that connects to Sluice must have one of these.
  std::vector<Cidr> trusted_proxies;
  std::optional<RequestId> request_id;
  TraceContext trace_context = TraceContext::kOff;
  std::optional<Tracing> tracing;
  std::vector<Cidr> allow;               ///< Client addresses that are allowed; others get 403. Empty: all.
  std::vector<Cidr> deny;                ///< Client addresses that get 403. Checked before `allow`.
  std::vector<std::string> rate_limits;  ///< Names of rate limits, all of which must admit a request.
  /// Names of rate limits in bytes, to which bodies are paced.
  std::vector<std::string> response_bandwidth, request_bandwidth;
  std::optional<GlobalRateLimits> global_rate_limits;
  std::optional<Compression> compression;
  std::vector<ErrorBody> errors;  ///< The first entry with the response's status applies.
  std::string via = "sluice";     ///< Name added to Via in requests and responses. Empty: no Via.
  bool allow_connect = false;     ///< Forwards CONNECT to the route's upstream; otherwise 501.
  bool websocket = true;          ///< Accepts upgrades to websocket; otherwise 501.
  Paths paths;
  Http1 http1;
  Http2 http2;
  std::optional<AccessLog> access_log;

  bool operator==(const Http&) const = default;
};

/// The routing table: the configured routes, or one unconditional route for `forward`.
std::vector<HttpRoute> routes_of(const Http& http);

}  // namespace sluice::config
