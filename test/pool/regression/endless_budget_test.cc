// Defect: a budget near SIZE_MAX ("no bound") overflowed on the way to the arena, which then held 5.5 MiB.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

TEST(Regression, AnEndlessBudgetIsBoundedByTheArenaOnly) {
  ChunkPool pool({.budget_bytes = SIZE_MAX});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  for (int i = 0; i < 1000; ++i) {
    chunks.push_back(ChunkRef::take(pool.get(kMaxChunkBytes)));
    ASSERT_TRUE(chunks.back()) << i;
  }
}

}  // namespace
}  // namespace sluice
