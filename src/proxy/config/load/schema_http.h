// The keys of an HTTP listener: see schema.h.
#pragma once

#include <string>
#include <string_view>

#include "proxy/config/load/schema_rules.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

template <class V>
void describe(V& v, Buffering& b) {
  v.field("requests", b.requests,
          "The request is sent to the upstream when it is complete, or when this much of its body has arrived; 0 = "
          "when its head has arrived.");
  v.field("responses", b.responses,
          "How much of a response's body may be buffered for the client, so that the upstream can finish early; 0 = "
          "`buffer_high`.");
}

template <class V>
void describe(V& v, Mirror& m) {
  v.field("to", m.to, "Name of the upstream that gets the copies; its responses are dropped.", {.required = true});
  v.field("percent", m.percent, "Share of the requests that are copied.", {.max = 100});
}

template <class V>
void describe(V& v, Retry& r) {
  v.field("on", r.on,
          "Failures after which a request is retried: `connect_failure`, `refused` (the endpoint did not process it), "
          "and, for idempotent methods, `reset`, `timeout` (see `try_timeout`), `5xx`, `gateway_error` (502, 503, "
          "504); for gRPC `grpc_unavailable`, `grpc_resource_exhausted`.",
          {.omit_empty = true, .one_word = true, .min = 1, .default_text = "`[ connect_failure, refused ]`"});
  v.field("retriable_status_codes", r.retriable_status_codes,
          "Further statuses, from 400 to 599, after which a request with an idempotent method is retried.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("attempts", r.attempts, "Attempts in total, including the first.", {.min = 1, .max = 10});
  v.field("try_timeout", r.try_timeout,
          "For one attempt, from the end of the request to the head of the response; 0 = `response_timeout`.");
  v.field("backoff", r.backoff,
          "Upper bound of the random wait before the second attempt; doubled for each further attempt.");
  v.field("max_backoff", r.max_backoff, "Upper bound of `backoff` as it doubles.");
  v.field("hedge_after", r.hedge_after,
          "If no response arrives within this time, the request is also sent to another endpoint, and the first "
          "response is used; idempotent methods only; 0 = never.");
}

template <class V>
void describe(V& v, BasicAuth& b) {
  v.field("users_file", b.users_file, "Lines of NAME:HASH, as `htpasswd` writes them.", {.required = true});
  v.field("realm", b.realm, "What the password is for, as browsers show it.");
}

template <class V>
void describe(V& v, ClaimHeader& c) {
  v.field("claim", c.claim, "Name of the claim.", {.required = true});
  v.field("header", c.header, "Header field in which upstreams get its value.", {.required = true});
}

inline std::string_view instead_of_word(const ClaimHeader&) { return "{ claim: sub, header: x-user }"; }

template <class V>
void describe(V& v, JwtAuth& j) {
  constexpr uint64_t kMaxLeewayMs = 3'600'000;
  v.field("jwks_file", j.jwks_file, "JSON Web Key Set with the public keys: RSA, EC (P-256, P-384), OKP (Ed25519).",
          {.required = true});
  v.field("issuer", j.issuer, "What `iss` must be.", {.omit_empty = true});
  v.field("audience", j.audience, "Values, one of which `aud` must contain.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("leeway", j.leeway, "By how much clocks may differ.", {.max = kMaxLeewayMs});
  v.field("header", j.header, "Field that the token is in.");
  v.field("scheme", j.scheme, "Scheme before the token in that field; empty: none.");
  v.field("cookie", j.cookie, "Cookie that holds the token if the field is absent.", {.omit_empty = true});
  v.field("claims", j.claims, "Claims that upstreams get in header fields.", {.omit_empty = true, .min = 1});
}

template <class V>
void describe(V& v, Auth& a) {
  v.field("basic", a.basic, "A name and a password. Give either this or `jwt`.", {.omit_empty = true});
  v.field("jwt", a.jwt, "A signed token.", {.omit_empty = true});
  v.field("forward", a.forward, "Whether the field with the password or the token is forwarded.");
}

template <class V>
void describe(V& v, Maintenance& m) {
  v.field("file", m.file, "The route is down while this file exists. Each worker looks once a second.",
          {.required = true});
  v.field("retry_after", m.retry_after, "Value of Retry-After, in whole seconds.", {.step = 1000});
}

inline std::string_view instead_of_word(const Maintenance&) { return "{ file: PATH }"; }

template <class V>
void describe(V& v, RateKey& k) {
  v.field("source", k.source, "The client's IPv4 address or IPv6 /64.");
  v.field("route", k.route, "The route, with its listener.");
  v.field("host", k.host, "The host.");
  v.field("sni", k.sni, "The server name that a TLS client sent.");
  v.field("peer", k.peer, "The identity that the client has authenticated as: see `target_identities`.");
  v.field("header", k.header, "The value of the first header field of this name.", {.omit_empty = true});
  v.field("cookie", k.cookie, "The value of the first cookie of this name.", {.omit_empty = true});
  v.field("jwt_claim", k.jwt_claim, "A claim of the client's token that the route's `auth.jwt.claims` lists.",
          {.omit_empty = true});
}

template <class V>
void describe(V& v, RateEntry& e) {
  describe(v, static_cast<RateKey&>(e));
  v.field("value", e.value, "The same text for all requests.", {.omit_empty = true});
  v.field("key", e.key, "The entry's key for the service.",
          {.omit_empty = true, .default_text = "see docs/guides/rate-limits.md"});
}

template <class V>
void describe(V& v, RateDescriptor& d) {
  v.field("entries", d.entries,
          "Its entries, in the order in which the service's limits nest. Each has one member beside `key`.",
          {.required = true, .min = 1});
}

inline std::string_view instead_of_word(const RateDescriptor&) { return "{ entries: [ { source: true } ] }"; }

template <class V>
void describe(V& v, GlobalRateLimits& g) {
  constexpr uint64_t kMaxTimeoutMs = 600'000;
  v.field("to", g.to, "Name of the upstream: the service.", {.required = true});
  v.field("domain", g.domain, "The domain of its limits.", {.required = true});
  v.field("timeout", g.timeout, "How long it may take to respond.", {.min = 1, .max = kMaxTimeoutMs});
  v.field("on_failure", g.on_failure,
          "What becomes of a request if it does not respond in time, or not properly: `allow` or `refuse` (503).");
  v.field("descriptors", g.descriptors, "What it counts requests by. All descriptors of a request go in one call.",
          {.omit_empty = true, .min = 1});
}

template <class V>
void describe(V& v, ForwardAuth& f) {
  constexpr uint64_t kMaxTimeoutMs = 600'000;
  v.field("to", f.to, "Name of the upstream: the authorizer.", {.required = true});
  v.field("path", f.path, "Path of the request to it, a GET without a body.", {.required = true});
  v.field("host", f.host, "Host of that request; empty: the upstream's name.", {.omit_empty = true});
  v.field("timeout", f.timeout, "How long it may take to respond.", {.min = 1, .max = kMaxTimeoutMs});
  v.field("request_headers", f.request_headers,
          "Fields of the client's request that it gets; otherwise all that describe the client: see "
          "docs/guides/access.md.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("response_headers", f.response_headers,
          "Fields of its 2xx response that upstreams get. They are removed from what clients send.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("on_failure", f.on_failure,
          "What becomes of a request if it does not respond in time, or not properly: `refuse` (503) or `allow`.");
}

template <class V>
void describe(V& v, ExtAuthz& e) {
  constexpr uint64_t kMaxTimeoutMs = 600'000;
  v.field("to", e.to, "Name of the upstream, of `protocol: http2`: the authorizer.", {.required = true});
  v.field("timeout", e.timeout, "How long it may take to respond.", {.min = 1, .max = kMaxTimeoutMs});
  v.field("on_failure", e.on_failure,
          "What becomes of a request if it does not respond in time, or not properly: `refuse` (503) or `allow`.");
}

template <class V>
void describe(V& v, Cors& c) {
  v.field("origins", c.origins,
          "Origins whose pages may send requests: `https://a.example`, `https://*.example.com` (the star is exactly "
          "one label), or `*`.",
          {.required = true, .unless = "origin_regex", .omit_empty = true, .one_word = true, .min = 1});
  v.field("origin_regex", c.origin_regex,
          "Further origins, as regular expressions (RE2) that the whole origin must match: "
          "`https://([a-z0-9-]+\\.)+example\\.com`.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("methods", c.methods, "Methods that they may use.",
          {.omit_empty = true, .one_word = true, .min = 1, .default_text = "`[ GET, HEAD, POST ]`"});
  v.field("headers", c.headers, "Header fields that requests may have.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("expose", c.expose, "Response header fields that pages may read.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("credentials", c.credentials, "Whether requests may carry cookies.");
  v.field("max_age", c.max_age, "How long browsers may cache a preflight response, in whole seconds.", {.step = 1000});
}

template <class V>
void describe(V& v, RequestId& r) {
  v.field("header", r.header, "Name of the field, such as `x-request-id`.", {.required = true});
  v.field("accept", r.accept,
          "Which ids are forwarded instead of a new one: none, that of a trusted proxy (`trusted_hops`, "
          "`trusted_proxies`), or any.");
  v.field("respond", r.respond, "Whether the response carries the id too, in the same field.");
}

/// A request id may be written as its field name alone.
inline FieldName& shorthand(RequestId& r) { return r.header; }

template <class V>
void describe(V& v, OtlpLogs& o) {
  v.field("path", o.path, "Path of the requests to the collector.");
  v.field("service_name", o.service_name, "The attribute `service.name` of the log records.");
}

template <class V>
void describe(V& v, AccessLog& a) {
  v.field(
      "file", a.file,
      "Its path, `stdout` or `stderr`; or a syslog daemon, by RFC 5424: `syslog` (`/dev/log`), `syslog:PATH` of a Unix "
      "socket, or `syslog:ADDRESS:PORT` for UDP; or an OpenTelemetry collector, by OTLP over HTTP in protobuf: "
      "`otlp:UPSTREAM`.",
      {.required = true});
  v.field("format", a.format, "Format of a line: see docs/guides/access-log.md.");
  v.field("when", a.when,
          "What is logged, as in `status >= 500 or duration > 1s`: see docs/guides/access-log.md. Without it, all.",
          {.omit_empty = true});
  v.field("sample", a.sample, "The share of it that is logged, at random: 0.01 is every hundredth line.");
  v.field("otlp", a.otlp, "Only for `otlp:UPSTREAM`.", {.omit_empty = true});
}

/// An access log may be written as its file alone.
inline std::string& shorthand(AccessLog& a) { return a.file; }

template <class V>
void describe(V& v, Tracing& t) {
  v.field("to", t.to, "Name of the upstream that is the collector: OTLP over HTTP, in protobuf.", {.required = true});
  v.field("sample", t.sample,
          "The share of the traces that begin here that is recorded, at random: 0.01 is every hundredth. Traces of "
          "clients are recorded if their traceparent says so.");
  v.field("path", t.path, "Path of the requests to the collector.");
  v.field("service_name", t.service_name, "The attribute `service.name` of the spans.");
}

/// Tracing may be written as the upstream alone.
inline std::string& shorthand(Tracing& t) { return t.to; }

template <class V>
void describe(V& v, ErrorBody& e) {
  v.field("status", e.status, "Statuses with this body: 400 to 599, `4xx` for all of 400 to 499, or `5xx`.",
          {.required = true, .one_word = true, .min = 1});
  v.field("body", e.body,
          "The body, of at most 64 KiB, perhaps with `%{status}`, `%{reason}` and others. Give either this or `file`.",
          {.omit_empty = true});
  v.field("file", e.file, "File with the body, read at the start.", {.omit_empty = true});
  v.field("content_type", e.content_type, "Its type.");
}

template <class V>
void describe(V& v, Compression& c) {
  v.field("codings", c.codings, "In the order of preference.",
          {.omit_empty = true, .one_word = true, .min = 1, .default_text = "`[ zstd, br, gzip ]`"});
  v.field("types", c.types, "Media types, such as `text/html` or `text/*`.",
          {.omit_empty = true,
           .one_word = true,
           .min = 1,
           .default_text = "text, JSON, JavaScript, XML, SVG, WebAssembly"});
  v.field("min_size", c.min_size, "Shortest body to compress; applies to bodies of known length.");
  v.field("level", c.level, "1 is fast, 9 is small, whichever the coding.", {.min = 1, .max = 9});
  v.field("max_streams", c.max_streams,
          "Responses that one worker compresses concurrently; any more are sent uncompressed.", {.min = 1});
}

template <class V>
void describe(V& v, PathMatch& p) {
  v.field("exact", p.exact, "This path. Give one of the three.", {.omit_empty = true});
  v.field("prefix", p.prefix,
          "Paths below this one: `/v1` is for `/v1` and `/v1/x`, not for `/v10`; `/v1/` is not for `/v1` itself.",
          {.omit_empty = true});
  v.field("regex", p.regex, "Paths that this regular expression (RE2) fits as a whole.", {.omit_empty = true});
}

/// Suggests what to write when a word was found instead of a map.
inline std::string_view instead_of_word(const PathMatch&) {
  return "{ prefix: PATH }, { exact: PATH } or { regex: REGEX }";
}

template <class V>
void describe(V& v, ValueMatch& m) {
  v.field("exact", m.exact, "The value.", {.omit_empty = true});
  v.field("prefix", m.prefix, "How it begins.", {.omit_empty = true});
  v.field("suffix", m.suffix, "How it ends.", {.omit_empty = true});
  v.field("contains", m.contains, "What is in it.", {.omit_empty = true});
  v.field("regex", m.regex, "A regular expression (RE2) that fits it as a whole.", {.omit_empty = true});
  v.field("not", m.negate,
          "Inverts the condition: nothing of this name may match, or, without a value, be present at all.");
}

template <class V>
void describe(V& v, HeaderMatch& m) {
  v.field("name", m.name, "Name of the field. Without other keys, the field must be present.", {.required = true});
  describe(v, static_cast<ValueMatch&>(m));
}

template <class V>
void describe(V& v, QueryMatch& m) {
  v.field("name", m.name, "Name of the parameter. Without other keys, the parameter must be present.",
          {.required = true});
  describe(v, static_cast<ValueMatch&>(m));
}

/// Suggests what to write when a word was found instead of a map.
inline std::string_view instead_of_word(const HeaderMatch&) { return "{ name: FIELD, exact: VALUE }"; }
inline std::string_view instead_of_word(const QueryMatch&) { return "{ name: PARAMETER, exact: VALUE }"; }

template <class V>
void describe(V& v, HttpMatch& m) {
  v.field("host", m.host, "Hosts; one must match. `*.example.com`: any one label, `**.example.com`: one or more.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("path", m.path, "Which paths fit: compared in their canonical form, without the query.",
          {.omit_empty = true});
  v.field("method", m.method, "Methods, one of which must match.", {.omit_empty = true, .one_word = true, .min = 1});
  v.field("headers", m.headers, "Conditions on header fields; for each, one field of its name must match.",
          {.omit_empty = true, .min = 1});
  v.field("query", m.query,
          "Conditions on query parameters; for each, one parameter of its name must match, compared as it is written.",
          {.omit_empty = true, .min = 1});
  v.field("source", m.source, "Ranges, one of which must hold the client's address.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("peer", m.peer,
          "Identities, one of which the client must have authenticated as, with a certificate or by ALTS: see "
          "`target_identities`. With a handshaker service, a peer without a service account is identified by its host "
          "name.",
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
  v.field("path", p.path, "New path instead of the requested one; the query is kept.", {.omit_empty = true});
  v.field("prefix", p.prefix,
          "Replaces the prefix given in `match.path.prefix`: with `/v1` there and `/` here, `/v1/x` becomes `/x`.",
          {.omit_empty = true});
  v.field("regex", p.regex, "Regular expression (RE2); a path that it fits as a whole becomes `substitution`.",
          {.omit_empty = true});
  v.field("substitution", p.substitution, "The new path; `\\1` is the text of the first group of `regex`.",
          {.omit_empty = true});
}

template <class V>
void describe(V& v, Rewrite& r) {
  describe(v, static_cast<PathChange&>(r));
  v.field("host", r.host, "Host that the upstream gets, with an optional port.", {.omit_empty = true});
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
  v.field("name", c.name, "Name of the field.", {.required = true});
  v.field("set", c.set, "Replaces all fields of this name with one of this value; if the value is empty, removes them.",
          {.omit_empty = true});
  v.field("add", c.add, "One more field with this value.", {.omit_empty = true});
  v.field("remove", c.remove, "Removes all fields of this name.");
}

inline std::string_view instead_of_word(const FieldChange&) { return "{ name: FIELD, set: VALUE }"; }

template <class V>
void describe(V& v, SplitTarget& t) {
  v.field("forward", t.forward, "Name of the upstream.", {.required = true});
  v.field("weight", t.weight, "Its share, relative to the others'; 0 = none.", {.max = 1'000'000});
  v.field("request_headers", t.request_headers, "Changes to the requests that it gets, after those of the route.",
          {.omit_empty = true, .min = 1});
  v.field("response_headers", t.response_headers, "Changes to the responses to them, after those of the route.",
          {.omit_empty = true, .min = 1});
}

inline std::string_view instead_of_word(const SplitTarget&) { return "{ forward: UPSTREAM, weight: NUMBER }"; }

template <class V>
void describe(V& v, HttpRoute& r) {
  v.field("name", r.name, "In logs; unique among the listener's routes.", {.omit_empty = true});
  v.field("match", r.match, "Conditions. Without it the route matches every remaining request.", {.omit_empty = true});
  v.field("forward", r.forward, "Name of the upstream. Give either this, `respond` or `redirect`.",
          {.omit_empty = true});
  v.field("split", r.split, "Upstreams that share its requests by weight, instead of `forward`.",
          {.omit_empty = true, .min = 2});
  v.field("respond", r.respond, "Sends a fixed response, without an upstream.", {.omit_empty = true});
  v.field("redirect", r.redirect, "Sends the client elsewhere.", {.omit_empty = true});
  v.field("readiness", r.readiness,
          "Responds with 200 and `ready`, or 503 and `draining` from the first signal to stop, for load balancers.");
  v.field("rewrite", r.rewrite, "Changes the request that is forwarded to the upstream.", {.omit_empty = true});
  v.field("allow", r.allow, "Ranges of client addresses; all others get 403.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("deny", r.deny, "Ranges of client addresses that get 403; checked before `allow`.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("rate_limits", r.rate_limits,
          "Names of `rate_limits`, all of which must admit a request, after the listener's.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("response_bandwidth", r.response_bandwidth,
          "Names of `rate_limits` in bytes, to which the bodies of responses are paced, beside the listener's.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("request_bandwidth", r.request_bandwidth, "The same for the bodies of requests.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("rate_limit_descriptors", r.rate_limit_descriptors,
          "What the service of the listener's `global_rate_limits` counts these requests by, too.",
          {.omit_empty = true, .min = 1});
  v.field("priority", r.priority,
          "Which requests get 503 first while a worker is overloaded: those of `low` routes, then, with "
          "`overload.delay.refuse: normal`, those of `normal` ones, never those of `high` ones.");
  v.field("maintenance", r.maintenance, "Responds with 503 while a file exists.", {.omit_empty = true});
  v.field("auth", r.auth, "Who a client must prove to be; else 401.", {.omit_empty = true});
  v.field("forward_auth", r.forward_auth,
          "External authorization: another server decides by HTTP whether a request may go on.", {.omit_empty = true});
  v.field("ext_authz", r.ext_authz,
          "External authorization by gRPC, with Envoy's protocol (`envoy.service.auth.v3`), instead of `forward_auth`.",
          {.omit_empty = true});
  v.field("cors", r.cors, "Which pages from other origins may use the responses.", {.omit_empty = true});
  v.field("request_timeout", r.request_timeout, "Overrides the listener's `request_timeout`.", {.omit_empty = true});
  v.field("stream_idle_timeout", r.stream_idle_timeout, "Overrides the listener's `stream_idle_timeout`.",
          {.omit_empty = true});
  v.field("response_timeout", r.response_timeout, "Overrides the upstream's `response_timeout`.", {.omit_empty = true});
  v.field("retry", r.retry, "When a request is retried.", {.omit_empty = true});
  v.field("buffer", r.buffer, "Buffers bodies for slow clients and upstreams, in memory and in `body_file`.",
          {.omit_empty = true});
  v.field("mirror", r.mirror, "Other upstreams that get copies of the requests: one, or a list.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("compression", r.compression, "Whether responses are compressed, as set by the listener's `compression`.");
  v.field("max_body", r.max_body, "Overrides the listener's `max_body`.", {.omit_empty = true});
  v.field("request_headers", r.request_headers, "Changes to what is forwarded, after those of the listener.",
          {.omit_empty = true, .min = 1});
  v.field("response_headers", r.response_headers, "Changes to every response, after those of the listener.",
          {.omit_empty = true, .min = 1});
}

template <class V>
void describe(V& v, Paths& p) {
  v.field("escaped_slashes", p.escaped_slashes,
          "How `%2F` and `%5C` in a path are handled: `reject` responds with 400, `keep` forwards them within a "
          "segment, `decode` treats them as slashes.");
  v.field("merge_slashes", p.merge_slashes, "`//` counts as `/`.");
  v.field("allow_backslashes", p.allow_backslashes, "Accepts backslashes and forwards them; otherwise 400.");
  v.field("allow_dot_parameters", p.allow_dot_parameters,
          "Accepts segments such as `..;x` and forwards them; otherwise 400.");
}

template <class V>
void describe(V& v, Http1& h) {
  v.field("max_requests", h.max_requests, "Requests on a connection; the last one's response ends it; 0 = unlimited.");
  v.field("allow_underscores", h.allow_underscores, "Accepts field names with an underscore; otherwise 400.");
  v.field("allow_empty_line", h.allow_empty_line, "Skips one empty line before a request; else 400.");
  v.field("half_close", h.half_close,
          "How a client is treated that half-closes before it has its response: as gone after a second of silence "
          "(`close`), or as waiting for the response (`allow`).");
}

template <class V>
void describe(V& v, Http2& h) {
  v.field("max_streams", h.max_streams, "Concurrent requests on a connection.", {.min = 1, .max = 65535});
  v.field("stream_window", h.stream_window,
          "Flow-control window for the body of one request at first. It grows while it limits the rate, those of all "
          "requests of a connection together by half of connection_window.",
          {.min = 4 * kKiB, .max = kGiB});
  v.field("connection_window", h.connection_window,
          "Flow-control window for the bodies of all requests on a connection.", {.min = 64 * kKiB, .max = kGiB});
  v.field("max_requests", h.max_requests, "Requests after which a connection drains; 0 = unlimited.");
  v.field("preface_timeout", h.preface_timeout, "How long the client's connection preface may take.", {.min = 1});
}

template <class V>
void describe(V& v, Http& h) {
  v.field("forward", h.forward, "Name of the upstream of every request. Give either this or `routes`.",
          {.omit_empty = true});
  v.field("routes", h.routes, "Tried in order; the first match is taken. A request without a match gets 404.",
          {.omit_empty = true, .min = 1});
  v.field("header_timeout", h.header_timeout, "How long a request's head may take, from its first byte.", {.min = 1});
  v.field("body_timeout", h.body_timeout,
          "Responds with 408 when an expected request body makes no progress for this time. Not once the response has "
          "begun.",
          {.min = 1});
  v.field("send_timeout", h.send_timeout,
          "Closes a connection whose client takes none of the queued bytes for this time.", {.min = 1});
  v.field("stuck_timeout", h.stuck_timeout,
          "Ends a request that has queued bytes and made no progress for this time, but only while "
          "`memory.worker_budget` is used up and other connections wait for memory; 0 = never.");
  v.field("idle_timeout", h.idle_timeout, "Closes a connection without a request.", {.min = 1});
  v.field("stream_idle_timeout", h.stream_idle_timeout, "Ends a request that made no progress for this time.",
          {.min = 1});
  v.field("tunnel_timeout", h.tunnel_timeout, "Like `stream_idle_timeout`, for websockets and CONNECT.", {.min = 1});
  v.field("request_timeout", h.request_timeout,
          "Ends a request at this age, however busy; not websockets and CONNECT; 0 = never.");
  v.field("max_connection_age", h.max_connection_age,
          "Age from which a connection takes no more requests; 0 = unlimited.");
  v.field("max_start_line", h.max_start_line, "Method and target of a request; beyond it 414.",
          {.min = kKiB, .max = 64 * kKiB});
  v.field("max_head", h.max_head, "A request's head in all, and its trailers; beyond it 431.",
          {.min = kKiB, .max = 64 * kKiB});
  v.field("max_fields", h.max_fields, "Fields in a head, or in trailers; beyond it 431.", {.min = 1, .max = 1000});
  v.field("max_body", h.max_body, "A request's body that is forwarded; beyond it 413; 0 = unlimited.");
  v.field("buffer_high", h.buffer_high,
          "Bytes of one body queued toward one side at which reading from the other pauses; below half of it reading "
          "resumes.",
          {.min = 4 * kKiB, .max = kGiB});
  v.field("request_headers", h.request_headers,
          "Changes to the header fields of all requests that are forwarded, in this order.",
          {.omit_empty = true, .min = 1});
  v.field("response_headers", h.response_headers,
          "Changes to the header fields of all responses, including this proxy's own.", {.omit_empty = true, .min = 1});
  v.field("forwarded_for", h.forwarded_for,
          "X-Forwarded-For to upstreams: the client's address is appended to what the client sent, or replaces it; "
          "`off` forwards what the client sent.");
  v.field("forwarded", h.forwarded, "Like `forwarded_for`, for the Forwarded field of RFC 7239.");
  v.field("trusted_hops", h.trusted_hops,
          "Number of proxies in front whose X-Forwarded-For is trusted: the client is the address that the farthest of "
          "them saw.",
          {.max = 32});
  v.field("trusted_proxies", h.trusted_proxies,
          "Address ranges of trusted proxies: the client is the last address in X-Forwarded-For that is in none of "
          "them. With `trusted_hops`: addresses of the nearest proxy.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("request_id", h.request_id, "A number for each request, in a header field.", {.omit_empty = true});
  v.field("trace_context", h.trace_context,
          "How traceparent is handled: not at all (`off`), forwarded with this proxy as the parent (`pass`), or also "
          "generated if missing (`make`).");
  v.field("tracing", h.tracing, "Sends a span for each recorded request to an OpenTelemetry collector.",
          {.omit_empty = true});
  v.field("allow", h.allow, "Ranges of client addresses; all others get 403.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("deny", h.deny, "Ranges of client addresses that get 403; checked before `allow`.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("rate_limits", h.rate_limits, "Names of `rate_limits`, all of which must admit a request.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("response_bandwidth", h.response_bandwidth,
          "Names of `rate_limits` in bytes, to which the bodies of responses are paced.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("request_bandwidth", h.request_bandwidth, "The same for the bodies of requests.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("global_rate_limits", h.global_rate_limits,
          "Limits that a service counts for all proxies, with Envoy's protocol (`envoy.service.ratelimit.v3`).",
          {.omit_empty = true});
  v.field("compression", h.compression, "Compresses responses.", {.omit_empty = true});
  v.field("errors", h.errors, "Bodies of this proxy's own error responses, by status.", {.omit_empty = true, .min = 1});
  v.field("via", h.via, "Name of this proxy in Via, in requests and responses; empty: no Via.");
  v.field("allow_connect", h.allow_connect, "Forwards CONNECT; otherwise 501.");
  v.field("websocket", h.websocket, "Accepts upgrades to websocket; otherwise 501.");
  v.field("paths", h.paths, "How paths are canonicalized.");
  v.field("http1", h.http1, "HTTP/1.1 with clients.");
  v.field("http2", h.http2, "HTTP/2 with clients.");
  v.field("access_log", h.access_log,
          "File, `stdout`, `stderr`, a syslog daemon or `otlp:UPSTREAM`, which gets a line for each request; or a map.",
          {.omit_empty = true});
}

}  // namespace sluice::config
