// Every key of the configuration: its name, the field it stands for, its bounds, and a line of help.
//
// describe(visitor, value) shows the visitor each field of `value`. The loader, the printer and the key reference are
// such visitors, so that they cannot disagree: a key that is added here is read, printed and documented. A visitor has
//
//   template <class T> void field(std::string_view key, T& value, std::string_view help, const Rules& rules = {});
//   void unavailable(std::string_view key, std::string_view instead, std::string_view stands_for = "");
//
// T is a Scalar, a struct with describe(), a std::optional of such a struct, or a std::vector of either. The second one
// is for keys that are known and refused in this version; a file that has one may lack the key that it `stands_for`.
// What concerns several keys at once (a name that must exist, a mark below another) is in validate.cc.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "proxy/config/config.h"
#include "proxy/config/scalar.h"

namespace sluice::config {

inline constexpr uint64_t kNoMaximum = std::numeric_limits<uint64_t>::max();

/// What a field's value must obey. Bounds count milliseconds, bytes, or items of a list.
struct Rules {
  bool required = false;
  std::string_view unless{};  ///< This key of the same map stands in for it.
  bool omit_empty = false;    ///< The printer leaves an empty one out, as "given" and "empty" mean different things.
  bool one_word = false;      ///< A list of one may be written as the one.
  uint64_t min = 0;
  uint64_t max = kNoMaximum;
  uint64_t step = 1;                ///< The value must be a multiple of it.
  std::string_view default_text{};  ///< For the reference, where the default depends on something else.
};

template <class V>
void describe(V& v, Keepalive& k) {
  constexpr uint64_t kSecondMs = 1000;
  constexpr uint64_t kMaxMs = 32767 * kSecondMs;  // the kernel's MAX_TCP_KEEPIDLE and MAX_TCP_KEEPINTVL
  v.field("idle", k.idle, "Silence before the first TCP keep-alive probe, in whole seconds; 0 turns probes off.",
          {.max = kMaxMs, .step = kSecondMs});
  v.field("interval", k.interval, "Time between unanswered probes, in whole seconds.",
          {.min = kSecondMs, .max = kMaxMs, .step = kSecondMs});
  v.field("probes", k.probes, "Unanswered probes after which the connection counts as dead.", {.min = 1, .max = 127});
}

template <class V>
void describe(V& v, ProxyProtocol& p) {
  v.field("accept", p.accept,
          "Whether a connection starts with a PROXY protocol header (v1 or v2). `optional` needs `trusted`.");
  v.field("timeout", p.timeout, "How long that header may take to arrive.", {.min = 1});
  v.field("trusted", p.trusted,
          "Sources whose header is believed; empty means all. From others, `optional` takes the bytes as payload and "
          "`required` closes the connection.");
}

template <class V>
void describe(V& v, TcpMatch& m) {
  v.field("sni", m.sni, "TLS server names, one of which must fit; in `*.example.com` the star is exactly one label.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("alpn", m.alpn, "Application protocols, one of which the client must offer.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field(
      "peer", m.peer,
      "Identities, one of which the client must have proven with a certificate or by ALTS: see `target_identities`.",
      {.omit_empty = true, .one_word = true, .min = 1});
}

template <class V>
void describe(V& v, TcpRoute& r) {
  v.field("match", r.match, "What the TLS ClientHello must say. Without it the route takes all that is left.",
          {.omit_empty = true});
  v.field("forward", r.forward, "Name of the upstream.", {.required = true});
}

template <class V>
void describe(V& v, Tcp& t) {
  v.field("forward", t.forward, "Name of the upstream of every connection. Give either this or `routes`.",
          {.omit_empty = true});
  v.field("routes", t.routes, "Tried in order, the first that matches is taken; without one the connection is closed.",
          {.omit_empty = true, .min = 1});
  v.field("idle_timeout", t.idle_timeout, "Closes a connection on which nothing moved for so long; 0 = never.");
  v.field("max_duration", t.max_duration, "Closes a connection at this age, however busy; 0 = never.");
  v.field(
      "stuck_timeout", t.stuck_timeout,
      "Resets a connection whose reader took nothing for so long, but only while `memory.worker_budget` is used up and "
      "others wait for it; 0 = never.");
  v.field("inspect_timeout", t.inspect_timeout, "How long the ClientHello may take, where routes look at it.",
          {.min = 1});
  v.field("buffer_high", t.buffer_high, "Bytes queued towards one side at which reading from the other stops.",
          {.min = 4 * kKiB, .max = kGiB});
  v.field("buffer_low", t.buffer_low, "Bytes queued at which reading goes on; below `buffer_high`.",
          {.default_text = "half of `buffer_high`"});
}

template <class V>
void describe(V& v, PathMatch& p) {
  v.field("exact", p.exact, "This path. Give either this or `prefix`.", {.omit_empty = true});
  v.field("prefix", p.prefix,
          "Paths below this one: `/v1` is for `/v1` and `/v1/x`, not for `/v10`; `/v1/` is not for `/v1` itself.",
          {.omit_empty = true});
}

/// What to write where a map is expected and a word was found.
inline std::string_view instead_of_word(const PathMatch&) { return "{ prefix: PATH } or { exact: PATH }"; }

template <class V>
void describe(V& v, ValueMatch& m) {
  v.field("exact", m.exact, "The value.", {.omit_empty = true});
  v.field("prefix", m.prefix, "How it begins.", {.omit_empty = true});
  v.field("suffix", m.suffix, "How it ends.", {.omit_empty = true});
  v.field("contains", m.contains, "What is in it.", {.omit_empty = true});
  v.field("not", m.negate, "Turns it around: nothing of this name may be so, or, without a value, be there at all.");
}

template <class V>
void describe(V& v, HeaderMatch& m) {
  v.field("name", m.name, "Of the field. Without anything else, it must be there.", {.required = true});
  describe(v, static_cast<ValueMatch&>(m));
}

template <class V>
void describe(V& v, QueryMatch& m) {
  v.field("name", m.name, "Of the parameter. Without anything else, it must be there.", {.required = true});
  describe(v, static_cast<ValueMatch&>(m));
}

/// What to write where a map is expected and a word was found.
inline std::string_view instead_of_word(const HeaderMatch&) { return "{ name: FIELD, exact: VALUE }"; }
inline std::string_view instead_of_word(const QueryMatch&) { return "{ name: PARAMETER, exact: VALUE }"; }

template <class V>
void describe(V& v, HttpMatch& m) {
  v.field("host", m.host, "Hosts, one of which must fit; in `*.example.com` the star is exactly one label.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("path", m.path, "Which paths fit: compared in their canonical form, without the query.",
          {.omit_empty = true});
  v.field("method", m.method, "Methods, one of which it must be.", {.omit_empty = true, .one_word = true, .min = 1});
  v.field("headers", m.headers, "Header fields, of each of which one must be so.", {.omit_empty = true, .min = 1});
  v.field("query", m.query, "Parameters of the query, the same; compared as they are written.",
          {.omit_empty = true, .min = 1});
  v.field("source", m.source, "Ranges, one of which must hold the client's address.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("peer", m.peer,
          "Identities, one of which the client must have proven with a certificate or by ALTS: see "
          "`target_identities`.",
          {.omit_empty = true, .one_word = true, .min = 1});
}

template <class V>
void describe(V& v, Respond& r) {
  v.field("status", r.status, "Status of the response.", {.min = 200, .max = 599});
  v.field("body", r.body, "Its body.");
  v.field("content_type", r.content_type, "Type of the body.");
}

template <class V>
void describe(V& v, PathChange& p) {
  v.field("path", p.path, "This path, in the place of the one asked for; the query stays.", {.omit_empty = true});
  v.field("prefix", p.prefix, "In the place of what `match.path.prefix` says: for `/v1` and `/`, `/v1/x` becomes `/x`.",
          {.omit_empty = true});
}

template <class V>
void describe(V& v, Rewrite& r) {
  describe(v, static_cast<PathChange&>(r));
  v.field("host", r.host, "Host that the upstream is told, with a port if need be.", {.omit_empty = true});
}

template <class V>
void describe(V& v, Redirect& r) {
  v.field("status", r.status, "301, 302, 303, 307 or 308.", {.min = 301, .max = 308});
  v.field("scheme", r.scheme, "`http` or `https`.", {.omit_empty = true});
  v.field("host", r.host, "Another host.", {.omit_empty = true});
  v.field("port", r.port,
          "Another port; 0: the one that the client used, or, with `scheme` or `host`, that of the scheme.",
          {.max = 65535});
  describe(v, static_cast<PathChange&>(r));
  v.field("drop_query", r.drop_query, "Leaves the query out.");
}

template <class V>
void describe(V& v, FieldChange& c) {
  v.field("name", c.name, "Of the field.", {.required = true});
  v.field("set", c.set, "One field with this value, in the place of all that there are; if it is empty, none.",
          {.omit_empty = true});
  v.field("add", c.add, "One more field with this value.", {.omit_empty = true});
  v.field("remove", c.remove, "Takes all fields of this name out.");
}

inline std::string_view instead_of_word(const FieldChange&) { return "{ name: FIELD, set: VALUE }"; }

template <class V>
void describe(V& v, HttpRoute& r) {
  v.field("match", r.match, "What must hold. Without it the route takes all that is left.", {.omit_empty = true});
  v.field("forward", r.forward, "Name of the upstream. Give either this, `respond` or `redirect`.",
          {.omit_empty = true});
  v.field("respond", r.respond, "Answers here, without an upstream.", {.omit_empty = true});
  v.field("redirect", r.redirect, "Sends the client elsewhere.", {.omit_empty = true});
  v.field("rewrite", r.rewrite, "What the upstream is asked for, in the place of what the client asked for.",
          {.omit_empty = true});
  v.field("max_body", r.max_body, "A request's body, in the place of the listener's `max_body`.", {.omit_empty = true});
  v.field("request_headers", r.request_headers, "Changes to what is forwarded, after those of the listener.",
          {.omit_empty = true, .min = 1});
  v.field("response_headers", r.response_headers, "Changes to every answer, after those of the listener.",
          {.omit_empty = true, .min = 1});
}

template <class V>
void describe(V& v, Paths& p) {
  v.field("escaped_slashes", p.escaped_slashes,
          "What is done with `%2F` and `%5C` in a path: `reject` answers 400, `keep` passes them on within a segment, "
          "`decode` takes them for slashes.");
  v.field("merge_slashes", p.merge_slashes, "`//` counts as `/`.");
  v.field("allow_backslashes", p.allow_backslashes, "Passes backslashes on; else 400.");
  v.field("allow_dot_parameters", p.allow_dot_parameters, "Passes segments such as `..;x` on; else 400.");
}

template <class V>
void describe(V& v, Http1& h) {
  v.field("max_requests", h.max_requests, "Requests on a connection; the last one's response ends it; 0 = unlimited.");
  v.field("allow_underscores", h.allow_underscores, "Takes field names with an underscore; else 400.");
  v.field("allow_empty_line", h.allow_empty_line, "Skips one empty line before a request; else 400.");
}

template <class V>
void describe(V& v, Http2& h) {
  v.field("max_streams", h.max_streams, "Requests at once on a connection.", {.min = 1, .max = 65535});
  v.field("stream_window", h.stream_window, "Body that a client may send ahead, of one request.",
          {.min = 4 * kKiB, .max = kGiB});
  v.field("connection_window", h.connection_window,
          "Body that a client may send ahead, of all requests on a connection.", {.min = 64 * kKiB, .max = kGiB});
  v.field("max_requests", h.max_requests, "Requests after which a connection drains; 0 = unlimited.");
  v.field("preface_timeout", h.preface_timeout, "How long a client's first words may take.", {.min = 1});
}

template <class V>
void describe(V& v, Http& h) {
  v.field("forward", h.forward, "Name of the upstream of every request. Give either this or `routes`.",
          {.omit_empty = true});
  v.field("routes", h.routes, "Tried in order, the first that matches is taken; without one the answer is 404.",
          {.omit_empty = true, .min = 1});
  v.field("header_timeout", h.header_timeout, "How long a request's head may take, from its first byte.", {.min = 1});
  v.field("body_timeout", h.body_timeout, "Answers 408 when a body that is awaited brings nothing for so long.",
          {.min = 1});
  v.field("send_timeout", h.send_timeout, "Closes a connection whose client takes nothing of what waits for so long.",
          {.min = 1});
  v.field("stuck_timeout", h.stuck_timeout,
          "Ends a request of which something waits, when nothing has moved for so long, but only while "
          "`memory.worker_budget` is used up and others wait for it; 0 = never.");
  v.field("idle_timeout", h.idle_timeout, "Closes a connection without a request.", {.min = 1});
  v.field("stream_idle_timeout", h.stream_idle_timeout, "Ends a request on which nothing moved for so long.",
          {.min = 1});
  v.field("tunnel_timeout", h.tunnel_timeout, "The same for websockets and CONNECT.", {.min = 1});
  v.field("request_timeout", h.request_timeout,
          "Ends a request at this age, however busy; not websockets and CONNECT; 0 = never.");
  v.field("max_connection_age", h.max_connection_age,
          "Age from which a connection takes no more requests; 0 = unlimited.");
  v.field("max_start_line", h.max_start_line, "Method and target of a request; beyond it 414.",
          {.min = kKiB, .max = 64 * kKiB});
  v.field("max_head", h.max_head, "A request's head in all; beyond it 431.", {.min = kKiB, .max = 64 * kKiB});
  v.field("max_fields", h.max_fields, "Fields in it; beyond it 431.", {.min = 1, .max = 1000});
  v.field("max_body", h.max_body, "A request's body that is forwarded; beyond it 413; 0 = unlimited.");
  v.field("buffer_high", h.buffer_high,
          "Bytes of one body queued towards one side at which reading from the other stops; below half of it reading "
          "goes on.",
          {.min = 4 * kKiB, .max = kGiB});
  v.field("request_headers", h.request_headers,
          "Changes to the header fields of all requests that are forwarded, in this order.",
          {.omit_empty = true, .min = 1});
  v.field("response_headers", h.response_headers,
          "Changes to the header fields of all answers, those of this proxy included.", {.omit_empty = true, .min = 1});
  v.field("forwarded_for", h.forwarded_for,
          "What X-Forwarded-For says to upstreams: the client's address is added to what the client sent, or takes "
          "its place; `off` passes on what the client sent.");
  v.field("via", h.via, "Our name in Via, in requests and responses; empty: no Via.");
  v.field("allow_connect", h.allow_connect, "Forwards CONNECT; else 501.");
  v.field("websocket", h.websocket, "Takes upgrades to websocket; else 501.");
  v.field("paths", h.paths, "How paths are brought into their canonical form.");
  v.field("http1", h.http1, "HTTP/1.1 with clients.");
  v.field("http2", h.http2, "HTTP/2 with clients.");
  v.field("access_log", h.access_log, "File, `stdout` or `stderr`, which gets a line for each request.",
          {.omit_empty = true});
}

template <class V>
void describe(V& v, TlsCertificate& c) {
  v.field("chain", c.chain, "PEM file: the certificate, then those that lead from it to its root.", {.required = true});
  v.field("key", c.key, "PEM file of its private key.", {.required = true});
  v.field("ocsp", c.ocsp, "DER file of an OCSP response to staple.", {.omit_empty = true});
}

template <class V>
void describe(V& v, ListenerTls& t) {
  v.field("certificates", t.certificates,
          "Chosen by the server name that the client sends, from the names in them; several for one name (ECDSA, RSA) "
          "are chosen by what the client can. The first is for clients that name no other.",
          {.required = true, .min = 1});
  v.field("alpn", t.alpn,
          "Application protocols, in the order of preference; a client that offers only others is refused.",
          {.omit_empty = true, .min = 1, .default_text = "with `http`: `[ h2, http/1.1 ]`"});
  v.field("client_ca", t.client_ca, "PEM file of the authorities that client certificates must come from.",
          {.omit_empty = true});
  v.field("client_certificate", t.client_certificate,
          "Whether a client certificate is asked for, and whether it must be there; needs `client_ca`.");
  v.field("client_depth", t.client_depth, "Authorities allowed between a client certificate and one of `client_ca`.",
          {.max = 100});
  v.field("min_version", t.min_version, "The least version of TLS.");
  v.field("handshake_timeout", t.handshake_timeout, "How long the handshake may take.", {.min = 1});
  v.field("max_handshakes", t.max_handshakes,
          "Handshakes at once; beyond it connections are refused, and above half of it a handshake may take one second "
          "only; 0 = unlimited.");
  v.field("tickets", t.tickets, "Whether clients get session tickets, to resume with.");
  v.field(
      "ticket_keys", t.ticket_keys,
      "Files of 80 random bytes (`openssl rand 80`) with the keys of session tickets, for processes that share them: "
      "the first seals, all open. Without them keys are made here, and renewed every day.",
      {.omit_empty = true, .min = 1});
}

template <class V>
void describe(V& v, UpstreamTls& t) {
  v.field("verify", t.verify, "Whether an endpoint's certificate must be valid, for `server_name`.");
  v.field("ca", t.ca, "PEM file of the authorities to believe; without it the system's.", {.omit_empty = true});
  v.field("server_name", t.server_name, "Name sent to the endpoint and expected in its certificate.",
          {.omit_empty = true});
  v.field("certificate", t.certificate, "Shown to endpoints that ask for one.", {.omit_empty = true});
  v.field("alpn", t.alpn, "Application protocols that are offered.",
          {.omit_empty = true, .min = 1, .default_text = "with `protocol: http2`: `[ h2 ]`"});
  v.field("min_version", t.min_version, "The least version of TLS.");
}

template <class V>
void describe(V& v, Alts& a) {
  v.field("handshaker", a.handshaker,
          "Address of the ALTS handshaker service. Give either this, or `certificates` with `peer_ca`.",
          {.omit_empty = true});
  v.field("certificates", a.certificates,
          "Without a service, between Sluices: the certificate that is shown to the peer, which must show one too.",
          {.omit_empty = true, .min = 1});
  v.field("peer_ca", a.peer_ca, "PEM file of the authorities that the peer's certificate must come from.",
          {.omit_empty = true});
  v.field("target_identities", a.target_identities,
          "Of which the peer must be one: service accounts, or names in its certificate (URI, DNS, e-mail, else the "
          "common name). Without them, any peer whose proof holds.",
          {.omit_empty = true, .min = 1});
  v.field("max_frame_size", a.max_frame_size, "Largest frame that is offered to the peer, and sent where it agrees.",
          {.min = 16 * kKiB, .max = kMiB});
}

template <class V>
void describe(V& v, ListenerAlts& a) {
  describe(v, static_cast<Alts&>(a));
  v.field("handshake_timeout", a.handshake_timeout, "How long the handshake may take.", {.min = 1});
  v.field("max_handshakes", a.max_handshakes, "Handshakes at once, as in `tls`; 0 = unlimited.");
}

template <class V>
void describe(V& v, Listener& l) {
  v.field("name", l.name, "Name in logs and counters.", {.required = true});
  v.field("address", l.address,
          "Where to accept: `0.0.0.0:443`, `\"[::]:443\"` (IPv6 only), `unix:/run/a.sock` or `unix:@abstract`; port 0 "
          "lets the "
          "kernel choose.",
          {.required = true});
  v.field("backlog", l.backlog, "Connections the kernel keeps waiting, per worker (it clamps to net.core.somaxconn).",
          {.min = 1, .max = 65535});
  v.field("max_connections", l.max_connections, "Open connections of this listener; 0 = unlimited.");
  v.field("max_connections_per_source", l.max_connections_per_source,
          "Open connections from one IPv4 address or IPv6 /64; 0 = unlimited.");
  v.field("proxy_protocol", l.proxy_protocol, "The client's address as told by a proxy in front.");
  v.field("keepalive", l.keepalive, "Keep-alive probes towards clients.");
  v.field("nodelay", l.nodelay, "TCP_NODELAY towards clients.");
  v.field("tls", l.tls, "Terminates TLS here. Without it TLS passes through, and routes may look at its ClientHello.",
          {.omit_empty = true});
  v.field("alts", l.alts, "Terminates ALTS here, in the place of TLS.", {.omit_empty = true});
  v.field("tcp", l.tcp, "Forwards bytes as they are.", {.required = true, .unless = "http", .omit_empty = true});
  v.field("http", l.http,
          "Forwards requests of HTTP/1.1 and HTTP/2. Which one a client speaks is told by ALPN, else by its first "
          "bytes.",
          {.unless = "tcp", .omit_empty = true});
}

template <class V>
void describe(V& v, Endpoint& e) {
  v.field("address", e.address, "As a listener's, with a port.", {.required = true});
  v.field("weight", e.weight, "Share of the connections, relative to the others'.", {.min = 1, .max = 1000});
}

/// An endpoint may be written as its address alone.
inline Address& shorthand(Endpoint& e) { return e.address; }

template <class V>
void describe(V& v, Pool& p) {
  v.field("max_idle", p.max_idle,
          "Connections of HTTP/1.1 without a request that are kept, to one endpoint; 0 = none.");
  v.field("idle_timeout", p.idle_timeout,
          "Closes a connection without a request; less than the endpoints' own, so that no request meets their end.",
          {.min = 1});
  v.field("max_requests", p.max_requests, "Requests on a connection; 0 = unlimited.");
  v.field("max_streams", p.max_streams, "Requests at once on a connection of HTTP/2, if the endpoint allows them.",
          {.min = 1, .max = 65535});
  v.field("max_pending", p.max_pending, "Requests that wait for a connection; beyond it 503.", {.min = 1});
}

template <class V>
void describe(V& v, Upstream& u) {
  v.field("name", u.name, "What `forward` refers to.", {.required = true});
  v.field("protocol", u.protocol,
          "What the endpoints speak with `http` listeners, where `auto` is `http1`. From `tcp` they get bytes as they "
          "are.");
  v.field("endpoints", u.endpoints, "The servers, each an address or a map.", {.required = true, .min = 1});
  v.field(
      "balance", u.balance,
      "How an endpoint is chosen: in turn, by the fewest connections (or requests, from `http`) that are open, by the "
      "fewer of two chosen at random, or at random. All honour weights.");
  v.field("connect_timeout", u.connect_timeout, "For one attempt to connect to one endpoint.", {.min = 1});
  v.field("connect_attempts", u.connect_attempts,
          "Different endpoints tried for one connection; never more than there are.", {.min = 1, .max = 100});
  v.field("max_fails", u.max_fails,
          "Failed attempts in a row after which an endpoint is passed over for `fail_timeout`, unless all are; "
          "0 = never.");
  v.field("fail_timeout", u.fail_timeout, "How long it is passed over.", {.min = 1});
  v.field("max_connections_per_endpoint", u.max_connections_per_endpoint,
          "Open connections to one endpoint; 0 = unlimited.");
  v.field("send_proxy_protocol", u.send_proxy_protocol,
          "PROXY protocol header sent to endpoints, not for `http`; `v2` also says what TLS was spoken with the "
          "client, and the name "
          "in its "
          "certificate.");
  v.field("keepalive", u.keepalive, "Keep-alive probes towards endpoints.");
  v.field("nodelay", u.nodelay, "TCP_NODELAY towards endpoints.");
  v.field("tls", u.tls, "Speaks TLS to the endpoints.", {.omit_empty = true});
  v.field("alts", u.alts, "Speaks ALTS to the endpoints, in the place of TLS.", {.omit_empty = true});
  v.field("pool", u.pool, "Connections that the requests of `http` listeners share, on one worker.");
  v.field("response_timeout", u.response_timeout,
          "From the end of a request to the head of its response; beyond it 504.", {.min = 1});
}

template <class V>
void describe(V& v, Limits& l) {
  v.field("max_connections", l.max_connections,
          "Open connections of the whole process. `auto`: 50000, or half of the file-descriptor limit if that is less.",
          {.min = 1});
}

template <class V>
void describe(V& v, Memory& m) {
  v.field("worker_budget", m.worker_budget,
          "Buffer memory one worker may hold. At the bound receiving pauses until some is free.", {.min = kMiB});
  v.field("ring_entries", m.ring_entries, "Buffers posted to the kernel per ring tier and worker; a power of two.",
          {.min = 1, .max = 32768});
  v.field("zero_copy_from", m.zero_copy_from, "Sends of at least this size go out without a copy; 0 = never.");
  v.field("rings", m.rings, "Kind of provided-buffer rings. `auto`: incremental where the kernel can.");
}

template <class V>
void describe(V& v, Config& c) {
  v.field("workers", c.workers, "Threads. `auto`: the CPUs that the affinity mask and the cgroup's quota allow.",
          {.min = 1, .max = 1024});
  v.field("shutdown_timeout", c.shutdown_timeout,
          "How long open connections may go on after the first SIGTERM or SIGINT; a second one ends them.");
  v.field("limits", c.limits, "Bounds on the whole process.");
  v.field("memory", c.memory, "Buffer memory.");
  v.field("listeners", c.listeners, "Where connections are accepted, and what is done with them.",
          {.required = true, .min = 1});
  v.field("upstreams", c.upstreams, "Named sets of servers that connections are forwarded to.");
  v.unavailable("admin", "--stats prints the counters");
}

}  // namespace sluice::config
