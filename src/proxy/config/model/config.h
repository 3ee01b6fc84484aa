// The configuration as typed values: what a YAML file (loader.h) or the command line (from_flags.h) turns into.
//
// Plain structs with value semantics. Every default stands here, with its reason; the words a user reads about each key
// stand in schema.h, from which the loader, `check --print` and docs/configuration.md are derived. A Config that came
// out of load_text(), load_file() or from_flags() has passed validate(). It is read at start-up only: the data path
// keeps what it needs in its own tables and never looks at these strings.
//
//   absl::StatusOr<config::Config> config = config::load_file("sluice.yaml");
//   if (!config.ok()) return fail(config.status().message());  // one line for each finding: FILE:LINE:COLUMN: what
//   for (const config::Listener& listener : config->listeners) open(listener.address.data(),
//   listener.address.length());
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/access.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/balancing.h"
#include "proxy/config/model/buffering.h"
#include "proxy/config/model/compression.h"
#include "proxy/config/model/error_pages.h"
#include "proxy/config/model/field_name.h"
#include "proxy/config/model/health.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/identity.h"
#include "proxy/config/model/regex.h"
#include "proxy/config/model/resolve.h"
#include "proxy/config/model/retry.h"
#include "proxy/config/model/text_template.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

/// A count that may be left to the program: nullopt is written `auto`.
using AutoCount = std::optional<uint32_t>;

/// TCP keep-alive probes of one socket (TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT). Not used on Unix sockets.
struct Keepalive {
  /// Silence before the first probe; 0 turns probes off. Default 3 minutes: under the 4 to 6 minutes after which common
  /// cloud NATs and load balancers forget a silent flow, and rare enough not to wake a phone's radio every minute.
  Duration idle = std::chrono::minutes(3);
  /// Between two unanswered probes. With `probes`, a peer that vanished is found 1 minute after the first probe.
  Duration interval = std::chrono::seconds(15);
  /// Unanswered probes after which the connection counts as dead.
  uint32_t probes = 4;

  bool operator==(const Keepalive&) const = default;
};

/// Whether an accepted connection starts with a PROXY protocol header (v1 or v2, told apart by its first bytes).
enum class ProxyHeaderIn : uint8_t {
  kOff,       ///< Never: such bytes are payload.
  kOptional,  ///< A trusted source may send one.
  kRequired,  ///< A connection without one is closed and counted.
};

/// PROXY protocol on the accepting side.
struct ProxyProtocol {
  ProxyHeaderIn accept = ProxyHeaderIn::kOff;
  /// How long the header may take to arrive. It is the sender's first packet, so 5 seconds only cuts off the dead.
  Duration timeout = std::chrono::seconds(5);
  /// Sources whose header is believed. Empty: every source (not allowed with kOptional, where any client could then
  /// choose its own source address). From other sources kOptional takes the bytes as payload, kRequired closes.
  std::vector<Cidr> trusted;

  bool operator==(const ProxyProtocol&) const = default;
};

/// What must hold for a route to be taken: each list that is not empty must have an entry that fits.
struct TcpMatch {
  std::vector<HostPattern> sni;   ///< Server names of the ClientHello.
  std::vector<std::string> alpn;  ///< Protocols, one of which the ClientHello must offer.
  std::vector<std::string> peer;  ///< Who the client must have proven to be: see Alts::target_identities.

  bool operator==(const TcpMatch&) const = default;
};

/// One line of the routing table: the first that matches is taken.
struct TcpRoute {
  std::optional<TcpMatch> match;  ///< Absent: takes everything that is left; only the last route may be so.
  std::string forward;            ///< Name of an upstream.

  bool operator==(const TcpRoute&) const = default;
};

/// L4 forwarding: bytes are passed on as they are.
struct Tcp {
  std::string forward;           ///< The upstream of every connection. Either this or `routes`; see routes_of().
  std::vector<TcpRoute> routes;  ///< No route fits: the connection is closed and counted.
  /// Nothing moved in either direction for so long: closed. 1 hour is Envoy's edge default.
  Duration idle_timeout = std::chrono::hours(1);
  /// Age at which a connection is closed, however busy. 0 = unlimited: an L4 proxy cannot know that it is safe to cut.
  Duration max_duration{0};
  /// A reader that has taken nothing for so long is reset while the worker's chunk budget is used up and others wait
  /// for it. 0 = never. 5 seconds: longer than a retransmission after several losses, and short enough for the others.
  Duration stuck_timeout = std::chrono::seconds(5);
  /// How long the ClientHello may take, where routes look at it. 10 seconds: the usual bound on a TLS handshake.
  Duration inspect_timeout = std::chrono::seconds(10);
  /// Bytes queued towards one side at which reading from the other stops, per direction. 1 MiB as in Envoy: in bulk it
  /// is also what one receive may bring, and a quarter of it cost a tenth more CPU per byte. It pins memory only while
  /// the other side is slow, and is 64 KiB for all once half of memory.worker_budget is in use.
  Size buffer_high{1 * kMiB};
  /// Bytes queued at which reading goes on. Half of `buffer_high` unless given, as Envoy does.
  Size buffer_low{512 * kKiB};

  bool operator==(const Tcp&) const = default;
};

/// Which paths a route takes: one of the three is given. All are compared with the path in its canonical form, without
/// the query.
struct PathMatch {
  std::string exact;
  /// `/v1` takes `/v1` and what is below it, and not `/v10`; with a slash at its end, what is below only.
  std::string prefix;
  Regex regex;  ///< Of the whole path. What has no path (CONNECT) fits none.

  bool operator==(const PathMatch&) const = default;
};

/// What the value of something must be like: each that is given, or is not empty.
struct ValueMatch {
  std::string exact, prefix, suffix, contains;
  Regex regex;          ///< Of the whole value.
  bool negate = false;  ///< Nothing of that name may be so.

  bool operator==(const ValueMatch&) const = default;
};

/// A header field, of which one of this name must be so.
struct HeaderMatch : ValueMatch {
  FieldName name;

  bool operator==(const HeaderMatch&) const = default;
};

/// A parameter of the query, the same. Both name and value are compared as they are written, escapes included.
struct QueryMatch : ValueMatch {
  std::string name;

  bool operator==(const QueryMatch&) const = default;
};

/// What must hold for a route to be taken: each that is given.
struct HttpMatch {
  std::vector<HostPattern> host;  ///< One of which must fit. The port does not count.
  std::optional<PathMatch> path;
  std::vector<std::string> method;   ///< One of these.
  std::vector<HeaderMatch> headers;  ///< All of these,
  std::vector<QueryMatch> query;     ///< and these.
  std::vector<Cidr> source;          ///< One of which holds the client's address.
  std::vector<std::string> peer;     ///< As TcpMatch::peer.

  bool operator==(const HttpMatch&) const = default;
};

/// An answer that needs no upstream.
struct Respond {
  uint32_t status = 200;  ///< 200 to 599.
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";

  bool operator==(const Respond&) const = default;
};

/// Another path in the place of the one that was asked for; the query stays. At most one of the three.
struct PathChange {
  std::string path;
  /// In the place of HttpMatch::path's prefix, at segments: `/v1` as `/` makes `/v1/x` to `/x`.
  std::string prefix;
  /// Of the whole path, which becomes `substitution`: `\1` is what its first group took. Another path stays as it is.
  Regex regex;
  std::string substitution;

  bool leaves_path() const { return path.empty() && prefix.empty() && !regex.is_set(); }
  bool operator==(const PathChange&) const = default;
};

/// What an upstream is asked for in the place of what the client asked for.
struct Rewrite : PathChange {
  std::string host;  ///< With a port, if need be; empty: as the client said.

  bool operator==(const Rewrite&) const = default;
};

/// An answer that sends the client elsewhere. What is not given stays; but where scheme or host changes, the port that
/// the client used goes.
struct Redirect : PathChange {
  uint32_t status = 301;  ///< 301, 302, 303, 307 or 308. 301 as Envoy has it, and nginx for `permanent`.
  std::string scheme;     ///< http or https.
  std::string host;
  uint32_t port = 0;  ///< 0: the scheme's own.
  bool drop_query = false;

  bool operator==(const Redirect&) const = default;
};

/// What is done with the header fields of one name: one of the three. A value that turns out to be empty is none.
struct FieldChange {
  FieldName name;
  TextTemplate set;  ///< In the place of all that there are.
  TextTemplate add;  ///< Behind them.
  bool remove = false;

  bool operator==(const FieldChange&) const = default;
};

/// One line of the routing table: the first that matches is taken.
struct HttpRoute {
  std::optional<HttpMatch> match;  ///< Absent: takes everything.
  std::string name;                ///< In logs.
  std::string forward;             ///< Name of an upstream. Either this, `split`, `respond` or `redirect`.
  std::vector<SplitTarget> split;  ///< By weight, at random.
  std::optional<Respond> respond;
  std::optional<Redirect> redirect;
  std::optional<Rewrite> rewrite;  ///< Of what is forwarded.
  std::vector<Cidr> allow, deny;   ///< As Http's; both hold.
  std::optional<Auth> auth;
  std::optional<Cors> cors;
  std::optional<Duration> request_timeout, stream_idle_timeout;  ///< In the place of Http's,
  std::optional<Duration> response_timeout;                      ///< and of Upstream's.
  std::optional<Retry> retry;
  std::optional<Mirror> mirror;
  std::optional<Buffering> buffer;
  bool compression = true;                    ///< Where Http has one.
  std::optional<Size> max_body;               ///< In the place of Http::max_body.
  std::vector<FieldChange> request_headers;   ///< Of what is forwarded, after those of Http.
  std::vector<FieldChange> response_headers;  ///< Of every answer, after those of Http.

  bool operator==(const HttpRoute&) const = default;
};

/// What a percent-encoded slash or backslash in a path is taken for: servers differ, which is how routes are evaded.
enum class EscapedSlashes : uint8_t {
  kReject,  ///< 400.
  kKeep,    ///< It is part of a segment, and passed on as it is; 400 beside a dot segment.
  kDecode,  ///< It is a slash.
};

/// How the paths of requests are brought into the one form that routes, logs and upstreams see.
struct Paths {
  EscapedSlashes escaped_slashes = EscapedSlashes::kReject;
  /// `//` counts as `/`, as it does to many servers. Off: it is passed on, as it means something else to others.
  bool merge_slashes = false;
  /// Takes backslashes, which some servers take for slashes; else 400, and always beside a dot segment.
  bool allow_backslashes = false;
  /// Takes `..;`, `.;` and their like, whose parameters some servers cut off, which leaves a dot segment; else 400.
  bool allow_dot_parameters = false;

  bool operator==(const Paths&) const = default;
};

/// What a client of HTTP/1.1 is taken for that has shut down its sending side before its response was complete.
enum class HalfClose : uint8_t {
  kClose,  ///< Gone: after a second of silence its request ends.
  kAllow,  ///< Waiting for the response.
};

/// HTTP/1.1 with clients.
struct Http1 {
  uint32_t max_requests = 1000;  ///< On a connection; the last one's response ends it. As in nginx. 0 = any number.
  /// Takes field names with an underscore, which some servers take for a hyphen; else 400.
  bool allow_underscores = false;
  /// Skips one empty line before a request (RFC 9112 section 2.2); else 400.
  bool allow_empty_line = true;
  HalfClose half_close = HalfClose::kClose;

  bool operator==(const Http1&) const = default;
};

/// HTTP/2 with clients.
struct Http2 {
  uint32_t max_streams = 100;        ///< Requests at once on a connection.
  Size stream_window{64 * kKiB};     ///< Body that a client may send before it must wait, of one request,
  Size connection_window{1 * kMiB};  ///< and of all on a connection.
  uint32_t max_requests = 10000;     ///< Then the connection drains. 0 = any number.
  Duration preface_timeout = std::chrono::seconds(5);  ///< For the client's first words.

  bool operator==(const Http2&) const = default;
};

/// HTTP on a listener: by ALPN where TLS is terminated, else by the first bytes of a connection.
struct Http {
  std::string forward;            ///< The upstream of every request. Either this or `routes`; see routes_of().
  std::vector<HttpRoute> routes;  ///< No route fits: 404.

  /// From the first byte of a request to the end of its head. 10 seconds, as Envoy's edge guide has it.
  Duration header_timeout = std::chrono::seconds(10);
  /// A request's body that is awaited brings nothing for so long: 408. As nginx's client_body_timeout.
  Duration body_timeout = std::chrono::seconds(60);
  /// A client takes nothing of what waits for it for so long. As nginx's send_timeout.
  Duration send_timeout = std::chrono::seconds(30);
  /// Nothing moves on a request of which something waits, and memory is short. As tcp.stuck_timeout.
  Duration stuck_timeout = std::chrono::seconds(5);
  /// A connection without a request. As nginx's keepalive_timeout.
  Duration idle_timeout = std::chrono::seconds(75);
  /// A request on which nothing moves in either direction. As Envoy's stream_idle_timeout.
  Duration stream_idle_timeout = std::chrono::minutes(5);
  /// The same for tunnels (websocket, CONNECT), which are often quiet. As is usual for HAProxy's `timeout tunnel`.
  Duration tunnel_timeout = std::chrono::hours(1);
  /// A whole request, from its head to the end of the response; not of tunnels. 0 = unlimited.
  Duration request_timeout{0};
  /// Age from which a connection takes no more requests. 0 = unlimited.
  Duration max_connection_age{0};

  Size max_start_line{8 * kKiB};  ///< Method and target. Else 414.
  Size max_head{32 * kKiB};       ///< Of a request, with its start line. Else 431.
  uint32_t max_fields = 100;      ///< In it. Else 431.
  /// Of a request's body; not of tunnels. Else 413. 0 = unlimited, as in HAProxy and Envoy: nothing of a body is kept,
  /// but what the upstream is slower to take.
  Size max_body{0};
  /// Bytes of a body that wait towards one side at which reading from the other stops, as tcp.buffer_high. Per stream,
  /// so less than there; and a connection's streams have four times as much together, or 16 KiB each.
  Size buffer_high{256 * kKiB};

  std::vector<FieldChange> request_headers;   ///< Of all requests that are forwarded,
  std::vector<FieldChange> response_headers;  ///< and of all answers, our own included.
  ForwardedFor forwarded_for = ForwardedFor::kAppend;
  ForwardedFor forwarded = ForwardedFor::kOff;
  /// Proxies in front of us whose X-Forwarded-For and X-Forwarded-Proto are believed: so many, or those at these
  /// addresses, or so many behind one of these.
  uint32_t trusted_hops = 0;
  std::vector<Cidr> trusted_proxies;
  std::optional<RequestId> request_id;
  TraceContext trace_context = TraceContext::kOff;
  std::vector<Cidr> allow;  ///< Clients; empty: all. Others get 403,
  std::vector<Cidr> deny;   ///< and these, before that is looked at.
  std::optional<Compression> compression;
  std::vector<ErrorBody> errors;  ///< The first that has the status.
  std::string via = "sluice";     ///< Our name in Via, both ways. Empty: no Via.
  bool allow_connect = false;     ///< Takes CONNECT, as a request to the route's upstream; else 501.
  bool websocket = true;          ///< Takes upgrades to websocket; else 501.
  Paths paths;
  Http1 http1;
  Http2 http2;
  std::optional<AccessLog> access_log;

  bool operator==(const Http&) const = default;
};

/// A certificate with its key, in PEM files.
struct TlsCertificate {
  std::string chain;  ///< The certificate, then those that lead from it to the root.
  std::string key;
  std::string ocsp;  ///< A stapled OCSP response, in DER; empty: none.

  bool operator==(const TlsCertificate&) const = default;
};

/// The least version of TLS that is spoken.
enum class TlsVersion : uint8_t { k12, k13 };

/// Whether a client must show a certificate.
enum class ClientCertificate : uint8_t { kOff, kRequest, kRequire };

/// TLS on a listener: connections are decrypted here.
struct ListenerTls {
  /// Chosen by the server name that the client sends, from the names in the certificates. The first is for all others.
  std::vector<TlsCertificate> certificates;
  /// In the order of preference. Empty: none is agreed on; not with `http`, where it is h2 and http/1.1.
  std::vector<std::string> alpn;
  std::string client_ca;  ///< PEM file of the authorities that client certificates must come from.
  ClientCertificate client_certificate = ClientCertificate::kOff;
  uint32_t client_depth = 4;  ///< Authorities between a client certificate and one of client_ca.
  TlsVersion min_version = TlsVersion::k12;
  /// From the first byte to the last of the handshake, as `inspect_timeout`.
  Duration handshake_timeout = std::chrono::seconds(10);
  /// Handshakes at once, over all workers; 0 = unlimited. Each takes 9 KiB while it lasts: 2000 are 18 MiB.
  /// Beyond it connections are refused; above half of it handshakes that take longer than a second are ended.
  uint32_t max_handshakes = 2000;
  bool tickets = true;  ///< Whether clients get session tickets, with which they resume.
  /// Files of 80 bytes with the keys of tickets, as nginx and Envoy have: the first seals, all open. Empty: keys of our
  /// own, renewed every day, which other processes do not know.
  std::vector<std::string> ticket_keys;

  bool operator==(const ListenerTls&) const = default;
};

/// TLS towards an upstream's endpoints.
struct UpstreamTls {
  bool verify = true;                         ///< Whether the certificate must be valid, and for server_name.
  std::string ca;                             ///< PEM file of the authorities to believe. Empty: the system's.
  std::string server_name;                    ///< Sent to the endpoint, and expected in its certificate.
  std::optional<TlsCertificate> certificate;  ///< Shown to endpoints that ask for one.
  std::vector<std::string> alpn;              ///< Protocols that are offered. With Protocol::kHttp2: h2.
  TlsVersion min_version = TlsVersion::k12;

  bool operator==(const UpstreamTls&) const = default;
};

/// ALTS, Google's Application Layer Transport Security: who the other side is comes from a handshaker service, or from
/// certificates where there is none. Either `handshaker`, or `certificates` with `peer_ca`.
struct Alts {
  EndpointAddress handshaker;                ///< The service. In Google's cloud metadata.google.internal.:8080.
  std::vector<TlsCertificate> certificates;  ///< What we show.
  std::string peer_ca;                       ///< PEM file of the authorities that the peer's must come from.
  /// Of which the peer must be one: service accounts, or names in its certificate. Empty: anybody whose proof holds.
  std::vector<std::string> target_identities;
  /// Bytes of a frame that we offer to read, and would like to send. 64 KiB: enough for the largest that we send
  /// ourselves.
  Size max_frame_size{64 * kKiB};

  bool operator==(const Alts&) const = default;
};

/// ALTS on a listener.
struct ListenerAlts : Alts {
  Duration handshake_timeout = std::chrono::seconds(10);  ///< As for TLS.
  uint32_t max_handshakes = 2000;                         ///< As for TLS.

  bool operator==(const ListenerAlts&) const = default;
};

/// One socket address that connections are accepted on, and what is done with them.
struct Listener {
  std::string name;  ///< In logs and counters; unique among listeners.
  Address address;   ///< Port 0: the kernel chooses.
  /// Pending connections the kernel keeps (per worker); it clamps to net.core.somaxconn, whose default is also 4096.
  uint32_t backlog = 4096;
  /// Open connections of this listener, 0 = unlimited. 10,000 is the example of Envoy's edge guide.
  uint32_t max_connections = 10000;
  /// Open connections from one IPv4 address or IPv6 /64 (what one IPv6 customer has at the least), 0 = unlimited.
  /// Not applied to Unix sockets. With the PROXY protocol, the address in the header counts. Off: behind a load
  /// balancer or in front of a large NAT, one source is many clients. An edge that faces clients directly wants 512 or
  /// so.
  uint32_t max_connections_per_source = 0;
  ProxyProtocol proxy_protocol;
  Keepalive keepalive;
  bool nodelay = true;  ///< TCP_NODELAY: the sender has already decided what is one write; waiting adds latency only.
  std::optional<ListenerTls> tls;  ///< Without it and `alts`, bytes are passed on as they are.
  std::optional<ListenerAlts> alts;
  std::optional<Tcp> tcp;  ///< Either this or `http`.
  std::optional<Http> http;

  bool operator==(const Listener&) const = default;
};

/// What an upstream's endpoints speak.
enum class Protocol : uint8_t {
  kAuto,   ///< What is forwarded to them: bytes from `tcp`, HTTP/1.1 from `http`.
  kTcp,    ///< Nothing that we know: not for `http`.
  kHttp1,  ///< HTTP/1.1. From `tcp` they get bytes all the same.
  kHttp2,
};

/// An upstream's connections that HTTP requests share, on one worker.
struct Pool {
  /// To one endpoint, of HTTP/1.1; what is more is closed. Bounds what a burst leaves behind; idle_timeout does the
  /// rest.
  uint32_t max_idle = 512;
  /// A connection without a request. Below the 60 to 75 seconds that servers are usually set to, so that it is us who
  /// close it, and no request meets the end.
  Duration idle_timeout = std::chrono::seconds(50);
  uint32_t max_requests = 10000;  ///< On a connection. 0 = any number.
  uint32_t max_streams = 100;     ///< Requests at once on a connection of HTTP/2, if the endpoint allows them.
  uint32_t max_pending = 1024;    ///< Requests that wait for a connection. Else 503. As Envoy's circuit breakers.

  bool operator==(const Pool&) const = default;
};

/// Which PROXY protocol header is sent to an endpoint.
enum class ProxyHeaderOut : uint8_t { kOff, kV1, kV2 };

/// One server of an upstream, or all that a name stands for.
struct Endpoint {
  EndpointAddress address;  ///< Or a name, for all of its addresses. Port 0 is refused.
  ServiceName srv;          ///< In its place: the records of this name, with weights and priorities of their own.
  uint32_t weight = 1;      ///< 1..1000: its share of the connections, relative to the others'. Of each address.
  uint32_t priority = 0;    ///< The lowest is used as long as enough of its endpoints can be.

  /// Whether it stands for what a name server says.
  bool is_resolved() const { return address.is_name() || !srv.empty(); }
  /// As in logs and counters.
  std::string text() const { return srv.empty() ? address.text() : srv.text(); }

  bool operator==(const Endpoint&) const = default;
};

/// A named set of servers that are interchangeable.
struct Upstream {
  std::string name;  ///< What `forward` refers to; unique among upstreams.
  Protocol protocol = Protocol::kAuto;
  std::vector<Endpoint> endpoints;  ///< At least one.
  Balance balance = Balance::kRoundRobin;
  std::optional<HashKey> hash;
  std::optional<Sticky> sticky;
  Duration slow_start{0};
  /// Percent of a priority's endpoints. 71: Envoy's overprovisioning factor of 1.4.
  uint32_t failover_below = 71;
  std::optional<HealthCheck> health_check;
  std::optional<Ejection> ejection;
  Resolve resolve;
  RetryBudget retry_budget;
  /// For one attempt on one endpoint. 5 seconds: one lost SYN (1 s) and a second (3 s) still succeed.
  Duration connect_timeout = std::chrono::seconds(5);
  /// Different endpoints tried for one connection; never more than there are, so one endpoint means one attempt.
  uint32_t connect_attempts = 3;
  /// Failed attempts in a row after which an endpoint is passed over for `fail_timeout` (unless all of them are);
  /// 0 = never. As nginx's max_fails, whose default is 1 too: the next attempt after the pause is the probe.
  uint32_t max_fails = 1;
  Duration fail_timeout = std::chrono::seconds(10);  ///< nginx's default.
  /// Open connections to one endpoint, 0 = unlimited: the listeners' limits already bound the sum.
  uint32_t max_connections_per_endpoint = 0;
  ProxyHeaderOut send_proxy_protocol = ProxyHeaderOut::kOff;
  Keepalive keepalive;
  bool nodelay = true;
  std::optional<UpstreamTls> tls;
  std::optional<Alts> alts;
  Pool pool;
  /// From the end of a request to the head of its response. Else 504. As nginx's proxy_read_timeout.
  Duration response_timeout = std::chrono::seconds(60);

  bool operator==(const Upstream&) const = default;
};

/// The constant behind `limits.max_connections: auto`; see Limits.
inline constexpr uint32_t kDefaultMaxConnections = 50000;

/// Bounds on the whole process.
struct Limits {
  /// Open accepted connections over all listeners. auto: the lesser of kDefaultMaxConnections and half of the
  /// file-descriptor limit (each has a second socket, to the endpoint), both from Envoy's edge guide.
  AutoCount max_connections;

  bool operator==(const Limits&) const = default;
};

/// Which provided-buffer rings receive data.
enum class Rings : uint8_t {
  kAuto,         ///< Incremental where the kernel's pass the start-up test, plain elsewhere.
  kPlain,        ///< One buffer, one receive.
  kIncremental,  ///< Several receives share a buffer; starting fails where the kernel cannot.
};

/// Chunk memory. All of it is per worker, since workers share nothing.
struct Memory {
  /// Bytes of chunks one worker may hold. A quarter is a reserve: docs/memory.md. 256 MiB
  /// is some hundred connections stalled at the high mark, and thousands at the lower ones that hold when little is
  /// left.
  Size worker_budget{256 * kMiB};
  /// Buffers posted per ring, a power of two (the kernel's rule): of 64 KiB for bulk streams, and of 16 KiB for the
  /// others (plain rings: four times as many of 4 KiB). 16 are 1.25 MiB in all, which stay warm in a core's cache.
  uint32_t ring_entries = 16;
  /// Sends of at least this size are left to the network card without a copy (SENDMSG_ZC); 0 = never. Off: it pays only
  /// on real cards and for large sends, from where on depends on the card. A connection on which the kernel reports
  /// that it copied all the same goes back to plain sends.
  Size zero_copy_from{0};
  Rings rings = Rings::kAuto;

  bool operator==(const Memory&) const = default;
};

/// The whole configuration.
struct Config {
  AutoCount workers;  ///< Threads. auto: what the affinity mask and the cgroup's CPU quota allow.
  /// How long the first SIGTERM or SIGINT lets open connections end by themselves; 30 seconds is what Kubernetes gives.
  Duration shutdown_timeout = std::chrono::seconds(30);
  Limits limits;
  Memory memory;
  BodyFile body_file;
  std::vector<Listener> listeners;  ///< At least one.
  std::vector<Upstream> upstreams;

  bool operator==(const Config&) const = default;
};

/// The routing table of `tcp`, however it was written: its routes, or one route without conditions for its `forward`.
std::vector<TcpRoute> routes_of(const Tcp& tcp);
std::vector<HttpRoute> routes_of(const Http& http);

}  // namespace sluice::config
