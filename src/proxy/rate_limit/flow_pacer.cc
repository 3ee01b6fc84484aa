#include "proxy/rate_limit/flow_pacer.h"

#include <cstdint>

#include "net/worker.h"
#include "proxy/rate_limit/rate_limiter.h"

namespace sluice {

void FlowPacer::charge(size_t bytes) {
  if (limits_.empty()) return;
  const uint64_t now_us = worker_.now_us();
  const uint64_t wait_ns = limits_.reserve(bytes, now_us);
  if (wait_ns > 0) worker_.timers().arm(timer_, rate_turn_ms(now_us, wait_ns));
}

}  // namespace sluice
