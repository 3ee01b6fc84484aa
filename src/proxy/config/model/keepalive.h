// TCP keep-alive of a socket.
#pragma once

#include <chrono>
#include <cstdint>

#include "proxy/config/model/units.h"

namespace sluice::config {

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

}  // namespace sluice::config
