#include "sluice/tier.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Tier, DoublesFrom64BytesTo64KiB) {
  EXPECT_EQ(tier_bytes(0), 64u);
  for (int tier = 1; tier < kTierCount; ++tier) EXPECT_EQ(tier_bytes(tier), 2 * tier_bytes(tier - 1));
  EXPECT_EQ(tier_bytes(kTierCount - 1), 65536u);
}

TEST(Tier, IsTheSmallestThatFits) {
  for (size_t bytes = 0; bytes <= kMaxChunkBytes; ++bytes) {
    const int tier = tier_for(bytes);
    ASSERT_GE(tier, 0) << bytes;
    ASSERT_LT(tier, kTierCount) << bytes;
    ASSERT_GE(tier_bytes(tier), bytes);
    if (tier > 0) {
      ASSERT_LT(tier_bytes(tier - 1), bytes);
    }
  }
}

}  // namespace
}  // namespace sluice
