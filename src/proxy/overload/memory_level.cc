#include "proxy/overload/memory_level.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice {

namespace {

uint32_t mark_of(MemoryLevel level, const config::OverloadMemory& marks) {
  switch (level) {
    case MemoryLevel::kNormal:
      return 0;
    case MemoryLevel::kReduce:
      return marks.reduce;
    case MemoryLevel::kClose:
      return marks.close;
    case MemoryLevel::kRefuse:
      return marks.refuse;
  }
  return 0;
}

}  // namespace

std::string_view memory_level_name(MemoryLevel level) {
  static constexpr std::array<std::string_view, kMemoryLevelCount> kNames = {"normal", "reduce", "close", "refuse"};
  return kNames[static_cast<size_t>(level)];
}

MemoryLevel next_memory_level(MemoryLevel now, const MemoryUse& use, const config::OverloadMemory& marks) {
  if (use.limit == 0 || !marks.enabled) return MemoryLevel::kNormal;
  const double percent = use.share() * 100;
  for (const MemoryLevel level : {MemoryLevel::kRefuse, MemoryLevel::kClose, MemoryLevel::kReduce}) {
    const double mark = mark_of(level, marks);
    if (percent >= (level <= now ? mark - kMemoryHysteresis : mark)) return level;
  }
  return MemoryLevel::kNormal;
}

uint64_t memory_excess(const MemoryUse& use, const config::OverloadMemory& marks) {
  const uint32_t end = marks.close > kMemoryHysteresis ? marks.close - kMemoryHysteresis : 0;
  const uint64_t bound = use.limit / 100 * end;
  return use.used > bound ? use.used - bound : 0;
}

uint32_t reduced_timeout_percent(const MemoryUse& use, const config::OverloadMemory& marks) {
  const double range = marks.refuse > marks.reduce ? marks.refuse - marks.reduce : 1;
  const double part = std::clamp((use.share() * 100 - marks.reduce) / range, 0.0, 1.0);
  return 100 - static_cast<uint32_t>(part * (100 - kLeastTimeout));
}

}  // namespace sluice
