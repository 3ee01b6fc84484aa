#pragma once

#include <atomic>
#include <cstdint>

#include "proxy/upstream/endpoint_health.h"

namespace sluice {

/// The state of an endpoint that all workers share. Touched when a connection opens or closes, never per byte.
struct EndpointState {
  std::atomic<bool> present{false};  ///< Whether there is one here at all; written by EndpointTable.
  std::atomic<uint32_t> active{0};
  std::atomic<uint32_t> fails_in_a_row{0};
  std::atomic<uint64_t> down_until_ms{0};
  /// Set when its health has come back, or it is another endpoint; 0: it has been there from the start.
  std::atomic<uint64_t> up_since_ms{0};
  EndpointHealth health;

  /// Whether it may be chosen while there are others: all that speaks against an endpoint is asked here.
  bool up(uint64_t now_ms) const { return present.load(std::memory_order_relaxed) && health.in() && !down(now_ms); }
  /// Whether connections to it have failed of late.
  bool down(uint64_t now_ms) const { return now_ms < down_until_ms.load(std::memory_order_relaxed); }
  /// As of an endpoint that comes now, and of which nothing is known.
  void begin_anew(uint64_t now_ms) {
    fails_in_a_row.store(0, std::memory_order_relaxed);
    down_until_ms.store(0, std::memory_order_relaxed);
    up_since_ms.store(now_ms, std::memory_order_relaxed);
    health.begin_anew();
  }
};

}  // namespace sluice
