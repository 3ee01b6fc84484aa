// The configuration as typed values, parsed from a YAML file (loader.h) or the command line (from_flags.h).
//
// Plain structs with value semantics. The files of this folder define every default and its reason; schema.h holds the
// user-facing description of each key, from which the loader, `check --print` and docs/reference/configuration.md are
// derived. A Config returned by load_text(), load_file() or from_flags() has passed validate(). It is read at start-up
// only: the data path keeps its own tables and never reads these strings.
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

#include "proxy/config/model/access_log.h"
#include "proxy/config/model/address.h"
#include "proxy/config/model/admin.h"
#include "proxy/config/model/alts.h"
#include "proxy/config/model/buffering.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/http.h"
#include "proxy/config/model/keepalive.h"
#include "proxy/config/model/listener_tls.h"
#include "proxy/config/model/log.h"
#include "proxy/config/model/overload.h"
#include "proxy/config/model/privileges.h"
#include "proxy/config/model/rate_limit.h"
#include "proxy/config/model/tcp.h"
#include "proxy/config/model/units.h"
#include "proxy/config/model/upstream.h"

namespace sluice::config {

/// A count that Sluice may choose itself: nullopt is written `auto`.
using AutoCount = std::optional<uint32_t>;

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
  bool sandbox = false;  ///< Whether the process opens only the files and makes only the calls that it needs.
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

}  // namespace sluice::config
