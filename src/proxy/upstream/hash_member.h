#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// One of those that a table of consistent hashing chooses from.
struct HashMember {
  uint64_t id;      ///< Where it stands: no two have the same.
  uint32_t weight;  ///< At least 1.
  uint32_t index;   ///< What the table gives.
};

/// How far a table is followed past members that are not taken. Where half of them are taken, one of 2^256 keys comes
/// so far; where nearly none is, it is shorter to look at each.
inline constexpr size_t kMaxHashSteps = 256;

}  // namespace sluice
