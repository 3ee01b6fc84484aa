// Defect: the first chunk that was cut from a slab touched the headers of all later ones: in C++20 the constructor of a
// std::atomic zeroes it. For the smallest tier these are 128 KiB per slab.

#include <gtest/gtest.h>

#include "sluice/chunk_pool.h"
#include "test/pool/resident.h"
#include "test/support/sanitizers.h"

namespace sluice {
namespace {

TEST(Regression, ChunkTouchesOnlyItsOwnHeader) {
#if defined(SLUICE_ASAN) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory grows too";
#endif
  {
    // The pages of the code, which count too.
    ChunkPool warm_up({.budget_bytes = 1 << 20});
    ChunkPool::Use use(&warm_up);
    const ChunkRef chunk = ChunkRef::take(warm_up.get(64));
  }
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  test::process_resident_bytes();  // Allocates what it uses itself.
  const size_t before = test::process_resident_bytes();
  const ChunkRef chunk = ChunkRef::take(pool.get(64));
  const size_t after = test::process_resident_bytes();
  EXPECT_LT(after, before + (64 << 10));
}

}  // namespace
}  // namespace sluice
