// Source::kHeap: one malloc per chunk in use, and the same accounting as with the arena.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "pool/arena.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

constexpr ChunkPool::Source kHeap = ChunkPool::Source::kHeap;

TEST(HeapSource, ReturnsChunksOfEachTier) {
  ChunkPool pool({.budget_bytes = 1 << 20, .source = kHeap});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  for (int tier = 0; tier < kTierCount; ++tier) {
    chunks.push_back(ChunkRef::take(pool.get_tier(tier)));
    ASSERT_TRUE(chunks.back());
    EXPECT_TRUE(chunks.back().writable());
    EXPECT_EQ(chunks.back().capacity(), tier_bytes(tier));
    EXPECT_EQ(chunks.back().get()->home, &pool);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(chunks.back().data()) % 16, 0u);
    std::memset(chunks.back().data(), tier, tier_bytes(tier));
  }
  for (int tier = 0; tier < kTierCount; ++tier) {
    EXPECT_EQ(chunks[static_cast<size_t>(tier)].data()[tier_bytes(tier) - 1], static_cast<std::byte>(tier));
  }
}

TEST(HeapSource, CountsLikeTheArena) {
  ChunkPool pool({.budget_bytes = 2 * 4096, .source = kHeap});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  for (int i = 0; i < 2; ++i) chunks.push_back(ChunkRef::take(pool.get(4096)));
  EXPECT_EQ(pool.get(64), nullptr);
  EXPECT_EQ(pool.headroom_bytes(), 0u);
  const ChunkRef metadata = ChunkRef::take(pool.get_metadata(100));
  EXPECT_EQ(metadata.get()->home, &pool);
  chunks.pop_back();
  ChunkPool::Stats stats = pool.stats();
  EXPECT_EQ(stats.tiers[6].out, 1u);
  EXPECT_EQ(stats.tiers[6].out_peak, 2u);
  EXPECT_EQ(stats.tiers[6].free, 0u);
  EXPECT_EQ(stats.out_bytes, 4096u + 128u);
  EXPECT_EQ(stats.out_bytes_peak, 2 * 4096u + 128u);
  EXPECT_EQ(stats.mapped_bytes, stats.out_bytes);
  EXPECT_EQ(stats.refused, 1u);
  EXPECT_EQ(pool.leaked(), 2u);
  for (int i = 0; i < 3; ++i) pool.age();
  EXPECT_FALSE(pool.trim(SIZE_MAX));
}

TEST(HeapSource, ChunkReleasedElsewhereIsARemoteFree) {
  ChunkPool pool({.budget_bytes = 4096, .source = kHeap});
  ChunkPool::Use use(&pool);
  std::thread([chunk = ChunkRef::take(pool.get(4096))] { std::memset(chunk.data(), 1, 4096); }).join();
  EXPECT_EQ(pool.out_bytes(), 4096u);
  const ChunkRef again = ChunkRef::take(pool.get(4096));
  EXPECT_TRUE(again);
  EXPECT_EQ(pool.stats().freed_remotely, 1u);
}

TEST(HeapSource, TakesFromTheSharedBudgetInSlabs) {
  Budget shared(2 * Arena::kSlabBytes);
  {
    ChunkPool pool({.budget_bytes = 4 << 20, .source = kHeap, .shared = &shared});
    ChunkPool::Use use(&pool);
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = pool.get(kMaxChunkBytes)) chunks.push_back(ChunkRef::take(chunk));
    EXPECT_EQ(chunks.size(), 8u);
    EXPECT_EQ(shared.used_bytes(), 2 * Arena::kSlabBytes);
    EXPECT_EQ(pool.stats().refused_shared, 1u);
    chunks.clear();
    EXPECT_LE(shared.used_bytes(), 2 * Arena::kSlabBytes - 1);
  }
  EXPECT_EQ(shared.used_bytes(), 0u);
}

TEST(HeapSourceDeathTest, ReportsLeaksAndLeavesThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        alignas(ChunkPool) static std::byte place[sizeof(ChunkPool)];
        ChunkPool* const pool = new (place) ChunkPool({.budget_bytes = 1 << 20, .source = kHeap});
        ChunkRef here = ChunkRef::take(pool->get(64));
        ChunkRef there = ChunkRef::take(pool->get(4096));
        pool->~ChunkPool();
        std::memset(place, 0xff, sizeof(place));
        std::memset(there.data(), 1, there.capacity());
        here = ChunkRef();
        std::thread([chunk = std::move(there)] {}).join();
        for (const std::byte byte : place) {
          if (byte != std::byte{0xff}) _exit(1);
        }
        _exit(0);
      },
      testing::ExitedWithCode(0), "leak: 4160 bytes in chunks were not released: 1 x 64 B 1 x 4096 B");
}

}  // namespace
}  // namespace sluice
