#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/upstream/hash_member.h"

namespace sluice {

/// A Maglev lookup table: each slot names a member, each member has slots in proportion to its weight, and a change of
/// the members leaves most slots unchanged. "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016,
/// section 3.4. The contents depend only on the members, not on their order. Immutable.
class MaglevTable {
 public:
  /// A prime, the size of the paper's smaller table and of Envoy's: shares are even to 1 % for up to 655 members of
  /// equal weight.
  static constexpr uint32_t kSlots = 65537;
  /// With more members, some would get no slot, and 16 bits could not index them.
  static constexpr size_t kMaxMembers = 65535;

  MaglevTable() = default;
  /// Precondition: at most kMaxMembers members.
  explicit MaglevTable(std::vector<HashMember> members);

  bool empty() const { return slots_.empty(); }

  /// Returns the first member from the hash's slot on that `accept(index)` accepts. Adjacent slots belong to
  /// effectively random members, so the share of a member that is passed over is spread over all others. Gives up after
  /// `kMaxHashSteps` slots.
  template <typename Accept>
  std::optional<uint32_t> find(uint64_t hash, Accept accept) const {
    if (slots_.empty()) return std::nullopt;
    size_t slot = hash % kSlots;
    for (size_t step = 0; step < kMaxHashSteps; ++step) {
      const uint32_t index = indices_[slots_[slot]];
      if (accept(index)) return index;
      if (++slot == kSlots) slot = 0;
    }
    return std::nullopt;
  }

 private:
  std::vector<uint16_t> slots_;    // kSlots positions in indices_, or empty.
  std::vector<uint32_t> indices_;  // HashMember::index of each member.
};

}  // namespace sluice
