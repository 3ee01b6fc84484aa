// Defect: after an unsuccessful search for unused slabs, get() refused until the next age(), although all of them might
// have become unused since.

#include <gtest/gtest.h>

#include <vector>

#include "pool/arena.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

// Only metadata may exceed the budget, and so reach the arena's end.
std::vector<ChunkRef> use_up(ChunkPool& pool, size_t bytes) {
  std::vector<ChunkRef> metadata;
  do {
    metadata.push_back(ChunkRef::take(pool.get_metadata(bytes)));
  } while (metadata.back().get()->home == &pool);
  return metadata;
}

TEST(Regression, ReturnedChunkAllowsAnotherSearch) {
  for (const bool here : {true, false}) {
    ChunkPool pool({.budget_bytes = 64 << 10});
    ChunkPool::Use use(&pool);
    std::vector<ChunkRef> metadata = use_up(pool, kMaxChunkBytes);
    {
      ChunkPool::Use elsewhere(here ? &pool : nullptr);
      metadata.clear();
    }
    EXPECT_TRUE(ChunkRef::take(pool.get(64)));
    EXPECT_EQ(pool.stats().refused, 0u);
  }
}

TEST(Regression, SearchIsNotRepeatedPerChunk) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> metadata = use_up(pool, 64);
  // One chunk of each slab stays in use.
  std::vector<ChunkRef> kept;
  uint16_t slab = Arena::kNoSlab;
  for (ChunkRef& chunk : metadata) {
    if (chunk.get()->home == nullptr || chunk.get()->slab == slab) continue;
    slab = chunk.get()->slab;
    kept.push_back(std::move(chunk));
  }
  metadata.clear();
  EXPECT_EQ(pool.get(4096), nullptr);  // Searches.
  // One slab is unused now, but that is found only after more than this chunk has returned.
  kept.pop_back();
  EXPECT_EQ(pool.get(4096), nullptr);
  for (size_t i = 0; i < pool.stats().tiers[0].free; ++i) chunk_unref(pool.get(64));
  EXPECT_TRUE(ChunkRef::take(pool.get(4096)));
}

}  // namespace
}  // namespace sluice
