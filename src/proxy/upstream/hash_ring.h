#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/upstream/hash_member.h"

namespace sluice {

/// A hash ring, like libketama's: each member has points on it in proportion to its weight, and a key belongs to the
/// first point at or after it. When a member is removed, its keys move to the members with the next points, and no
/// other keys move. The contents depend only on the members, not on their order. Immutable.
class HashRing {
 public:
  /// Points per unit of weight, as in libketama and nginx: shares are even to about 1/sqrt(160), 8 %.
  static constexpr uint32_t kPointsPerWeight = 160;
  /// The maximum number of points, 2 MiB. If the weights need more, each unit gets fewer: half as many, a quarter, ...
  static constexpr uint64_t kMaxPoints = uint64_t{1} << 18;

  HashRing() = default;
  /// Precondition: at most kMaxPoints members. Each member gets at least one point.
  explicit HashRing(const std::vector<HashMember>& members);

  bool empty() const { return points_.empty(); }
  size_t points() const { return points_.size(); }

  /// Returns the first member from the hash on that `accept(index)` accepts. Gives up after `kMaxHashSteps` points.
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
  std::vector<Point> points_;  // Sorted by `at`.
};

}  // namespace sluice
