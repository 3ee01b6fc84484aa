// In debug builds and under a sanitizer chunks are reused in a random order, the same in each run; in release builds
// the last one first.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

// Numbers of the chunks in the order of their reuse.
std::vector<size_t> reuse(ChunkPool& pool, size_t count) {
  std::vector<Chunk*> chunks;
  for (size_t i = 0; i < count; ++i) chunks.push_back(pool.get(4096));
  for (Chunk* chunk : chunks) chunk_unref(chunk);
  std::vector<size_t> order;
  std::vector<ChunkRef> again;
  for (size_t i = 0; i < count; ++i) {
    again.push_back(ChunkRef::take(pool.get(4096)));
    const auto at = std::find(chunks.begin(), chunks.end(), again.back().get());
    order.push_back(static_cast<size_t>(at - chunks.begin()));
  }
  return order;
}

TEST(ReuseOrder, IsTheSameInEachRun) {
  ChunkPool a({.budget_bytes = 1 << 20}), b({.budget_bytes = 1 << 20});
  std::vector<size_t> of_a, of_b;
  {
    ChunkPool::Use use(&a);
    of_a = reuse(a, 64);
  }
  {
    ChunkPool::Use use(&b);
    of_b = reuse(b, 64);
  }
  EXPECT_EQ(of_a, of_b);
  size_t out_of_order = 0;
  for (size_t i = 0; i < 64; ++i) out_of_order += of_a[i] != 63 - i;
  if (kDebugChecks) {
    EXPECT_GT(out_of_order, 8u);
  } else {
    EXPECT_EQ(out_of_order, 0u);
  }
  std::sort(of_a.begin(), of_a.end());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(of_a[i], i);
}

}  // namespace
}  // namespace sluice
