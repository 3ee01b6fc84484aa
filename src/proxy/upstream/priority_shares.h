#pragma once

#include <cstdint>
#include <span>

namespace sluice {

/// The number of endpoints of one priority, and the number of them that are up.
struct LevelHealth {
  uint64_t up = 0;
  uint64_t all = 0;
};

/// Computes the share of the load for each priority, in an arbitrary unit. `levels` are in ascending order of their
/// priority numbers; `shares` has the same size. A level with at least `failover_below` percent of its endpoints up
/// takes the whole load that the levels before it left; one with fewer takes a proportionally smaller part. If all
/// levels together cannot take the whole load, they share it in proportion to what they can take; if no endpoint is up,
/// in proportion to their numbers of endpoints. This is Envoy's algorithm ("Priority levels"), whose overprovisioning
/// factor is 100 / `failover_below`.
void share_by_priority(std::span<const LevelHealth> levels, uint32_t failover_below, std::span<uint64_t> shares);

}  // namespace sluice
