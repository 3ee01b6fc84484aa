#pragma once

#include <cstdint>
#include <span>

namespace sluice {

/// How many endpoints of a priority there are, and how many of them are up.
struct LevelHealth {
  uint64_t up = 0;
  uint64_t all = 0;
};

/// What each priority gets, in any unit: only what they are to each other counts. `levels` go from the lowest priority
/// on, `shares` are as many. A level with `failover_below` percent of its endpoints up, or more, takes all that is left
/// by those before it; one with less takes so much less, in proportion. Where all levels together cannot take it all,
/// they share it in proportion to what they can; where none is up, to how many endpoints they have. This is Envoy's
/// algorithm ("Priority levels"), whose overprovisioning factor is 100 / `failover_below`.
void share_by_priority(std::span<const LevelHealth> levels, uint32_t failover_below, std::span<uint64_t> shares);

}  // namespace sluice
