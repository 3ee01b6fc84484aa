#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::inline v0_1 {

// Chunk sizes: 64 B to 64 KiB in powers of two, as in gVisor's bufferv2. Larger data is a chain of chunks.

inline constexpr size_t kMinChunkBytes = 64;
inline constexpr size_t kMaxChunkBytes = 64 * 1024;
inline constexpr int kTierCount = 11;

/// Capacity in bytes of a chunk of `tier`. Precondition: 0 <= tier < kTierCount.
constexpr size_t tier_bytes(int tier) { return kMinChunkBytes << tier; }

/// The smallest tier whose chunks hold `bytes`. Precondition: bytes <= kMaxChunkBytes. O(1).
constexpr int tier_for(size_t bytes) {
  return bytes <= kMinChunkBytes ? 0 : static_cast<int>(std::bit_width(bytes - 1)) - 6;
}

static_assert(tier_bytes(kTierCount - 1) == kMaxChunkBytes);
static_assert(tier_for(0) == 0 && tier_for(64) == 0 && tier_for(65) == 1 && tier_for(kMaxChunkBytes) == kTierCount - 1);

}  // namespace sluice::inline v0_1
