// Defect: Stats::refused, the number of get() calls beyond the budget, also counted get_metadata() calls, which are
// never refused: they were served from the heap when the arena was used up.

#include <gtest/gtest.h>

#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

TEST(Regression, MetadataFromTheHeapIsNotRefused) {
  ChunkPool pool({.budget_bytes = 0});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> metadata;
  do {
    metadata.push_back(ChunkRef::take(pool.get_metadata(kMaxChunkBytes)));
  } while (metadata.back().get()->home == &pool);
  EXPECT_EQ(pool.stats().refused, 0u);
}

}  // namespace
}  // namespace sluice
