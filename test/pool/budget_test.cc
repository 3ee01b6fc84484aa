// A budget that several pools share.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "pool/arena.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

constexpr size_t kSlab = Arena::kSlabBytes;

std::vector<ChunkRef> take_all(ChunkPool& pool, size_t bytes) {
  std::vector<ChunkRef> chunks;
  while (Chunk* chunk = pool.get(bytes)) chunks.push_back(ChunkRef::take(chunk));
  return chunks;
}

TEST(Budget, IsExact) {
  Budget budget(100);
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_FALSE(budget.take(SIZE_MAX));
  EXPECT_TRUE(budget.take(40));
  EXPECT_EQ(budget.used_bytes(), 100u);
  EXPECT_EQ(budget.refused(), 2u);
  budget.give_back(100);
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_FALSE(budget.take(101));
}

TEST(Budget, BoundsPoolsTogether) {
  Budget shared(8 * kSlab);
  ChunkPool a({.budget_bytes = 6 * kSlab, .shared = &shared}), b({.budget_bytes = 6 * kSlab, .shared = &shared});
  ChunkPool::Use use(&a);
  std::vector<ChunkRef> of_a = take_all(a, kMaxChunkBytes);
  EXPECT_EQ(of_a.size(), 6 * kSlab / kMaxChunkBytes);
  EXPECT_EQ(a.stats().refused, 1u);
  EXPECT_EQ(a.stats().refused_shared, 0u) << "its own budget was met first";
  std::vector<ChunkRef> of_b = take_all(b, kMaxChunkBytes);
  EXPECT_EQ(of_b.size(), 2 * kSlab / kMaxChunkBytes);
  EXPECT_EQ(b.stats().refused, 1u);
  EXPECT_EQ(b.stats().refused_shared, 1u);
  EXPECT_EQ(shared.used_bytes(), 8 * kSlab);
  EXPECT_EQ(a.stats().mapped_bytes + b.stats().mapped_bytes, 8 * kSlab);
}

TEST(Budget, PoolFirstReclaimsItsOwnMemory) {
  Budget shared(2 * kSlab);
  ChunkPool pool({.budget_bytes = 16 * kSlab, .shared = &shared});
  ChunkPool::Use use(&pool);
  for (int round = 0; round < 3; ++round) {
    for (int tier = 0; tier < kTierCount; ++tier) {
      EXPECT_EQ(take_all(pool, tier_bytes(tier)).size(), 2 * kSlab / tier_bytes(tier)) << "tier " << tier;
    }
  }
  EXPECT_EQ(shared.used_bytes(), 2 * kSlab);
  EXPECT_EQ(pool.stats().mapped_bytes, 2 * kSlab);
}

TEST(Budget, AgeingReturnsMemory) {
  Budget shared(8 * kSlab);
  ChunkPool pool({.budget_bytes = 8 * kSlab, .shared = &shared});
  ChunkPool::Use use(&pool);
  take_all(pool, 4096);
  EXPECT_EQ(shared.used_bytes(), 8 * kSlab);
  for (int i = 0; i < 3; ++i) pool.age();
  EXPECT_FALSE(pool.trim(SIZE_MAX));
  EXPECT_EQ(shared.used_bytes(), 0u);
}

TEST(Budget, RefusalMakesOthersReturnMemorySooner) {
  Budget shared(8 * kSlab);
  ChunkPool a({.budget_bytes = 8 * kSlab, .shared = &shared}), b({.budget_bytes = 8 * kSlab, .shared = &shared});
  ChunkPool::Use use(&a);
  ChunkRef kept;
  {
    std::vector<ChunkRef> chunks = take_all(a, 4096);
    kept = std::move(chunks[0]);
  }
  a.age();
  EXPECT_FALSE(a.trim(SIZE_MAX));
  EXPECT_EQ(shared.used_bytes(), 8 * kSlab) << "nobody wants it";
  EXPECT_EQ(b.get(4096), nullptr);
  a.age();
  EXPECT_FALSE(a.trim(SIZE_MAX));
  EXPECT_EQ(shared.used_bytes(), kSlab);
  EXPECT_EQ(a.stats().discarded_bytes, 7 * kSlab);
  EXPECT_TRUE(ChunkRef::take(b.get(4096)));
}

TEST(Budget, MetadataComesFromTheHeapWhenItIsExhausted) {
  Budget shared(0);
  ChunkPool pool({.budget_bytes = 1 << 20, .shared = &shared});
  ChunkPool::Use use(&pool);
  EXPECT_EQ(pool.get(64), nullptr);
  const ChunkRef metadata = ChunkRef::take(pool.get_metadata(64));
  EXPECT_EQ(metadata.get()->home, nullptr);
}

TEST(Budget, ManyThreadsStayWithinIt) {
  constexpr int kThreads = 4;
  constexpr size_t kSlabs = 10;
  Budget shared(kSlabs * kSlab);
  std::atomic<uint64_t> refused = 0, given = 0;
  std::atomic<bool> exceeded = false;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto source = i == 3 ? ChunkPool::Source::kHeap : ChunkPool::Source::kArena;
      ChunkPool pool({.budget_bytes = kSlabs * kSlab, .source = source, .shared = &shared});
      ChunkPool::Use use(&pool);
      std::mt19937 random(i);
      std::vector<ChunkRef> held;
      for (int step = 0; step < 4000; ++step) {
        if (random() % 8 < (step / 500 % 2 ? 3u : 6u)) {
          ChunkRef chunk = ChunkRef::take(pool.get(random() % kMaxChunkBytes));
          if (chunk) {
            std::memset(chunk.data(), static_cast<int>(i), 64);
            held.push_back(std::move(chunk));
            ++given;
          }
        } else if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          held.pop_back();
        }
        if (shared.used_bytes() > shared.bytes()) exceeded = true;
        if (random() % 64 == 0) pool.age();
        if (random() % 16 == 0) pool.trim(kSlab);
      }
      refused += pool.stats().refused_shared;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_GT(refused, 0u);
  EXPECT_GT(given, 0u);
  EXPECT_EQ(shared.used_bytes(), 0u);
}

}  // namespace
}  // namespace sluice
