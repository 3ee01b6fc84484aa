// What a listener does with connections whose bytes it forwards unchanged.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "proxy/config/model/access_log.h"
#include "proxy/config/model/host_pattern.h"
#include "proxy/config/model/units.h"

namespace sluice::config {

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

/// The routing table: the configured routes, or one unconditional route for `forward`.
std::vector<TcpRoute> routes_of(const Tcp& tcp);

}  // namespace sluice::config
