#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// A member of a consistent-hashing table.
struct HashMember {
  uint64_t id;      ///< Determines its position; unique.
  uint32_t weight;  ///< At least 1.
  uint32_t index;   ///< The result of a lookup.
};

/// The number of entries that a lookup examines before it gives up. If half of the members are accepted, one key in
/// 2^256 needs that many; if nearly none is, a scan of all members is faster.
inline constexpr size_t kMaxHashSteps = 256;

}  // namespace sluice
