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
  v.field("path", h.path, "The path that was asked for, without the query.");
  v.field("source", h.source,
          "The client's address, which it also is where a request lacks what is named, and from `tcp`.");
}

inline std::string_view instead_of_word(const HashKey&) { return "{ header: NAME } or { source: true }"; }

template <class V>
void describe(V& v, Sticky& s) {
  v.field("cookie", s.cookie, "Its name.");
  v.field("ttl", s.ttl, "How long browsers keep it, in whole seconds; 0: until they end.", {.step = 1000});
  v.field("path", s.path, "For which paths.");
  v.field("secret", s.secret,
          "Key of the hash that stands for an endpoint in the cookie; without it, the upstream's name. Processes that "
          "share clients need the same.",
          {.omit_empty = true});
}

template <class V>
void describe(V& v, HttpCheck& c) {
  v.field("path", c.path, "What is asked for.");
  v.field("host", c.host, "For which host; without it, the endpoint's address.", {.omit_empty = true});
  v.field("status", c.status, "Statuses that are well; without any, all of 2xx and 3xx.",
          {.omit_empty = true, .one_word = true, .min = 1});
  v.field("body", c.body, "Text that must be in the first 64 KiB of the answer.", {.omit_empty = true});
}

template <class V>
void describe(V& v, GrpcCheck& c) {
  v.field("service", c.service, "Name of the service; without it, the server as a whole.", {.omit_empty = true});
}

template <class V>
void describe(V& v, HealthCheck& h) {
  v.field("interval", h.interval, "From one check of an endpoint to the next, and up to a tenth more.", {.min = 10});
  v.field("timeout", h.timeout, "For all of one check.", {.min = 1});
  v.field("healthy_after", h.healthy_after, "Checks in a row that must pass before an endpoint is healthy again.",
          {.min = 1, .max = 1000});
  v.field("unhealthy_after", h.unhealthy_after,
          "Checks in a row that must fail before it is unhealthy; the first one of all is enough.",
          {.min = 1, .max = 1000});
  v.field("port", h.port, "Another port than the endpoint's; 0: that.", {.max = 65535});
  v.field("http", h.http, "Asks for a path. Without this and `grpc`, it is enough that a connection can be made.",
          {.omit_empty = true});
  v.field("grpc", h.grpc, "Asks grpc.health.v1.Health.", {.omit_empty = true});
}

template <class V>
void describe(V& v, Ejection& e) {
  v.field(
      "consecutive_errors", e.consecutive_errors,
      "Answers of 5xx, resets, timeouts and failed connections in a row after which an endpoint is passed over; 0 = "
      "never.");
  v.field("gateway_errors", e.gateway_errors,
          "The same, where answers count only if they are 502, 503 or 504; 0 = never.");
  v.field("time", e.time, "For how long the first time; the nth time in a row, n times as long.", {.min = 1});
  v.field("max_time", e.max_time, "The longest that this becomes.", {.min = 1});
  v.field("max_share", e.max_share, "Percent of the endpoints that are passed over at once; never all.", {.max = 100});
}

template <class V>
void describe(V& v, Resolve& r) {
  v.field("servers", r.servers, "Name servers; without any, those of /etc/resolv.conf.",
          {.omit_empty = true, .min = 1});
  v.field("family", r.family, "Which addresses; `auto`: both.");
  v.field("min_ttl", r.min_ttl, "How long an answer is used at least, whatever it says itself.", {.min = 100});
  v.field("max_ttl", r.max_ttl, "How long an answer is used at most.", {.min = 100});
  v.field("timeout", r.timeout, "Of one try.", {.min = 1});
  v.field("attempts", r.attempts, "Tries before it has failed.", {.min = 1, .max = 10});
  v.field("max_addresses", r.max_addresses, "Of one name.", {.min = 1, .max = 1024});
}

template <class V>
void describe(V& v, RetryBudget& b) {
  v.field("percent", b.percent, "Share of the requests of the last ten seconds that may be sent again.", {.max = 100});
  v.field("min", b.min, "So many in ten seconds, whatever the share comes to.");
}

template <class V>
void describe(V& v, Endpoint& e) {
  v.field("address", e.address,
          "As a listener's, with a port; or a host name with a port, which stands for all of its addresses.",
          {.required = true, .unless = "srv", .omit_empty = true});
  v.field("srv", e.srv, "Name of SRV records, in the place of `address`: ports, weights and priorities are theirs.",
          {.omit_empty = true});
  v.field("weight", e.weight, "Share of the connections, relative to the others'; of a name, that of each address.",
          {.min = 1, .max = 1000});
  v.field("priority", e.priority, "Those of the lowest number are used as long as enough of them can be.", {.max = 15});
}

/// An endpoint may be written as its address alone.
inline EndpointAddress& shorthand(Endpoint& e) { return e.address; }

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
  v.field("endpoints", u.endpoints, "The servers, each an address, a name with a port, or a map.",
          {.required = true, .min = 1});
  v.field(
      "balance", u.balance,
      "How an endpoint is chosen: in turn, by the fewest connections (or requests, from `http`) that are open, by the "
      "fewer of two chosen at random, at random, or by a key (`hash`), which most endpoints keep when others come or "
      "go. "
      "All honour weights.");
  v.field("hash", u.hash, "What `maglev` and `ring_hash` go by.",
          {.omit_empty = true, .default_text = "the client's address"});
  v.field("sticky", u.sticky, "A cookie that leads clients back to the endpoint that they had.", {.omit_empty = true});
  v.field("slow_start", u.slow_start,
          "How long an endpoint that has come back takes to get its whole share; 0 = none.");
  v.field("failover_below", u.failover_below,
          "Percent of a priority's endpoints that must be usable; if there are fewer, the next priority gets a share.",
          {.min = 1, .max = 100});
  v.field("health_check", u.health_check, "Checks whether endpoints are well.", {.omit_empty = true});
  v.field("ejection", u.ejection, "Passes over endpoints that fail requests.", {.omit_empty = true});
  v.field("resolve", u.resolve, "How names of endpoints are resolved.");
  v.field("retry_budget", u.retry_budget, "How many requests may be sent again.");
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
  v.field("alts", u.alts, "Speaks ALTS to the endpoints, in the place of TLS.", {.omit_empty = true});
  v.field("pool", u.pool, "Connections that the requests of `http` listeners share, on one worker.");
  v.field("response_timeout", u.response_timeout,
          "From the end of a request to the head of its response; beyond it 504.", {.min = 1});
}

}  // namespace sluice::config
