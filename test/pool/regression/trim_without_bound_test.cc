// Defect: ChunkPool::trim ignored its bound in small tiers. Chunks smaller than a page were skipped without counting,
// and all unused slabs of a tier were returned in one call (64 MiB of 64 B chunks: 32 ms at once).

#include <gtest/gtest.h>

#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

TEST(Regression, TrimKeepsItsBoundInSmallTiers) {
  constexpr size_t kBudget = 8 << 20, kStep = 512 << 10;
  for (const size_t bytes : {64u, 1024u, 4096u}) {
    ChunkPool pool({.budget_bytes = kBudget});
    ChunkPool::Use use(&pool);
    {
      std::vector<ChunkRef> chunks;
      while (Chunk* chunk = pool.get(bytes)) chunks.push_back(ChunkRef::take(chunk));
    }
    for (int i = 0; i < 3; ++i) pool.age();
    for (bool more = true; more;) {
      const ChunkPool::Stats before = pool.stats();
      more = pool.trim(kStep);
      const ChunkPool::Stats after = pool.stats();
      EXPECT_LE(after.discarded_bytes - before.discarded_bytes, kStep);
      EXPECT_LE(before.mapped_bytes - after.mapped_bytes, kStep);
    }
    EXPECT_EQ(pool.stats().discarded_bytes, kBudget);
    EXPECT_EQ(pool.stats().mapped_bytes, 0u);
  }
}

}  // namespace
}  // namespace sluice
