#include "sluice/chunk_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "pool/arena.h"
#include "test/support/another_reference.h"

namespace sluice {
namespace {

constexpr size_t kSlab = Arena::kSlabBytes;

TEST(ChunkPool, ReturnsTheSmallestTierThatFits) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  for (const size_t bytes : {0u, 1u, 64u, 65u, 1000u, 1500u, 4096u, 4097u, 65536u}) {
    const ChunkRef chunk = ChunkRef::take(pool.get(bytes));
    ASSERT_TRUE(chunk);
    EXPECT_EQ(chunk.capacity(), tier_bytes(tier_for(bytes)));
    EXPECT_TRUE(chunk.unique());
    std::memset(chunk.data(), 0x5a, chunk.capacity());
  }
}

TEST(ChunkPool, ChunksOfAPageOrMoreBeginWithAPage) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  for (int tier = 0; tier < kTierCount; ++tier) {
    const ChunkRef first = ChunkRef::take(pool.get_tier(tier)), second = ChunkRef::take(pool.get_tier(tier));
    const size_t alignment = std::min<size_t>(tier_bytes(tier), 4096);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % alignment, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(second.data()) % alignment, 0u);
  }
}

TEST(ChunkPool, ChunksDoNotOverlap) {
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  for (int tier = 0; tier < kTierCount; ++tier) {
    for (int i = 0; i < 20; ++i) chunks.push_back(ChunkRef::take(pool.get_tier(tier)));
  }
  std::sort(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) { return a.data() < b.data(); });
  for (size_t i = 1; i < chunks.size(); ++i) {
    EXPECT_LE(chunks[i - 1].data() + chunks[i - 1].capacity(), chunks[i].data());
  }
}

TEST(ChunkPool, KeepsAReserve) {
  for (const ChunkPool::Source source : {ChunkPool::Source::kArena, ChunkPool::Source::kHeap}) {
    ChunkPool pool({.budget_bytes = 1 << 20, .reserve_bytes = 256 << 10, .source = source});
    ChunkPool::Use use(&pool);
    EXPECT_EQ(pool.reserve_bytes(), 256u << 10);
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = pool.get(kMaxChunkBytes)) chunks.push_back(ChunkRef::take(chunk));
    EXPECT_EQ(pool.out_bytes(), 768u << 10);
    EXPECT_EQ(pool.headroom_bytes(), 0u);
    EXPECT_EQ(pool.reserved_headroom_bytes(), 256u << 10);
    EXPECT_EQ(pool.get(1), nullptr);
    while (Chunk* chunk = pool.get_reserved(4096)) chunks.push_back(ChunkRef::take(chunk));
    EXPECT_EQ(pool.out_bytes(), 1u << 20);
    EXPECT_EQ(pool.reserved_headroom_bytes(), 0u);
    // Returned chunks go to the reserve first.
    chunks.erase(chunks.begin(), chunks.begin() + 4);
    EXPECT_EQ(pool.get(1), nullptr);
    chunks.erase(chunks.begin());
    const ChunkRef again = ChunkRef::take(pool.get(kMaxChunkBytes));
    EXPECT_TRUE(again);
  }
}

TEST(ChunkPool, TheWarmestChunkIsReusedFirst) {
  if (kDebugChecks) GTEST_SKIP() << "in a debug build the order is not promised";
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Chunk* const a = pool.get(4096);
  Chunk* const b = pool.get(4096);
  Chunk* const other_tier = pool.get(64);
  chunk_unref(a);
  chunk_unref(b);
  chunk_unref(other_tier);
  EXPECT_EQ(pool.get(4000), b);
  EXPECT_EQ(pool.get(4000), a);
  chunk_unref(a);
  chunk_unref(b);
}

TEST(ChunkPool, ChunkReturnsWithItsLastReference) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Chunk* const chunk = pool.get(100);
  chunk_ref(chunk);
  EXPECT_FALSE(chunk_unique(chunk));
  chunk_unref(chunk);
  EXPECT_EQ(pool.leaked(), 1u);
  EXPECT_TRUE(chunk_unique(chunk));
  chunk_unref(chunk);
  EXPECT_EQ(pool.leaked(), 0u);
  EXPECT_EQ(pool.out_bytes(), 0u);
}

TEST(ChunkPool, TheBudgetIsExact) {
  constexpr size_t kBudget = 10 * 4096 + 64;
  ChunkPool pool({.budget_bytes = kBudget});
  ChunkPool::Use use(&pool);
  EXPECT_EQ(pool.budget_bytes(), kBudget);
  std::vector<ChunkRef> chunks;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pool.headroom_bytes(), kBudget - static_cast<size_t>(i) * 4096);
    chunks.push_back(ChunkRef::take(pool.get(4096)));
    ASSERT_TRUE(chunks.back());
  }
  EXPECT_EQ(pool.get(4096), nullptr);
  EXPECT_EQ(pool.get(65), nullptr);
  EXPECT_EQ(pool.stats().refused, 2u);
  chunks.push_back(ChunkRef::take(pool.get(64)));
  EXPECT_TRUE(chunks.back());
  EXPECT_EQ(pool.out_bytes(), kBudget);
  EXPECT_EQ(pool.headroom_bytes(), 0u);
  EXPECT_EQ(pool.get(0), nullptr);
  EXPECT_EQ(pool.stats().refused, 3u);

  chunks.erase(chunks.begin());
  const ChunkRef again = ChunkRef::take(pool.get(4096));
  EXPECT_TRUE(again);
  EXPECT_EQ(pool.stats().refused, 3u);
}

TEST(ChunkPool, BudgetIncludesFreeChunks) {
  ChunkPool pool({.budget_bytes = 8192});
  ChunkPool::Use use(&pool);
  chunk_unref(pool.get(4096));
  const ChunkRef all = ChunkRef::take(pool.get(8192));
  ASSERT_TRUE(all);
  EXPECT_EQ(pool.stats().tiers[6].free, 1u);
  EXPECT_EQ(pool.get(4096), nullptr);
  EXPECT_EQ(pool.stats().refused, 1u);
}

TEST(ChunkPool, BudgetOfZeroGivesNothing) {
  ChunkPool pool({.budget_bytes = 0});
  ChunkPool::Use use(&pool);
  EXPECT_EQ(pool.get(1), nullptr);
  EXPECT_EQ(pool.headroom_bytes(), 0u);
}

TEST(ChunkPool, MetadataMayExceedTheBudget) {
  ChunkPool pool({.budget_bytes = 4096});
  ChunkPool::Use use(&pool);
  const ChunkRef data = ChunkRef::take(pool.get(4096));
  const ChunkRef metadata = ChunkRef::take(pool.get_metadata(1000));
  ASSERT_TRUE(metadata);
  EXPECT_EQ(metadata.capacity(), 1024u);
  EXPECT_EQ(metadata.get()->home, &pool);
  EXPECT_EQ(pool.out_bytes(), 4096u + 1024u);
  EXPECT_EQ(pool.headroom_bytes(), 0u);
  EXPECT_EQ(pool.stats().refused, 0u);
}

TEST(ChunkPool, MetadataReusesFreeChunksAndRemoteFrees) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  Chunk* const chunk = pool.get(128);
  {
    ChunkPool::Use use(&pool);
    chunk_unref(chunk);
  }
  EXPECT_EQ(pool.get_metadata(128), chunk);
  chunk_unref(chunk);  // No pool is current: the chunk goes to the remote_frees.
  EXPECT_EQ(pool.get_metadata(128), chunk);
  chunk_unref(chunk);
}

TEST(ChunkPool, MetadataLargerThanTheLargestTierIsOnTheHeap) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  const ChunkRef metadata = ChunkRef::take(pool.get_metadata(kMaxChunkBytes + 1));
  ASSERT_TRUE(metadata);
  EXPECT_EQ(metadata.get()->home, nullptr);
  EXPECT_EQ(metadata.capacity(), kMaxChunkBytes + 1);
  EXPECT_EQ(pool.out_bytes(), 0u);
  std::memset(metadata.data(), 1, metadata.capacity());
}

TEST(ChunkPool, ReportsWhatItHandsOut) {
  ChunkPool pool({.budget_bytes = 1 << 20, .reserve_bytes = 64 * 1024});
  const ChunkPool::Use use(&pool);
  chunk_unref(pool.get(512));  // One is on the free list.
  struct Taken {
    std::vector<size_t> bytes;
    const void* caller = nullptr;
  } taken;
  pool.set_take(
      [](void* context, size_t bytes, const void* caller) {
        static_cast<Taken*>(context)->bytes.push_back(bytes);
        static_cast<Taken*>(context)->caller = caller;
      },
      &taken);
  for (const size_t bytes : {500u, 512u, 16384u}) chunk_unref(pool.get(bytes));
  chunk_unref(pool.get_reserved(4000));
  chunk_unref(pool.get_metadata(100));
  EXPECT_EQ(taken.bytes, (std::vector<size_t>{512, 512, 16384, 4096, tier_bytes(tier_for(100))}));
  EXPECT_NE(taken.caller, nullptr);
  // What is refused is not handed out.
  std::vector<ChunkRef> all;
  while (Chunk* chunk = pool.get(kMaxChunkBytes)) all.push_back(ChunkRef::take(chunk));
  const size_t before = taken.bytes.size();
  EXPECT_EQ(before, 5 + all.size());
  all.clear();

  pool.set_take(nullptr, nullptr);
  chunk_unref(pool.get(512));
  chunk_unref(pool.get_metadata(100));
  chunk_unref(pool.get(kMaxChunkBytes));
  EXPECT_EQ(taken.bytes.size(), before);
}

TEST(ChunkPool, HeapChunkBelongsToNoPool) {
  const ChunkRef chunk = ChunkRef::take(heap_chunk(100'000));
  EXPECT_EQ(chunk.capacity(), 100'000u);
  EXPECT_TRUE(chunk.unique());
  std::memset(chunk.data(), 1, chunk.capacity());
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  chunk_unref(heap_chunk(0));
  EXPECT_EQ(pool.stats().freed_remotely, 0u);
}

TEST(ChunkPool, StatsHaveUsedAndFreeBytes) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  EXPECT_EQ(pool.stats().mapped_bytes, 0u);
  std::vector<ChunkRef> chunks(3);
  for (ChunkRef& chunk : chunks) chunk = ChunkRef::take(pool.get(64));
  chunks.push_back(ChunkRef::take(pool.get(1024)));
  chunks.erase(chunks.begin());
  const ChunkPool::Stats stats = pool.stats();
  EXPECT_EQ(stats.tiers[0].out, 2u);
  EXPECT_EQ(stats.tiers[0].out_peak, 3u);
  EXPECT_EQ(stats.tiers[0].free, 1u);
  EXPECT_EQ(stats.tiers[4].out, 1u);
  EXPECT_EQ(stats.tiers[5].out_peak, 0u);
  EXPECT_EQ(stats.out_bytes, 2 * 64u + 1024u);
  EXPECT_EQ(stats.out_bytes_peak, 3 * 64u + 1024u);
  EXPECT_EQ(stats.budget_bytes, 1u << 20);
  EXPECT_EQ(stats.mapped_bytes, 2 * kSlab);
  EXPECT_EQ(pool.leaked(), 3u);
}

TEST(ChunkPool, CutsASlabToItsEndBeforeItTakesAnother) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  for (size_t i = 0; i < kSlab / 16384; ++i) {
    chunks.push_back(ChunkRef::take(pool.get(16384)));
    EXPECT_EQ(pool.stats().mapped_bytes, kSlab);
    EXPECT_EQ(pool.stats().tiers[8].free, 0u);
    EXPECT_EQ(chunks.back().data(), chunks.front().data() + i * 16384);
  }
  chunks.push_back(ChunkRef::take(pool.get(16384)));
  EXPECT_EQ(pool.stats().mapped_bytes, 2 * kSlab);
  chunks.clear();
  for (size_t i = 0; i < kSlab / 16384 + 1; ++i) chunks.push_back(ChunkRef::take(pool.get(16384)));
  EXPECT_EQ(pool.stats().mapped_bytes, 2 * kSlab);
}

TEST(ChunkPool, EachTierCanUseTheWholeBudgetInTurn) {
  // Eleven tiers of free lists are more than the arena holds, so that slabs must change their tier.
  constexpr size_t kBudget = 2 << 20;
  ChunkPool pool({.budget_bytes = kBudget});
  ChunkPool::Use use(&pool);
  for (int round = 0; round < 3; ++round) {
    for (int tier = 0; tier < kTierCount; ++tier) {
      std::vector<ChunkRef> chunks;
      for (size_t i = 0; i < kBudget / tier_bytes(tier); ++i) {
        chunks.push_back(ChunkRef::take(pool.get_tier(tier)));
        ASSERT_TRUE(chunks.back()) << "round " << round << " tier " << tier << " chunk " << i;
        std::memset(chunks.back().data(), tier, tier_bytes(tier));
      }
      for (const ChunkRef& chunk : chunks) {
        EXPECT_EQ(chunk.data()[tier_bytes(tier) - 1], static_cast<std::byte>(tier));
      }
      EXPECT_EQ(pool.get_tier(tier), nullptr);
    }
  }
  EXPECT_EQ(pool.stats().refused, 3u * kTierCount);
  EXPECT_LE(pool.stats().mapped_bytes, 2 * kBudget + 2 * kTierCount * kSlab);
}

TEST(ChunkPool, ReclaimLeavesSlabsThatAreInUse) {
  constexpr size_t kBudget = 2 << 20;
  ChunkPool pool({.budget_bytes = kBudget});
  ChunkPool::Use use(&pool);
  // In each tier one chunk stays in use; its bytes must survive what the other tiers do.
  std::vector<ChunkRef> kept;
  size_t kept_bytes = 0;
  for (int tier = 0; tier < kTierCount; ++tier) {
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = pool.get_tier(tier)) chunks.push_back(ChunkRef::take(chunk));
    EXPECT_EQ(chunks.size(), (kBudget - kept_bytes) / tier_bytes(tier));
    kept.push_back(std::move(chunks[chunks.size() / 2]));
    kept_bytes += tier_bytes(tier);
    std::memset(kept.back().data(), 0x40 + tier, tier_bytes(tier));
  }
  for (int tier = 0; tier < kTierCount; ++tier) {
    const std::byte* data = kept[static_cast<size_t>(tier)].data();
    const auto same = [tier](std::byte byte) { return byte == static_cast<std::byte>(0x40 + tier); };
    EXPECT_TRUE(std::all_of(data, data + tier_bytes(tier), same));
  }
}

TEST(ChunkPool, FindsSlabsInTheWrongTier) {
  ChunkPool pool({.budget_bytes = 64 << 10});
  ChunkPool::Use use(&pool);
  // Only metadata may exceed the budget, and so reach the arena's end.
  constexpr size_t kSlabs = 2 * kTierCount + 1;
  std::vector<ChunkRef> metadata;
  for (size_t i = 0; i < kSlabs * kSlab / kMaxChunkBytes; ++i) {
    metadata.push_back(ChunkRef::take(pool.get_metadata(kMaxChunkBytes)));
    ASSERT_EQ(metadata.back().get()->home, &pool);
  }
  EXPECT_EQ(pool.stats().mapped_bytes, kSlabs * kSlab);
  metadata.resize(1);
  const ChunkRef chunk = ChunkRef::take(pool.get_metadata(64));
  EXPECT_EQ(chunk.get()->home, &pool);
  EXPECT_EQ(pool.stats().tiers[kTierCount - 1].free, 3u) << "only the slab in use keeps its free chunks";
}

TEST(ChunkPool, UseNestsAndIsPerThread) {
  EXPECT_EQ(ChunkPool::current(), nullptr);
  ChunkPool a({.budget_bytes = 1 << 20}), b({.budget_bytes = 1 << 20});
  ChunkPool::Use use_a(&a);
  {
    ChunkPool::Use use_b(&b);
    EXPECT_EQ(ChunkPool::current(), &b);
    {
      ChunkPool::Use none(nullptr);
      EXPECT_EQ(ChunkPool::current(), nullptr);
    }
    EXPECT_EQ(ChunkPool::current(), &b);
    std::thread([] { EXPECT_EQ(ChunkPool::current(), nullptr); }).join();
  }
  EXPECT_EQ(ChunkPool::current(), &a);
}

TEST(ChunkPool, TwoPoolsOnOneThreadGetTheirOwnChunksBack) {
  ChunkPool a({.budget_bytes = 1 << 20}), b({.budget_bytes = 1 << 20});
  Chunk* const from_a = a.get(256);
  Chunk* const from_b = b.get(256);
  {
    ChunkPool::Use use(&b);
    chunk_unref(from_a);  // Not its home: the chunk goes to a's remote_frees.
    chunk_unref(from_b);
  }
  EXPECT_EQ(a.leaked(), 1u);
  EXPECT_EQ(b.leaked(), 0u);
  EXPECT_EQ(b.stats().freed_remotely, 0u);
  a.take_remote_frees();
  EXPECT_EQ(a.leaked(), 0u);
  EXPECT_EQ(a.stats().freed_remotely, 1u);
  EXPECT_EQ(a.stats().tiers[2].free, 1u);
}

TEST(ChunkPool, TakesRemoteFreesBeforeItCutsOrRefuses) {
  ChunkPool pool({.budget_bytes = 4096});
  Chunk* const chunk = pool.get(4096);
  chunk_unref(chunk);  // No pool is current.
  EXPECT_EQ(pool.get(4096), chunk);
  EXPECT_EQ(pool.stats().refused, 0u);
  EXPECT_EQ(pool.stats().freed_remotely, 1u);
  EXPECT_EQ(pool.stats().tiers[6].out_peak, 1u);
  chunk_unref(chunk);
}

TEST(ChunkRef, MovesAndReleases) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  ChunkRef empty;
  EXPECT_FALSE(empty);
  EXPECT_FALSE(ChunkRef::take(nullptr));

  ChunkRef a = ChunkRef::take(pool.get(64));
  Chunk* const chunk = a.get();
  ChunkRef b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): tests the moved-from state.
  EXPECT_EQ(b.get(), chunk);
  {
    const ChunkRef c = test::another_reference(b);
    EXPECT_EQ(c.get(), chunk);
    EXPECT_FALSE(b.unique());
  }
  EXPECT_TRUE(b.unique());
  b = ChunkRef::take(pool.get(64));  // Drops the old one.
  EXPECT_EQ(pool.leaked(), 1u);
  Chunk* const released = b.release();
  EXPECT_FALSE(b);
  EXPECT_EQ(pool.leaked(), 1u);
  chunk_unref(released);
  EXPECT_EQ(pool.leaked(), 0u);
}

}  // namespace
}  // namespace sluice
