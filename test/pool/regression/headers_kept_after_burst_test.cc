// Defect: headers and free lists came from malloc, which keeps memory below any other block and, once a large block was
// freed, takes most blocks from its heap: after a burst of 64 B chunks, resident memory stayed larger by half the size
// of the chunks.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "sluice/chunk_pool.h"
#include "test/pool/resident.h"

namespace sluice {
namespace {

TEST(Regression, HeadersOfABurstAreReturned) {
  if (kDebugChecks) GTEST_SKIP() << "a sanitizer's shadow memory grows too";
  void* volatile large = std::malloc(16 << 20);
  std::free(large);
  ChunkPool pool({.budget_bytes = 64 << 20});
  ChunkPool::Use use(&pool);
  test::process_resident_bytes();  // Allocates what it uses itself.
  const size_t before = test::process_resident_bytes();
  Chunk* last = nullptr;  // Each chunk refers to the previous one.
  void* between = nullptr;
  while (Chunk* chunk = pool.get(64)) {
    std::memcpy(chunk->data, &last, sizeof(Chunk*));
    last = chunk;
    if (between == nullptr && pool.headroom_bytes() < 32 << 20) between = std::malloc(100);
  }
  EXPECT_GT(test::process_resident_bytes(), before + (96 << 20));
  while (Chunk* chunk = last) {
    std::memcpy(&last, chunk->data, sizeof(Chunk*));
    chunk_unref(chunk);
  }
  for (int i = 0; i < 3; ++i) pool.age();
  while (pool.trim(2 << 20)) {
  }
  EXPECT_LT(test::process_resident_bytes(), before + (1 << 20));
  std::free(between);
}

}  // namespace
}  // namespace sluice
