// An upstream: endpoints, and how they are used.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/adaptive_concurrency.h"
#include "proxy/config/model/alts.h"
#include "proxy/config/model/balancing.h"
#include "proxy/config/model/health.h"
#include "proxy/config/model/keepalive.h"
#include "proxy/config/model/listener_tls.h"
#include "proxy/config/model/resolve.h"
#include "proxy/config/model/retry.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

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

}  // namespace sluice::config
