// Defect: a budget near SIZE_MAX ("no bound") overflowed in the computation of the arena's size, which then was 5.5
// MiB.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

TEST(Regression, UnlimitedBudgetIsBoundedByTheArenaOnly) {
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
