// Defect: Stats::discarded_bytes counted chunks of a page or more twice, when their pages were discarded and again when
// their slab was retired; and slabs that changed their tier because the arena was used up, although they were not old.

#include <gtest/gtest.h>

#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

TEST(Regression, DiscardedBytesAreCountedOnce) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  {
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = pool.get(4096)) chunks.push_back(ChunkRef::take(chunk));
  }
  for (int i = 0; i < 3; ++i) pool.age();
  while (pool.trim(1 << 20)) {
  }
  EXPECT_EQ(pool.stats().discarded_bytes, 1u << 20);
}

TEST(Regression, SlabThatChangesItsTierIsNotDiscarded) {
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  for (int tier = 0; tier < kTierCount; ++tier) {
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = pool.get_tier(tier)) chunks.push_back(ChunkRef::take(chunk));
  }
  EXPECT_EQ(pool.stats().discarded_bytes, 0u);
}

}  // namespace
}  // namespace sluice
