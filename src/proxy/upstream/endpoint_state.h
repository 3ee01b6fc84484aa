#pragma once

#include <atomic>
#include <cstdint>

#include "proxy/upstream/endpoint_health.h"

namespace sluice {

/// What an operator wants of an endpoint: see EndpointChanges.
enum class EndpointMode : uint8_t {
  kEnabled,
  kDraining,  ///< It gets no new connections and requests. What it has goes on.
  kDisabled,  ///< So, too; and connections to it for requests of HTTP end as soon as they have none.
};

/// The state of an endpoint, shared by all workers. Touched when a connection opens or closes, never per byte.
struct EndpointState {
  std::atomic<bool> present{false};  ///< Whether the slot has an endpoint; written by EndpointTable.
  std::atomic<uint32_t> active{0};
  std::atomic<uint32_t> fails_in_a_row{0};
  std::atomic<uint64_t> down_until_ms{0};
  /// When a log line said that connections to it fail; 0: none has since the last success.
  std::atomic<uint64_t> failing_since_ms{0};
  /// When its health last recovered, or the slot got another endpoint; 0: it has been up from the start.
  std::atomic<uint64_t> up_since_ms{0};
  std::atomic<EndpointMode> mode{EndpointMode::kEnabled};  ///< Written by EndpointTable.
  EndpointHealth health;

  bool enabled() const { return mode.load(std::memory_order_relaxed) == EndpointMode::kEnabled; }
  /// Whether it may be chosen while there are others. This combines all reasons against an endpoint.
  bool up(uint64_t now_ms) const {
    return present.load(std::memory_order_relaxed) && enabled() && health.in() && !down(now_ms);
  }
  /// Whether recent connections to it have failed.
  bool down(uint64_t now_ms) const { return now_ms < down_until_ms.load(std::memory_order_relaxed); }
  /// Takes over what is known about the same endpoint in another configuration. Its connections are counted apart.
  void continue_from(const EndpointState& old) {
    fails_in_a_row.store(old.fails_in_a_row.load(std::memory_order_relaxed), std::memory_order_relaxed);
    down_until_ms.store(old.down_until_ms.load(std::memory_order_relaxed), std::memory_order_relaxed);
    failing_since_ms.store(old.failing_since_ms.load(std::memory_order_relaxed), std::memory_order_relaxed);
    up_since_ms.store(old.up_since_ms.load(std::memory_order_relaxed), std::memory_order_relaxed);
    health.continue_from(old.health);
  }
  /// Resets the state to that of an unknown endpoint that is added now.
  void begin_anew(uint64_t now_ms) {
    fails_in_a_row.store(0, std::memory_order_relaxed);
    down_until_ms.store(0, std::memory_order_relaxed);
    failing_since_ms.store(0, std::memory_order_relaxed);
    up_since_ms.store(now_ms, std::memory_order_relaxed);
    mode.store(EndpointMode::kEnabled, std::memory_order_relaxed);
    health.begin_anew();
  }
};

}  // namespace sluice
