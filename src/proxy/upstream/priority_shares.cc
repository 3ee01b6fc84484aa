#include "proxy/upstream/priority_shares.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr uint64_t kWhole = 10'000;

}  // namespace

void share_by_priority(std::span<const LevelHealth> levels, uint32_t failover_below, std::span<uint64_t> shares) {
  uint64_t left = kWhole;
  for (size_t i = 0; i < levels.size(); ++i) {
    const uint64_t can_take = levels[i].up * kWhole * 100 / (levels[i].all * failover_below);
    // One endpoint among very many still gets a share.
    shares[i] = std::min(left, levels[i].up > 0 ? std::max<uint64_t>(can_take, 1) : 0);
    left -= shares[i];
  }
  if (left < kWhole) return;
  for (size_t i = 0; i < levels.size(); ++i) shares[i] = levels[i].all;
}

}  // namespace sluice
