#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "proxy/upstream/hash_ring.h"
#include "proxy/upstream/maglev_table.h"

namespace sluice {

class EndpointTable;

/// The endpoints that an upstream has at one time, as balancers look them up. Immutable, and shared by the workers; who
/// changes which endpoints there are makes another one (EndpointTable). Whether they are up is not in it: a
/// table passes over those that are down, which moves their keys and no others.
class EndpointSet {
 public:
  /// Endpoints of one priority.
  struct Level {
    std::vector<uint32_t> members;    ///< Their slots, in order.
    std::vector<uint64_t> weight_to;  ///< The sum of the weights up to each, itself included.
    std::vector<uint64_t> ids;        ///< Of each: a hash of its address.
    MaglevTable maglev;               ///< With Balance::kMaglev, else empty;
    HashRing ring;                    ///< and this one with kRingHash.

    uint64_t weight() const { return weight_to.back(); }
    /// Whose share of the weights this is; of `weight()` of them.
    uint32_t member_at(uint64_t weight) const;
    /// Of a member.
    uint64_t id_of(uint32_t slot) const;
  };

  /// Of those that are present.
  EndpointSet(const EndpointTable& slots, uint64_t generation);

  /// Of EndpointTable; greater than that of any set before it.
  uint64_t generation() const { return generation_; }
  /// All of them: their slots, in order.
  std::span<const uint32_t> members() const { return members_; }
  /// From the lowest priority on; none is empty, but there may be none.
  const std::vector<Level>& levels() const { return levels_; }

  /// What a cookie calls this endpoint, 0 if it is not in the set; and which one it calls so. For upstreams with
  /// `sticky`.
  uint64_t cookie_id(uint32_t index) const { return cookie_id_of_[index]; }
  std::optional<uint32_t> find_cookie_id(uint64_t id) const;

 private:
  uint64_t generation_;
  std::vector<uint32_t> members_;
  std::vector<Level> levels_;
  std::vector<uint64_t> cookie_id_of_;                     // By slot; 0 for those that are not in the set.
  std::vector<std::pair<uint64_t, uint32_t>> cookie_ids_;  // With whose they are, in their order.
};

}  // namespace sluice
