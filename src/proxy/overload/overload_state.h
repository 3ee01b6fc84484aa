#pragma once

#include <atomic>
#include <cstdint>

#include "proxy/config/model/overload.h"
#include "proxy/overload/memory_level.h"

namespace sluice {

/// What the workers of a process know of its overload. One thread writes it, MemoryWatch; any thread reads it.
class OverloadState {
 public:
  /// That of a process which is never overloaded.
  static const OverloadState& none() {
    static const OverloadState state;
    return state;
  }

  MemoryLevel level() const { return level_.load(std::memory_order_relaxed); }
  /// What is to be freed so that no connection has to be closed any more.
  uint64_t excess_bytes() const { return excess_.load(std::memory_order_relaxed); }
  /// How often the memory was read so far.
  uint32_t readings() const { return readings_.load(std::memory_order_relaxed); }
  uint64_t used_bytes() const { return used_.load(std::memory_order_relaxed); }
  /// 0: not known.
  uint64_t limit_bytes() const { return limit_.load(std::memory_order_relaxed); }
  /// An idle timeout, reduced as the memory demands.
  uint64_t reduced_ms(uint64_t timeout_ms) const {
    return timeout_ms * timeout_percent_.load(std::memory_order_relaxed) / 100;
  }
  uint64_t delay_target_ms() const { return delay_target_ms_.load(std::memory_order_relaxed); }
  uint64_t delay_interval_ms() const { return delay_interval_ms_.load(std::memory_order_relaxed); }

  void set_memory(MemoryLevel level, const MemoryUse& use, const config::OverloadMemory& marks) {
    used_.store(use.used, std::memory_order_relaxed);
    limit_.store(use.limit, std::memory_order_relaxed);
    excess_.store(level >= MemoryLevel::kClose ? memory_excess(use, marks) : 0, std::memory_order_relaxed);
    timeout_percent_.store(level == MemoryLevel::kNormal ? 100 : reduced_timeout_percent(use, marks),
                           std::memory_order_relaxed);
    level_.store(level, std::memory_order_relaxed);
    readings_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Whether requests of normal priority may be refused.
  bool refuses_normal() const { return refuses_normal_.load(std::memory_order_relaxed); }

  void set_delay(const config::OverloadDelay& delay) {
    refuses_normal_.store(delay.refuse == config::Priority::kNormal, std::memory_order_relaxed);
    delay_target_ms_.store(config::milliseconds(delay.target), std::memory_order_relaxed);
    delay_interval_ms_.store(config::milliseconds(delay.interval), std::memory_order_relaxed);
  }

 private:
  std::atomic<MemoryLevel> level_{MemoryLevel::kNormal};
  std::atomic<uint32_t> timeout_percent_{100};
  std::atomic<uint32_t> readings_{0};
  std::atomic<uint64_t> excess_{0}, used_{0}, limit_{0};
  std::atomic<uint64_t> delay_target_ms_{0}, delay_interval_ms_{0};
  std::atomic<bool> refuses_normal_{false};
};

}  // namespace sluice
