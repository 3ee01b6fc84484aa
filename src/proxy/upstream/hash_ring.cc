#include "proxy/upstream/hash_ring.h"

#include "proxy/upstream/stable_hash.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// A point and the id of its member. The id breaks ties, so that they do not depend on the configuration's order.
struct PlacedPoint {
  uint32_t at;
  uint64_t id;
  uint32_t index;

  bool operator<(const PlacedPoint& other) const { return at != other.at ? at < other.at : id < other.id; }
};

}  // namespace

HashRing::HashRing(const std::vector<HashMember>& members) {
  SLUICE_CHECK(members.size() <= kMaxPoints);
  uint64_t weight = 0;
  for (const HashMember& member : members) weight += member.weight;
  // The divisor is a power of two, so that a change of the members rarely changes the points per weight.
  uint64_t divisor = 1;
  while (weight * kPointsPerWeight / divisor + members.size() > kMaxPoints) divisor *= 2;
  std::vector<PlacedPoint> placed;
  placed.reserve(weight * kPointsPerWeight / divisor + members.size());
  for (const HashMember& member : members) {
    const uint64_t points = std::max<uint64_t>(member.weight * uint64_t{kPointsPerWeight} / divisor, 1);
    for (uint64_t i = 0; i < points; ++i) {
      const uint64_t hash = mixed(member.id + i * 0x9e3779b97f4a7c15);
      placed.push_back({static_cast<uint32_t>(hash >> 32), member.id, member.index});
    }
  }
  std::sort(placed.begin(), placed.end());
  points_.reserve(placed.size());
  for (const PlacedPoint& point : placed) points_.push_back({point.at, point.index});
}

}  // namespace sluice
