// The configuration as typed values, parsed from a YAML file (loader.h) or the command line (from_flags.h).
//
// Plain structs with value semantics. This file defines every default and its reason; schema.h holds the user-facing
// description of each key, from which the loader, `check --print` and docs/reference/configuration.md are derived. A
// Config returned by load_text(), load_file() or from_flags() has passed validate(). It is read at start-up only: the
// data path keeps its own tables and never reads these strings.
//
//   absl::StatusOr<config::Config> config = config::load_file("sluice.yaml");
//   if (!config.ok()) return fail(config.status().message());  // one line for each finding: FILE:LINE:COLUMN: what
//   for (const config::Listener& listener : config->listeners) {
//     for (const config::Address& address : listener.addresses) open(address.data(), address.length());
//   }
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/access.h"
#include "proxy/config/model/access_log.h"
#include "proxy/config/model/adaptive_concurrency.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/admin.h"
#include "proxy/config/model/balancing.h"
#include "proxy/config/model/buffering.h"
#include "proxy/config/model/compression.h"
#include "proxy/config/model/error_pages.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/health.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/identity.h"
#include "proxy/config/model/listener_tls.h"
#include "proxy/config/model/log.h"
#include "proxy/config/model/maintenance.h"
#include "proxy/config/model/overload.h"
#include "proxy/config/model/privileges.h"
#include "proxy/config/model/rate_limit.h"
#include "proxy/config/model/regex.h"
#include "proxy/config/model/resolve.h"
#include "proxy/config/model/retry.h"
#include "proxy/config/model/text_template.h"
#include "proxy/config/model/tracing.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// A count that Sluice may choose itself: nullopt is written `auto`.
using AutoCount = std::optional<uint32_t>;

/// TCP keep-alive probes of one socket (TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT). Not used on Unix sockets.
struct Keepalive {
  /// Silence before the first probe; 0 turns probes off. Default 3 minutes: under the 4 to 6 minutes after which common
  /// cloud NATs and load balancers forget a silent flow, and rare enough not to wake a phone's radio every minute.
  Duration idle = std::chrono::minutes(3);
  /// Time between two unanswered probes. With `probes`, a vanished peer is detected 1 minute after the first probe.
  Duration interval = std::chrono::seconds(15);
  /// Unanswered probes after which the connection counts as dead.
  uint32_t probes = 4;

  bool operator==(const Keepalive&) const = default;
};

/// Whether an accepted connection starts with a PROXY protocol header (v1 or v2; its first bytes distinguish them).
enum class ProxyHeaderIn : uint8_t {
  kOff,       ///< Never: a header is treated as payload.
  kOptional,  ///< A trusted source may send one.
  kRequired,  ///< A connection without one is closed and counted.
};

/// PROXY protocol on the accepting side.
struct ProxyProtocol {
  ProxyHeaderIn accept = ProxyHeaderIn::kOff;
  /// Deadline for the header. It is in the sender's first packet, so 5 seconds cuts off only dead connections.
  Duration timeout = std::chrono::seconds(5);
  /// Sources whose header is trusted. Empty: every source (not allowed with kOptional, where any client could then
  /// choose its own source address). For other sources, kOptional treats the header as payload and kRequired closes the
  /// connection.
  std::vector<Cidr> trusted;

  bool operator==(const ProxyProtocol&) const = default;
};

/// The conditions of an L4 route. For each non-empty list, at least one entry must match.
struct TcpMatch {
  std::vector<HostPattern> sni;   ///< Patterns for the server name in the ClientHello.
  std::vector<std::string> alpn;  ///< The ClientHello must offer one of these protocols.
  std::vector<std::string> peer;  ///< The client must have authenticated as one of these: see Alts::target_identities.

  bool operator==(const TcpMatch&) const = default;
};

/// One entry of the L4 routing table. The first match wins.
struct TcpRoute {
  std::optional<TcpMatch> match;  ///< Absent: matches every connection; allowed on the last route only.
  std::string forward;            ///< Name of an upstream.

  bool operator==(const TcpRoute&) const = default;
};

/// L4 forwarding: bytes are forwarded unchanged.
struct Tcp {
  std::string forward;           ///< The upstream of every connection. Either this or `routes`; see routes_of().
  std::vector<TcpRoute> routes;  ///< A connection that matches no route is closed and counted.
  /// A connection that moves no bytes in either direction for this long is closed. 1 hour is Envoy's edge default.
  Duration idle_timeout = std::chrono::hours(1);
  /// Age at which a connection is closed, even if busy. 0 = unlimited: an L4 proxy cannot know when cutting is safe.
  Duration max_duration{0};
  /// A connection whose reader has taken no bytes for this long is reset while the worker's chunk budget is exhausted
  /// and other connections wait for memory. 0 = never. 5 seconds is longer than a retransmission after several losses,
  /// and short enough for the waiting connections.
  Duration stuck_timeout = std::chrono::seconds(5);
  /// Deadline for the ClientHello, where routes inspect it. 10 seconds: the usual bound on a TLS handshake.
  Duration inspect_timeout = std::chrono::seconds(10);
  /// Queued bytes toward one side at which reading from the other pauses, per direction. 1 MiB, as in Envoy: for bulk
  /// transfers it also bounds one receive, and 256 KiB cost a tenth more CPU per byte. It pins memory only while the
  /// other side is slow, and drops to 64 KiB for every connection once half of memory.worker_budget is in use.
  Size buffer_high{1 * kMiB};
  /// Queued bytes at which reading resumes. Half of `buffer_high` unless given, as in Envoy.
  Size buffer_low{512 * kKiB};
  /// Names of rate limits in bytes, by which the bytes from clients, or to them, are paced.
  std::vector<std::string> upload_bandwidth, download_bandwidth;
  std::optional<AccessLog> access_log;

  bool operator==(const Tcp&) const = default;
};

/// The paths that a route matches. Exactly one of the three is given; it is compared with the canonical path, without
/// the query.
struct PathMatch {
  std::string exact;
  /// `/v1` matches `/v1` and every path below it, but not `/v10`; `/v1/` matches only the paths below it.
  std::string prefix;
  Regex regex;  ///< Must match the whole path. A request without a path (CONNECT) never matches.

  bool operator==(const PathMatch&) const = default;
};

/// Conditions on a value. Every member that is set must hold.
struct ValueMatch {
  std::string exact, prefix, suffix, contains;
  Regex regex;          ///< Must match the whole value.
  bool negate = false;  ///< Inverts the match: no field or parameter of that name may match.

  bool operator==(const ValueMatch&) const = default;
};

/// A header field condition: at least one field of this name must match.
struct HeaderMatch : ValueMatch {
  FieldName name;

  bool operator==(const HeaderMatch&) const = default;
};

/// A query parameter condition: at least one parameter of this name must match. Name and value are compared as they are
/// written in the query, escapes included.
struct QueryMatch : ValueMatch {
  std::string name;

  bool operator==(const QueryMatch&) const = default;
};

/// The conditions of an HTTP route. Every member that is given must hold.
struct HttpMatch {
  std::vector<HostPattern> host;  ///< One must match. The port is ignored.
  std::optional<PathMatch> path;
  std::vector<std::string> method;   ///< One must match.
  std::vector<HeaderMatch> headers;  ///< All must match.
  std::vector<QueryMatch> query;     ///< All must match.
  std::vector<Cidr> source;          ///< One must contain the client's address.
  std::vector<std::string> peer;     ///< As TcpMatch::peer.

  bool operator==(const HttpMatch&) const = default;
};

/// A fixed response, without an upstream.
struct Respond {
  uint32_t status = 200;  ///< 200 to 599.
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";

  bool operator==(const Respond&) const = default;
};

/// A change of the requested path; the query is kept. At most one of `path`, `prefix` and `regex` is set.
struct PathChange {
  std::string path;
  /// Replaces the prefix given in HttpMatch::path, at segment boundaries: replacing `/v1` with `/` turns `/v1/x` into
  /// `/x`.
  std::string prefix;
  /// A path that this matches as a whole becomes `substitution`, in which `\1` is the text of the first group. Any
  /// other path is unchanged.
  Regex regex;
  std::string substitution;

  bool leaves_path() const { return path.empty() && prefix.empty() && !regex.is_set(); }
  bool operator==(const PathChange&) const = default;
};

/// A change of the request that is forwarded to the upstream.
struct Rewrite : PathChange {
  std::string host;  ///< The host, with an optional port; empty: the client's.

  bool operator==(const Rewrite&) const = default;
};

/// A redirect. Parts of the URL that are not given stay as the client sent them, except that a changed scheme or host
/// drops the client's port.
struct Redirect : PathChange {
  uint32_t status = 301;  ///< 301, 302, 303, 307 or 308. 301 as in Envoy, and in nginx for `permanent`.
  std::string scheme;     ///< http or https.
  std::string host;
  uint32_t port = 0;  ///< 0: the scheme's own.
  bool drop_query = false;

  bool operator==(const Redirect&) const = default;
};

/// A change to the header fields of one name: one of `set`, `add` and `remove`. A template that expands to an empty
/// value yields no field.
struct FieldChange {
  FieldName name;
  TextTemplate set;  ///< Replaces all fields of this name.
  TextTemplate add;  ///< Appended after them.
  bool remove = false;

  bool operator==(const FieldChange&) const = default;
};

/// An upstream that gets a share of a route's requests.
struct SplitTarget {
  std::string forward;  ///< Name of an upstream.
  uint32_t weight = 1;
  std::vector<FieldChange> request_headers = {};   ///< Applied to the requests that it gets, after those of the route.
  std::vector<FieldChange> response_headers = {};  ///< Applied to the responses to them, after those of the route.

  bool operator==(const SplitTarget&) const = default;
};

/// One entry of the HTTP routing table. The first match wins.
struct HttpRoute {
  std::optional<HttpMatch> match;  ///< Absent: matches every request.
  std::string name;                ///< For the logs.
  /// Name of an upstream. Exactly one of this, `split`, `respond`, `redirect` and `readiness`.
  std::string forward;
  std::vector<SplitTarget> split;  ///< Chosen at random, by weight.
  std::optional<Respond> respond;
  std::optional<Redirect> redirect;
  bool readiness = false;                ///< Responds whether the process takes new connections: instead of the others.
  std::optional<Rewrite> rewrite;        ///< Of the forwarded request.
  std::vector<Cidr> allow, deny;         ///< As in Http; both levels apply.
  std::vector<std::string> rate_limits;  ///< As in Http; both levels apply.
  std::vector<std::string> response_bandwidth, request_bandwidth;  ///< As in Http; both levels apply.
  std::vector<RateDescriptor> rate_limit_descriptors;              ///< For Http::global_rate_limits, after those there.
  Priority priority = Priority::kNormal;  ///< While a worker is overloaded. `readiness` routes count as high.
  std::optional<Maintenance> maintenance;
  std::optional<Auth> auth;
  std::optional<ForwardAuth> forward_auth;  ///< Asked after `auth`.
  std::optional<ExtAuthz> ext_authz;        ///< Asked after `auth`, instead of `forward_auth`.
  std::optional<Cors> cors;
  std::optional<Duration> request_timeout, stream_idle_timeout;  ///< Override those of Http.
  std::optional<Duration> response_timeout;                      ///< Overrides that of Upstream.
  std::optional<Retry> retry;
  std::vector<Mirror> mirror;
  std::optional<Buffering> buffer;
  bool compression = true;                    ///< Has no effect unless Http::compression is set.
  std::optional<Size> max_body;               ///< Overrides Http::max_body.
  std::vector<FieldChange> request_headers;   ///< Applied to forwarded requests, after those of Http.
  std::vector<FieldChange> response_headers;  ///< Applied to every response, after those of Http.

  bool operator==(const HttpRoute&) const = default;
};

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

/// TLS toward an upstream's endpoints.
struct UpstreamTls {
  bool verify = true;                         ///< Whether the certificate must be valid and match server_name.
  std::string ca;                             ///< PEM file of the trusted authorities. Empty: the system's.
  std::string server_name;                    ///< Sent to the endpoint, and expected in its certificate.
  std::vector<std::string> verify_names;      ///< Not empty: the certificate must be for one of these instead.
  std::optional<TlsCertificate> certificate;  ///< Presented to endpoints that request one.
  std::vector<std::string> alpn;              ///< Offered protocols. With Protocol::kHttp2: h2.
  TlsVersion min_version = TlsVersion::k12;

  bool operator==(const UpstreamTls&) const = default;
};

/// ALTS, Google's Application Layer Transport Security. A handshaker service authenticates the peer; without one,
/// certificates do. Set either `handshaker`, or `certificates` with `peer_ca`.
struct Alts {
  EndpointAddress handshaker;  ///< The handshaker service; on Google Cloud, metadata.google.internal.:8080.
  std::vector<TlsCertificate> certificates;  ///< Presented to the peer.
  std::string peer_ca;  ///< PEM file of the authorities that must have issued the peer's certificate.
  /// Accepted peer identities: service accounts, or names in the peer's certificate. Empty: any authenticated peer.
  std::vector<std::string> target_identities;
  /// Largest frame, in bytes, that Sluice offers to read and prefers to send. 64 KiB is enough for its largest frames.
  Size max_frame_size{64 * kKiB};

  bool operator==(const Alts&) const = default;
};

/// ALTS on a listener.
struct ListenerAlts : Alts {
  Duration handshake_timeout = std::chrono::seconds(10);  ///< As for TLS.
  uint32_t max_handshakes = 2000;                         ///< As for TLS.

  bool operator==(const ListenerAlts&) const = default;
};

/// A listener: the socket addresses on which connections are accepted, with what is done with them.
struct Listener {
  std::string name;  ///< For logs and counters; unique among listeners.
  std::vector<Address>
      addresses;  ///< At least one. Port 0: the kernel chooses, another one for each. See ListenAddress.
  /// Which clients it is for, by the server name of their ClientHello; empty: all that no other listener of the address
  /// is for. See AddressGroups.
  std::vector<HostPattern> server_names;
  bool ipv6_only = false;  ///< Whether `[::]` accepts no IPv4 connections. Off, as with Envoy and HAProxy.
  /// Accept queue length, per worker. The kernel clamps it to net.core.somaxconn, whose default is also 4096.
  uint32_t backlog = 4096;
  /// Open connections of this listener; 0 = unlimited. 10,000 is the example in Envoy's edge guide.
  uint32_t max_connections = 10000;
  /// Open connections from one IPv4 address or IPv6 /64 (the least that one IPv6 customer has); 0 = unlimited. Not
  /// applied to Unix sockets. With the PROXY protocol, the address in the header counts. Off by default: behind a load
  /// balancer or in front of a large NAT, one source stands for many clients. An edge that faces clients directly
  /// should use about 512.
  uint32_t max_connections_per_source = 0;
  /// Names of rate limits, all of which must admit a new connection.
  std::vector<std::string> connection_rate_limits;
  /// Names of rate limits by source and server name, all of which must admit a TLS handshake.
  std::vector<std::string> handshake_rate_limits;
  ProxyProtocol proxy_protocol;
  Keepalive keepalive;
  bool nodelay = true;  ///< TCP_NODELAY: the sender has already chosen its writes; Nagle's delay only adds latency.
  std::optional<ListenerTls> tls;  ///< Without this and `alts`, nothing is decrypted.
  std::optional<ListenerAlts> alts;
  std::optional<Tcp> tcp;  ///< Either this or `http`.
  std::optional<Http> http;

  /// Null if it has none.
  const AccessLog* access_log() const {
    const std::optional<AccessLog>* const log = http ? &http->access_log : tcp ? &tcp->access_log : nullptr;
    return log && log->has_value() ? &**log : nullptr;
  }

  bool operator==(const Listener&) const = default;
};

/// The protocol of an upstream's endpoints.
enum class Protocol : uint8_t {
  kAuto,   ///< Depends on the listener: raw bytes from `tcp`, HTTP/1.1 from `http`.
  kTcp,    ///< Raw bytes; not allowed with `http`.
  kHttp1,  ///< HTTP/1.1 from `http`; raw bytes from `tcp`.
  kHttp2,
};

/// An upstream's connection pool for HTTP requests, on one worker.
struct Pool {
  /// Idle HTTP/1.1 connections kept to one endpoint; any more are closed once they are idle for a second (0: at once).
  /// Bounds the connections left after a burst; idle_timeout closes the rest.
  uint32_t max_idle = 512;
  /// Time that a connection may have no request. Below the 60 to 75 seconds usual for servers, so that Sluice closes
  /// the connection first and no request races with the server's close.
  Duration idle_timeout = std::chrono::seconds(50);
  uint32_t max_requests = 10000;  ///< Per connection. 0 = unlimited.
  uint32_t max_streams = 100;     ///< Concurrent requests per HTTP/2 connection, if the endpoint allows them.
  uint32_t max_pending = 1024;    ///< Requests waiting for a connection; beyond it 503. As Envoy's circuit breakers.

  bool operator==(const Pool&) const = default;
};

/// Which PROXY protocol header is sent to an endpoint.
enum class ProxyHeaderOut : uint8_t { kOff, kV1, kV2 };

/// One configured endpoint of an upstream: one server, or all servers behind a name.
struct Endpoint {
  EndpointAddress address;  ///< An address, or a name that stands for all its addresses. Port 0 is refused.
  ServiceName srv;          ///< Replaces `address`: SRV records with their own weights and priorities.
  uint32_t weight = 1;      ///< 1..1000: relative share of the connections. Of a name, the share of each address.
  uint32_t priority = 0;    ///< The lowest number is used as long as enough of its endpoints are usable.

  /// Whether its addresses come from DNS.
  bool is_resolved() const { return address.is_name() || !srv.empty(); }
  /// The form used in logs and counters.
  std::string text() const { return srv.empty() ? address.text() : srv.text(); }

  bool operator==(const Endpoint&) const = default;
};

/// A named set of interchangeable endpoints.
struct Upstream {
  std::string name;  ///< The name used in `forward`; unique among upstreams.
  Protocol protocol = Protocol::kAuto;
  std::vector<Endpoint> endpoints;  ///< At least one.
  Balance balance = Balance::kRoundRobin;
  std::optional<HashKey> hash;
  std::optional<Sticky> sticky;
  Duration slow_start{0};
  /// Percent of a priority's endpoints that must be usable before failover. 71: Envoy's overprovisioning factor of 1.4.
  uint32_t failover_below = 71;
  std::optional<HealthCheck> health_check;
  std::optional<Ejection> ejection;
  Resolve resolve;
  RetryBudget retry_budget;
  /// Bound on one attempt to connect to one endpoint. 5 seconds tolerates two lost SYNs (retransmitted after 1 s and 3
  /// s).
  Duration connect_timeout = std::chrono::seconds(5);
  /// Distinct endpoints tried for one connection. With a single endpoint there is a single attempt.
  uint32_t connect_attempts = 3;
  /// Consecutive failed attempts after which an endpoint is passed over for `fail_timeout`, unless all are; 0 = never.
  /// As nginx's max_fails, whose default is also 1: the next attempt after the pause is the probe.
  uint32_t max_fails = 1;
  Duration fail_timeout = std::chrono::seconds(10);  ///< nginx's default.
  /// Open connections to one endpoint; 0 = unlimited, because the listeners' limits already bound the sum.
  uint32_t max_connections_per_endpoint = 0;
  ProxyHeaderOut send_proxy_protocol = ProxyHeaderOut::kOff;
  Keepalive keepalive;
  bool nodelay = true;
  std::optional<UpstreamTls> tls;
  std::optional<Alts> alts;
  Pool pool;
  /// Absent: requests are not limited by the latency.
  std::optional<AdaptiveConcurrency> adaptive_concurrency;
  /// From the end of a request to the head of its response; beyond it 504. As nginx's proxy_read_timeout.
  Duration response_timeout = std::chrono::seconds(60);

  bool operator==(const Upstream&) const = default;
};

/// Whether an upstream of one configuration is still the same in the next one, and keeps its state and its connections.
inline bool is_unchanged(const Upstream& before, const Upstream& now) { return before == now; }

/// The constant behind `limits.max_connections: auto`; see Limits.
inline constexpr uint32_t kDefaultMaxConnections = 50000;

/// Bounds on the whole process.
struct Limits {
  /// Open accepted connections over all listeners. auto: the lesser of kDefaultMaxConnections and half of the
  /// file-descriptor limit (each connection has a second socket, to the endpoint), both from Envoy's edge guide.
  AutoCount max_connections;

  bool operator==(const Limits&) const = default;
};

/// Which provided-buffer rings receive data.
enum class Rings : uint8_t {
  kAuto,         ///< Incremental if the kernel passes the start-up test, otherwise plain.
  kPlain,        ///< One receive per buffer.
  kIncremental,  ///< Several receives share a buffer; start-up fails if the kernel does not support it.
};

/// Chunk memory. All values but `budget` are per worker.
struct Memory {
  /// Bytes of chunks that one worker may hold. A quarter is a reserve: see docs/operating/memory.md. 256 MiB holds some
  /// hundred connections stalled at the high mark, and thousands at the lower marks that apply when memory is short.
  Size worker_budget{256 * kMiB};
  /// Bytes of chunks that all workers together may hold; 0 = `worker_budget` of each. What is beyond those can only be
  /// borrowed.
  Size budget{0};
  /// The part of `worker_budget` that a worker lends to others while it does not need it, in percent. Half: a worker
  /// that gets busy has enough to serve clients from, until the rest is back.
  uint32_t lendable = 50;
  /// Buffers posted per ring, a power of two (the kernel's rule): 64 KiB buffers for bulk streams and 16 KiB buffers
  /// for the others (plain rings: four times as many 4 KiB buffers). 16 take 1.25 MiB in all, which stays warm in a
  /// core's cache. While many clients send at once, the ring of small buffers grows up to 1 MiB.
  uint32_t ring_entries = 16;
  /// Minimum size of zero-copy sends (SENDMSG_ZC); 0 = never. Off by default: zero copy pays only on real network cards
  /// and for large sends, and the threshold depends on the card. A connection on which the kernel reports a copy anyway
  /// goes back to plain sends.
  Size zero_copy_from{0};
  Rings rings = Rings::kAuto;

  /// The bytes of chunks that so many workers may hold together.
  uint64_t budget_of(uint64_t workers) const { return budget.bytes > 0 ? budget.bytes : worker_budget.bytes * workers; }
  /// The bytes that a worker never lends.
  uint64_t kept_bytes() const { return worker_budget.bytes - worker_budget.bytes / 100 * lendable; }
  bool operator==(const Memory&) const = default;
};

/// Changes of the configuration in the running process.
struct Reload {
  /// Configurations in use at a time, each by the connections that began with it. When there are more, those of the
  /// oldest one are drained, so that reloads cannot use up memory. 8: a day of hourly changes, with TCP sessions of
  /// some hours.
  uint32_t max_generations = 8;

  bool operator==(const Reload&) const = default;
};

/// The whole configuration.
struct Config {
  AutoCount workers;  ///< Threads. auto: as many as the affinity mask and the cgroup's CPU quota allow.
  /// Time that open connections have to finish after the first SIGTERM or SIGINT; 30 seconds is Kubernetes' grace
  /// period.
  Duration shutdown_timeout = std::chrono::seconds(30);
  /// Time between the first SIGTERM or SIGINT and the end of accepting, in which routes with `readiness` respond that
  /// the process is draining. 0 suits processes behind no load balancer.
  Duration shutdown_delay{0};
  Reload reload;
  bool watch = false;  ///< Whether changes of the configuration's files are applied without a command.
  ProcessUser user;    ///< Whom a process that is started as root changes to, once it has bound its addresses.
  CoreDumps core_dumps = CoreDumps::kAuto;
  Log log;
  std::optional<Admin> admin;
  Limits limits;
  Memory memory;
  Overload overload;
  BodyFile body_file;
  std::vector<RateLimit> rate_limits;
  std::vector<Listener> listeners;  ///< At least one.
  std::vector<Upstream> upstreams;

  bool operator==(const Config&) const = default;
};

/// The routing table: the configured routes, or one unconditional route for `forward`.
std::vector<TcpRoute> routes_of(const Tcp& tcp);
std::vector<HttpRoute> routes_of(const Http& http);

}  // namespace sluice::config
