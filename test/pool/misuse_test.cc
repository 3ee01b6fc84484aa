// The pool's errors for chunks that are lost, used after their release, or requested beyond the limits.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <vector>

#include "pool/arena.h"
#include "pool/sanitizer.h"
#include "sluice/chunk_pool.h"
#include "test/pool/resident.h"
#include "test/support/sanitizers.h"

namespace sluice {
namespace {

class PoolDeathTest : public testing::Test {
 protected:
  PoolDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST(Pool, PrintsNothingWhenEveryChunkReturned) {
  testing::internal::CaptureStderr();
  {
    ChunkPool pool({.budget_bytes = 1 << 20});
    ChunkPool::Use use(&pool);
    chunk_unref(pool.get(64));
    ChunkPool::Use elsewhere(nullptr);
    chunk_unref(pool.get(4096));  // Still in the remote_frees when the pool ends.
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The bodies below end with _exit, so that a leak checker does not report the intended leaks.

TEST_F(PoolDeathTest, ReportsLeaks) {
  EXPECT_EXIT(
      {
        {
          ChunkPool pool({.budget_bytes = 1 << 20});
          pool.get(64);
          pool.get(4096);
          pool.get(4096);
          if (pool.leaked() != 3) _exit(1);
        }
        _exit(0);
      },
      testing::ExitedWithCode(0),
      "^sluice: leak: 8256 bytes in chunks were not released: 1 x 64 B 2 x 4096 B\n"
      "sluice: leak: SLUICE_LEAK_STACKS=1 in the environment shows where they were taken\n$");
}

TEST_F(PoolDeathTest, LeavesLeakedChunksMapped) {
  EXPECT_EXIT(
      {
        std::vector<Chunk*> chunks;
        {
          ChunkPool pool({.budget_bytes = 1 << 20});
          for (int tier = 0; tier < kTierCount; ++tier) chunks.push_back(pool.get_tier(tier));
          for (Chunk* chunk : chunks) std::memset(chunk->data, 0x33, chunk_capacity(*chunk));
        }
        for (Chunk* chunk : chunks) {
          const size_t bytes = chunk_capacity(*chunk);
          if (!test::is_mapped(chunk->data) || chunk->data[bytes - 1] != std::byte{0x33}) _exit(1);
          std::memset(chunk->data, 0x44, bytes);
        }
        _exit(0);
      },
      testing::ExitedWithCode(0), "sluice: leak: 131008 bytes");
}

// Defect: a pool whose addresses could not be reserved ended the process, with a message about the proxy's
// configuration, even in other programs that use the library.
TEST_F(PoolDeathTest, WithoutAddressSpaceChunksComeFromTheHeap) {
  EXPECT_EXIT(
      {
        // More than any process can have.
        std::vector<std::optional<Arena>> arenas(1 << 20);
        size_t count = 0;
        do {
          arenas[count].emplace(Arena::Options{.reserve_bytes = SIZE_MAX / 2});
        } while (arenas[count++]->reserved());
        if (arenas[count - 1]->slab_limit() != 0 || arenas[count - 1]->take() != Arena::kNoSlab) _exit(1);
        ChunkPool pool({.budget_bytes = size_t{8} << 30});
        if (pool.source() != ChunkPool::Source::kHeap || pool.budget_bytes() != size_t{8} << 30) _exit(2);
        ChunkPool::Use use(&pool);
        {
          const ChunkRef chunk = ChunkRef::take(pool.get(4096));
          if (!chunk || pool.out_bytes() != 4096) _exit(3);
          std::memset(chunk.data(), 1, chunk.capacity());
        }
        _exit(pool.leaked() == 0 ? 0 : 4);
      },
      testing::ExitedWithCode(0), "^$");
}

#ifndef SLUICE_ASAN
TEST_F(PoolDeathTest, WriteToAFreeChunkIsDetectedWhenItIsReused) {
  if (!kDebugChecks) GTEST_SKIP() << "release builds write no pattern";
  for (const int tier : {0, 6, kTierCount - 1}) {
    ChunkPool pool({.budget_bytes = 1 << 20});
    ChunkPool::Use use(&pool);
    Chunk* const chunk = pool.get_tier(tier);
    std::byte* const data = chunk->data;
    data[10] = std::byte{1};
    chunk_unref(chunk);
    data[10] = std::byte{2};
    EXPECT_DEATH(pool.get_tier(tier), "written_to_after_its_last_reference");
    data[10] = kFreePattern;
    chunk_unref(pool.get_tier(tier));
  }
}

TEST_F(PoolDeathTest, ReleaseBuildDoesNotChangeAFreeChunk) {
  if (kDebugChecks) GTEST_SKIP() << "debug builds write a pattern";
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Chunk* const chunk = pool.get(64);
  const volatile std::byte* const data = chunk->data;
  chunk->data[10] = std::byte{1};
  chunk_unref(chunk);
  EXPECT_TRUE(data[10] == std::byte{1});
}
#endif

TEST(Pool, ReturnedPagesMayBeReused) {
  ChunkPool pool({.budget_bytes = 8 << 20});
  ChunkPool::Use use(&pool);
  for (int round = 0; round < 3; ++round) {
    std::vector<ChunkRef> chunks;
    for (int i = 0; i < 40; ++i) chunks.push_back(ChunkRef::take(pool.get(i % 2 ? 4096 : 64)));
    for (ChunkRef& chunk : chunks) std::memset(chunk.data(), 1, chunk.capacity());
    chunks.resize(round == 1 ? 0 : 1);
    for (int i = 0; i < 3; ++i) pool.age();
    while (pool.trim(1 << 20)) {
    }
  }
}

#ifdef SLUICE_ASAN
TEST_F(PoolDeathTest, FreeChunkIsPoisoned) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  for (int tier = 0; tier < kTierCount; ++tier) {
    Chunk* const chunk = pool.get_tier(tier);
    std::byte* const data = chunk->data;
    std::memset(data, 1, tier_bytes(tier));
    chunk_unref(chunk);
    volatile std::byte* const last = data + tier_bytes(tier) - 1;
    EXPECT_DEATH(*last = std::byte{2}, "use-after-poison");
    EXPECT_EQ(pool.get_tier(tier), chunk);  // Usable again.
    std::memset(data, 1, tier_bytes(tier));
    chunk_unref(chunk);
  }
}

TEST_F(PoolDeathTest, FreeChunkStaysPoisonedWhenItsSlabIsCutAgain) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Chunk* const chunk = pool.get(kMaxChunkBytes);
  std::byte* const data = chunk->data;
  chunk_unref(chunk);
  for (int i = 0; i < 3; ++i) pool.age();
  while (pool.trim(1 << 20)) {
  }
  const ChunkRef small = ChunkRef::take(pool.get(64));
  ASSERT_EQ(small.data(), data);
  std::memset(small.data(), 1, 64);
  volatile std::byte* const behind = data + 64;
  EXPECT_DEATH(*behind = std::byte{2}, "use-after-poison");
}
#endif

}  // namespace
}  // namespace sluice
