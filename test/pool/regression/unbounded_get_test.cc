// Defect: ChunkPool::get(bytes) with more than kMaxChunkBytes used an index after the last tier instead of ending the
// process (Lease::allocate(pool, size, headroom) gets there easily).

#include <gtest/gtest.h>

#include "sluice/chunk_pool.h"
#include "sluice/lease.h"

namespace sluice {
namespace {

TEST(RegressionDeathTest, GetChecksItsPrecondition) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  EXPECT_DEATH(pool.get(kMaxChunkBytes + 1), "check failed: bytes <= kMaxChunkBytes");
  EXPECT_DEATH(Lease::allocate(pool, kMaxChunkBytes, 1), "check failed: .*bytes <= kMaxChunkBytes");
}

}  // namespace
}  // namespace sluice
