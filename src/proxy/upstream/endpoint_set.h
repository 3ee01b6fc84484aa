#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/upstream/hash_ring.h"
#include "proxy/upstream/maglev_table.h"

namespace sluice {

/// The endpoints of an upstream at one point in time, in a form for lookups by balancers. Immutable, and shared by the
/// workers; EndpointTable makes a new one when the endpoints change. It does not contain whether they are up: lookups
/// skip endpoints that are down, which moves their keys and no others.
class EndpointSet {
 public:
  /// Endpoints of one priority.
  struct Level {
    std::vector<uint32_t> members;    ///< Their slots, in order.
    std::vector<uint64_t> weight_to;  ///< The sum of the weights up to and including each.
    std::vector<uint64_t> ids;        ///< For each, a hash of its address.
    bool equal_weights = true;        ///< Of all members.
    MaglevTable maglev;               ///< With Balance::kMaglev, else empty.
    HashRing ring;                    ///< With Balance::kRingHash, else empty.

    uint64_t weight() const { return weight_to.back(); }
    /// The weight of the member at a position of `members`.
    uint32_t weight_of(size_t position) const {
      return static_cast<uint32_t>(weight_to[position] - (position > 0 ? weight_to[position - 1] : 0));
    }
    /// The member that owns unit `weight` of the sum of weights. Precondition: weight < weight().
    uint32_t member_at(uint64_t weight) const;
    /// The id of a member.
    uint64_t id_of(uint32_t slot) const;
  };

  /// An endpoint to put into a set.
  struct Endpoint {
    uint32_t slot;
    std::string_view address;
    uint32_t weight;
    uint32_t priority;
  };
  /// `endpoints` are in the order of their slots, which are below `slot_count`.
  EndpointSet(const config::Upstream& config, size_t slot_count, std::span<const Endpoint> endpoints,
              uint64_t generation);

  /// The generation of EndpointTable; greater than that of any earlier set.
  uint64_t generation() const { return generation_; }
  /// The slots of all endpoints, in order.
  std::span<const uint32_t> members() const { return members_; }
  /// The levels in ascending order of their priority numbers. No level is empty, but the list may be.
  const std::vector<Level>& levels() const { return levels_; }

  /// The cookie id of an endpoint (0 if it is not in the set), and the endpoint for a cookie id. For upstreams with
  /// `sticky`.
  uint64_t cookie_id(uint32_t index) const { return cookie_id_of_[index]; }
  std::optional<uint32_t> find_cookie_id(uint64_t id) const;

 private:
  uint64_t generation_;
  std::vector<uint32_t> members_;
  std::vector<Level> levels_;
  std::vector<uint64_t> cookie_id_of_;                     // By slot; 0 for endpoints that are not in the set.
  std::vector<std::pair<uint64_t, uint32_t>> cookie_ids_;  // Sorted ids with their endpoints.
};

}  // namespace sluice
