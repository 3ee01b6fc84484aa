#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/upstream/hash_member.h"

namespace sluice {

/// A ring of hashes, as libketama's: each member has points on it, in proportion to its weight, and a key belongs to
/// the first point behind it. When a member leaves, its keys move to those whose points are next, and no others. What
/// is on it depends on the members only, not on their order. Immutable.
class HashRing {
 public:
  /// Points for each unit of weight, as libketama and nginx have it: shares are even to about 1/sqrt(160), 8 %.
  static constexpr uint32_t kPointsPerWeight = 160;
  /// Points of all members, 2 MiB. Where weights ask for more, each unit has fewer: half as many, a quarter, ...
  static constexpr uint64_t kMaxPoints = uint64_t{1} << 18;

  HashRing() = default;
  /// Precondition: at most kMaxPoints, each of which then has a point.
  explicit HashRing(const std::vector<HashMember>& members);

  bool empty() const { return points_.empty(); }
  size_t points() const { return points_.size(); }

  /// The first member that `accept` takes, from the hash on. Gives up after `kMaxHashSteps` points.
  template <typename Accept>
  std::optional<uint32_t> find(uint64_t hash, Accept accept) const {
    if (points_.empty()) return std::nullopt;
    const auto at = static_cast<uint32_t>(hash >> 32);
    auto point = std::lower_bound(points_.begin(), points_.end(), at,
                                  [](const Point& p, uint32_t wanted) { return p.at < wanted; });
    for (size_t step = 0; step < kMaxHashSteps; ++step, ++point) {
      if (point == points_.end()) point = points_.begin();
      if (accept(point->index)) return point->index;
    }
    return std::nullopt;
  }

 private:
  struct Point {
    uint32_t at;
    uint32_t index;  // HashMember::index
  };
  std::vector<Point> points_;  // In their order.
};

}  // namespace sluice
