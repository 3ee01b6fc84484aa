// The keys of an upstream: see schema.h.
#pragma once

#include <string_view>

#include "proxy/config/load/schema_rules.h"
#include "proxy/config/model/config.h"

namespace sluice::config {

template <class V>
void describe(V& v, HashKey& h) {
  v.field("header", h.header, "The value of this header field.", {.omit_empty = true});
  v.field("cookie", h.cookie, "The value of this cookie.", {.omit_empty = true});
  v.field("query", h.query, "The value of this parameter of the query.", {.omit_empty = true});
  v.field("path", h.path, "The requested path, without the query.");
  v.field("source", h.source,
          "The client's address. It is also used when a request lacks the key, and for `tcp` connections.");
}

inline std::string_view instead_of_word(const HashKey&) { return "{ header: NAME } or { source: true }"; }

template <class V>
void describe(V& v, Sticky& s) {
  v.field("cookie", s.cookie, "Its name.");
  v.field("ttl", s.ttl, "How long browsers keep it, in whole seconds; 0: a session cookie.", {.step = 1000});
  v.field("path", s.path, "Its Path attribute.");
  v.field("secret", s.secret,
          "Key of the hash that stands for an endpoint in the cookie; without it, the upstream's name. Processes that "
          "share clients need the same.",
          {.omit_empty = true});
}

template <class V>
void describe(V& v, HttpCheck& c) {
  v.field("path", c.path, "Requested path.");
  v.field("host", c.host, "Requested host; without it, the endpoint's address.", {.omit_empty = true});
  v.field("status", c.status, "Statuses that pass; without any, all of 2xx and 3xx.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("body", c.body, "Text that must be in the first 64 KiB of the response body.", {.omit_empty = true});
}

template <class V>
void describe(V& v, GrpcCheck& c) {
  v.field("service", c.service, "Name of the service; without it, the server as a whole.", {.omit_empty = true});
}

template <class V>
void describe(V& v, HealthCheck& h) {
  v.field("interval", h.interval, "Time from one check of an endpoint to the next, plus up to 10 % of jitter.",
          {.min = 10});
  v.field("timeout", h.timeout, "Bound on one whole check.", {.min = 1});
  v.field("healthy_after", h.healthy_after, "Checks in a row that must pass before an endpoint is healthy again.",
          {.min = 1, .max = 1000});
  v.field("unhealthy_after", h.unhealthy_after,
          "Checks in a row that must fail before it is unhealthy; if the very first check fails, that is enough.",
          {.min = 1, .max = 1000});
  v.field("port", h.port, "Port to check; 0: the endpoint's.", {.max = 65535});
  v.field("http", h.http, "Requests a path. Without this and `grpc`, a successful connect is enough.",
          {.omit_empty = true});
  v.field("grpc", h.grpc, "Calls grpc.health.v1.Health.", {.omit_empty = true});
}

template <class V>
void describe(V& v, Ejection& e) {
  v.field("consecutive_errors", e.consecutive_errors,
          "Consecutive 5xx responses, resets, timeouts and failed connections after which an endpoint is ejected; 0 = "
          "never.");
  v.field("gateway_errors", e.gateway_errors,
          "Like `consecutive_errors`, but of responses only 502, 503 and 504 count; 0 = never.");
  v.field("time", e.time, "Duration of the first ejection; the nth in a row lasts n times as long.", {.min = 1});
  v.field("max_time", e.max_time, "Longest ejection.", {.min = 1});
  v.field("max_share", e.max_share, "Percent of the endpoints that are ejected at the same time; never all.",
          {.max = 100});
}

template <class V>
void describe(V& v, Resolve& r) {
  v.field("servers", r.servers, "Name servers; without any, those of /etc/resolv.conf.",
          {.omit_empty = true, .min = 1});
  v.field("family", r.family, "Address families to look up; `auto`: both.");
  v.field("min_ttl", r.min_ttl, "Shortest time that an answer is used, even if its TTL is lower.", {.min = 100});
  v.field("max_ttl", r.max_ttl, "Longest time that an answer is used.", {.min = 100});
  v.field("timeout", r.timeout, "Bound on one attempt.", {.min = 1});
  v.field("attempts", r.attempts, "Attempts before a lookup fails.", {.min = 1, .max = 10});
  v.field("max_addresses", r.max_addresses, "Addresses used of one name.", {.min = 1, .max = 1024});
}

template <class V>
void describe(V& v, RetryBudget& b) {
  v.field("percent", b.percent, "Percent of the requests of the last ten seconds that may be retried.", {.max = 100});
  v.field("min", b.min, "Retries always allowed in ten seconds, even if `percent` yields fewer.");
}

template <class V>
void describe(V& v, Endpoint& e) {
  v.field("address", e.address,
          "As a listener's, with a port; or a host name with a port, which stands for all of its addresses.",
          {.required = true, .unless = "srv", .omit_empty = true});
  v.field("srv", e.srv, "Name of SRV records, instead of `address`: they provide ports, weights and priorities.",
          {.omit_empty = true});
  v.field("weight", e.weight, "Share of the connections, relative to the others'; of a name, that of each address.",
          {.min = 1, .max = 1000});
  v.field("priority", e.priority, "Endpoints of the lowest number are used as long as enough of them are usable.",
          {.max = 15});
}

/// An endpoint may be written as its address alone.
inline EndpointAddress& shorthand(Endpoint& e) { return e.address; }

template <class V>
void describe(V& v, Pool& p) {
  v.field("max_idle", p.max_idle,
          "Idle HTTP/1.1 connections kept to one endpoint; more are closed once they are idle for a second. 0 = none.");
  v.field(
      "idle_timeout", p.idle_timeout,
      "Closes an idle connection. Keep it below the endpoints' own timeout, so that no request races with their close.",
      {.min = 1});
  v.field("max_requests", p.max_requests, "Requests on a connection; 0 = unlimited.");
  v.field("max_streams", p.max_streams, "Concurrent requests on an HTTP/2 connection, if the endpoint allows them.",
          {.min = 1, .max = 65535});
  v.field("max_pending", p.max_pending, "Requests that wait for a connection; beyond it 503.", {.min = 1});
}

template <class V>
void describe(V& v, AdaptiveConcurrency& a) {
  v.field("min", a.min, "The limit never falls below it.", {.min = 1, .max = AdaptiveConcurrency::kMost});
  v.field("max", a.max, "The limit never grows beyond it.", {.min = 1, .max = AdaptiveConcurrency::kMost});
  v.field("initial", a.initial, "The limit at first, before anything is known.",
          {.min = 1, .max = AdaptiveConcurrency::kMost});
  v.field("max_wait", a.max_wait, "How long a request may wait for its place; beyond it 503. 0: none waits.");
}

template <class V>
void describe(V& v, Upstream& u) {
  v.field("name", u.name, "Name used in `forward`.", {.required = true});
  v.field("protocol", u.protocol,
          "What the endpoints speak with `http` listeners, where `auto` is `http1`. From `tcp` they get bytes as they "
          "are.");
  v.field("endpoints", u.endpoints, "The servers, each an address, a name with a port, or a map.",
          {.required = true, .min = 1});
  v.field("balance", u.balance,
          "How an endpoint is chosen: in turn, by the fewest open connections (or requests, from `http`), by the fewer "
          "of two chosen at random, at random, or by a key (`hash`), where most keys stay on their endpoint when "
          "others come or go. All honor weights.");
  v.field("hash", u.hash, "The key for `maglev` and `ring_hash`.",
          {.omit_empty = true, .default_text = "the client's address"});
  v.field("sticky", u.sticky, "A cookie that keeps clients on their endpoint.", {.omit_empty = true});
  v.field("slow_start", u.slow_start, "How long a recovered endpoint takes to reach its full share; 0 = none.");
  v.field("failover_below", u.failover_below,
          "Percent of a priority's endpoints that must be usable; if there are fewer, the next priority gets a share.",
          {.min = 1, .max = 100});
  v.field("health_check", u.health_check, "Active health checks.", {.omit_empty = true});
  v.field("ejection", u.ejection, "Ejects endpoints that fail requests.", {.omit_empty = true});
  v.field("resolve", u.resolve, "How names of endpoints are resolved.");
  v.field("retry_budget", u.retry_budget, "How many requests may be retried.");
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
          "client, and the name in its certificate.");
  v.field("keepalive", u.keepalive, "Keep-alive probes towards endpoints.");
  v.field("nodelay", u.nodelay, "TCP_NODELAY towards endpoints.");
  v.field("tls", u.tls, "Speaks TLS to the endpoints.", {.omit_empty = true});
  v.field("alts", u.alts, "Speaks ALTS to the endpoints, instead of TLS.", {.omit_empty = true});
  v.field("pool", u.pool, "Connections that the requests of `http` listeners share, on one worker.");
  v.field(
      "adaptive_concurrency", u.adaptive_concurrency,
      "Limits the requests in flight from one worker, by a limit that follows their latency; beyond it they wait, or "
      "get 503.",
      {.omit_empty = true});
  v.field("response_timeout", u.response_timeout,
          "From the end of a request to the head of its response; beyond it 504.", {.min = 1});
}

}  // namespace sluice::config
