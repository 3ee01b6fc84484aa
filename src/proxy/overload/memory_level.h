#pragma once

#include <cstdint>
#include <string_view>

#include "proxy/config/model/overload.h"

namespace sluice {

/// What the memory in use demands. Each level includes those before it.
enum class MemoryLevel : uint8_t {
  kNormal,
  kReduce,  ///< Connections end sooner, and less may wait.
  kClose,   ///< Connections that hold much are closed.
  kRefuse,  ///< New connections are refused.
};
inline constexpr int kMemoryLevelCount = 4;
std::string_view memory_level_name(MemoryLevel level);

/// Memory in use, and its limit, in bytes. A limit of 0 means that there is none.
struct MemoryUse {
  uint64_t used = 0;
  uint64_t limit = 0;

  /// 0 without a limit.
  double share() const { return limit == 0 ? 0 : static_cast<double>(used) / static_cast<double>(limit); }
};

/// A level ends this many percent of the limit below the mark at which it begins, so that levels do not flap.
inline constexpr uint32_t kMemoryHysteresis = 5;

/// The level that follows `now`. It rises at once as far as the memory demands, and falls as far as the hysteresis lets
/// it.
MemoryLevel next_memory_level(MemoryLevel now, const MemoryUse& use, const config::OverloadMemory& marks);

/// The bytes that have to be freed for MemoryLevel::kClose to end; 0 if that is not the case.
uint64_t memory_excess(const MemoryUse& use, const config::OverloadMemory& marks);

/// What idle timeouts are reduced to, in percent: 100 at the mark `reduce`, kLeastTimeout at `refuse` and above, and
/// linear in between, as Envoy's `reduce_timeouts` does.
uint32_t reduced_timeout_percent(const MemoryUse& use, const config::OverloadMemory& marks);
inline constexpr uint32_t kLeastTimeout = 10;

}  // namespace sluice
