#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/upstream/hash_member.h"

namespace sluice {

/// Maglev's table: each slot names a member, each member has as many slots as its weight asks for, and another set of
/// members has most slots as they were. "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016,
/// section 3.4. What is in it depends on the members only, not on their order. Immutable.
class MaglevTable {
 public:
  /// A prime. The paper's smaller table, and Envoy's: shares are even to 1 % for up to 655 members of one weight.
  static constexpr uint32_t kSlots = 65537;
  /// Beyond it some would get no slot, and 16 bits would not hold them.
  static constexpr size_t kMaxMembers = 65535;

  MaglevTable() = default;
  /// Precondition: at most kMaxMembers.
  explicit MaglevTable(std::vector<HashMember> members);

  bool empty() const { return slots_.empty(); }

  /// The first member that `accept` takes, from the hash's slot on: neighbours of a slot are as good as chance, so
  /// those who are passed over leave their share to all others. Gives up after `kMaxHashSteps` slots.
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
  std::vector<uint16_t> slots_;    // kSlots of them, or none. A place in
  std::vector<uint32_t> indices_;  // HashMember::index.
};

}  // namespace sluice
