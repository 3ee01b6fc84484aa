// Defect: the last call of ChunkPool::trim for a tier searched and sorted its whole free list at once: 10 ms for 64 MiB
// of 64 B chunks.

#include <gtest/gtest.h>

#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

TEST(Regression, TrimExaminesNoMoreThanItsBound) {
  constexpr size_t kBudget = 16 << 20, kStep = 1 << 20;
  ChunkPool pool({.budget_bytes = kBudget});
  ChunkPool::Use use(&pool);
  {
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = pool.get(64)) chunks.push_back(ChunkRef::take(chunk));
  }
  for (int i = 0; i < 3; ++i) pool.age();
  size_t calls = 1;
  for (size_t before = pool.stats().tiers[0].free; pool.trim(kStep); ++calls) {
    const size_t after = pool.stats().tiers[0].free;
    ASSERT_LE((before - after) * 64, kStep);
    before = after;
  }
  EXPECT_EQ(pool.stats().mapped_bytes, 0u);
  EXPECT_LE(calls, 4 * kBudget / kStep) << "and it comes to an end";
}

}  // namespace
}  // namespace sluice
