// Unused memory returns to the system: after two ageing periods, piece by piece, and never while it is in use.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "pool/arena.h"
#include "sluice/chunk_pool.h"
#include "test/pool/resident.h"

namespace sluice {
namespace {

constexpr size_t kSlab = Arena::kSlabBytes;
constexpr size_t kNoLimit = SIZE_MAX;

// Takes `count` chunks and writes to all bytes of each.
std::vector<ChunkRef> take_touched(ChunkPool& pool, size_t bytes, size_t count) {
  std::vector<ChunkRef> chunks;
  chunks.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    chunks.push_back(ChunkRef::take(pool.get(bytes)));
    std::memset(chunks.back().data(), 0x77, chunks.back().capacity());
  }
  return chunks;
}

class PagedTier : public testing::TestWithParam<size_t> {};

TEST_P(PagedTier, PagesAreReturnedAfterTwoUnusedPeriods) {
  const size_t bytes = GetParam(), count = kSlab / bytes + 1;
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks = take_touched(pool, bytes, count);
  std::vector<const std::byte*> data;
  data.reserve(chunks.size());
  for (const ChunkRef& chunk : chunks) data.push_back(chunk.data());
  const auto resident = [&] {
    size_t sum = 0;
    for (const std::byte* chunk : data) sum += test::resident_bytes(chunk, bytes);
    return sum;
  };
  EXPECT_EQ(resident(), count * bytes);
  chunks.clear();
  pool.age();  // Ends the period of the last use;
  EXPECT_FALSE(pool.trim(kNoLimit));
  pool.age();  // one period without use;
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(resident(), count * bytes);
  EXPECT_EQ(pool.stats().discarded_bytes, 0u);
  EXPECT_EQ(pool.stats().mapped_bytes, 2 * kSlab);
  pool.age();  // and two.
  EXPECT_EQ(resident(), count * bytes);
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(resident(), 0u);
  EXPECT_EQ(pool.stats().discarded_bytes, count * bytes);
  EXPECT_EQ(pool.stats().mapped_bytes, 0u);
  EXPECT_EQ(pool.stats().tiers[static_cast<size_t>(tier_for(bytes))].free, 0u);
}

TEST_P(PagedTier, PagesAreReturnedWhileTheSlabIsInUse) {
  const size_t bytes = GetParam(), count = kSlab / bytes;
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks = take_touched(pool, bytes, count);
  const std::byte* slab = chunks[0].data();
  std::swap(chunks[0], chunks[count / 2]);
  chunks.resize(1);  // One from the middle stays in use.
  for (int i = 0; i < 3; ++i) pool.age();
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(test::resident_bytes(slab, kSlab), bytes);
  EXPECT_EQ(pool.stats().discarded_bytes, kSlab - bytes);
  EXPECT_EQ(pool.stats().mapped_bytes, kSlab);
  EXPECT_EQ(chunks[0].data()[bytes - 1], std::byte{0x77});
  // The others can be used again, and nothing is returned twice.
  for (int i = 0; i < 3; ++i) pool.age();
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(pool.stats().discarded_bytes, kSlab - bytes);
  chunks = take_touched(pool, bytes, count - 1);
  EXPECT_EQ(pool.stats().mapped_bytes, kSlab);
}

TEST_P(PagedTier, WarmChunkIsNotDiscarded) {
  const size_t bytes = GetParam();
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  take_touched(pool, bytes, 3);
  for (int period = 0; period < 10; ++period) {
    // Two of three are in use once per period, contents included.
    const ChunkRef a = ChunkRef::take(pool.get(bytes)), b = ChunkRef::take(pool.get(bytes));
    EXPECT_EQ(a.data()[bytes / 2], std::byte{0x77});
    EXPECT_EQ(b.data()[bytes - 1], std::byte{0x77});
    EXPECT_EQ(test::resident_bytes(a.data(), bytes), bytes);
    EXPECT_EQ(test::resident_bytes(b.data(), bytes), bytes);
    pool.age();
    pool.trim(kNoLimit);
  }
  EXPECT_EQ(pool.stats().discarded_bytes, bytes);
}

TEST_P(PagedTier, TrimStopsAtItsLimit) {
  const size_t bytes = GetParam(), count = 2 * kSlab / bytes;
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  take_touched(pool, bytes, count);
  for (int i = 0; i < 3; ++i) pool.age();
  for (size_t i = 1; i < count; ++i) {
    EXPECT_TRUE(pool.trim(1));
    EXPECT_EQ(pool.stats().discarded_bytes, i * bytes);
  }
  while (pool.trim(1)) {
  }
  EXPECT_EQ(pool.stats().discarded_bytes, count * bytes);
  EXPECT_EQ(pool.stats().mapped_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Ageing, PagedTier, testing::Values(4096, 16384, 65536), testing::PrintToStringParamName());

class SmallTier : public testing::TestWithParam<size_t> {};

TEST_P(SmallTier, WholeSlabsAreReturnedAfterTwoUnusedPeriods) {
  const size_t bytes = GetParam(), count = 3 * kSlab / bytes;
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks = take_touched(pool, bytes, count);
  const std::byte* begin = chunks[0].data();
  chunks.clear();
  for (int i = 0; i < 2; ++i) {
    pool.age();
    EXPECT_FALSE(pool.trim(kNoLimit));
    EXPECT_EQ(test::resident_bytes(begin, 3 * kSlab), 3 * kSlab);
  }
  pool.age();
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(test::resident_bytes(begin, 3 * kSlab), 0u);
  EXPECT_EQ(pool.stats().discarded_bytes, 3 * kSlab);
  EXPECT_EQ(pool.stats().mapped_bytes, 0u);
  EXPECT_EQ(pool.stats().tiers[static_cast<size_t>(tier_for(bytes))].free, 0u);
}

TEST_P(SmallTier, SlabStaysWhileOneOfItsChunksIsUsed) {
  const size_t bytes = GetParam(), per_slab = kSlab / bytes;
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks = take_touched(pool, bytes, 3 * per_slab);
  const std::byte* begin = chunks[0].data();
  std::swap(chunks[0], chunks[per_slab + per_slab / 2]);
  chunks.resize(1);  // One of the second slab stays in use.
  for (int i = 0; i < 3; ++i) pool.age();
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(test::resident_bytes(begin, kSlab), 0u);
  EXPECT_EQ(test::resident_bytes(begin + kSlab, kSlab), kSlab);
  EXPECT_EQ(test::resident_bytes(begin + 2 * kSlab, kSlab), 0u);
  EXPECT_EQ(pool.stats().mapped_bytes, kSlab);

  // The chunk returns last, and when it is old too, the slab is returned.
  chunks.clear();
  for (int i = 0; i < 2; ++i) pool.age();
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(pool.stats().mapped_bytes, kSlab);
  pool.age();
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(pool.stats().mapped_bytes, 0u);
  EXPECT_EQ(test::resident_bytes(begin, 3 * kSlab), 0u);
  EXPECT_EQ(pool.stats().discarded_bytes, 3 * kSlab);
}

TEST_P(SmallTier, PartlyCutSlabIsReturnedToo) {
  const size_t bytes = GetParam();
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  take_touched(pool, bytes, 3);
  EXPECT_EQ(pool.stats().mapped_bytes, kSlab);
  for (int i = 0; i < 3; ++i) pool.age();
  EXPECT_FALSE(pool.trim(kNoLimit));
  EXPECT_EQ(pool.stats().mapped_bytes, 0u);
  EXPECT_EQ(pool.stats().discarded_bytes, 3 * bytes);
  // Cutting begins again, in a slab of its own.
  const std::vector<ChunkRef> chunks = take_touched(pool, bytes, kSlab / bytes);
  EXPECT_EQ(pool.stats().mapped_bytes, kSlab);
}

INSTANTIATE_TEST_SUITE_P(Ageing, SmallTier, testing::Values(64, 256, 2048), testing::PrintToStringParamName());

TEST(Ageing, TakesRemoteFrees) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  chunk_unref(pool.get(4096));  // No pool is current.
  EXPECT_EQ(pool.leaked(), 1u);
  pool.age();
  EXPECT_EQ(pool.leaked(), 0u);
}

TEST(Ageing, NothingOldIsNothingToTrim) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  EXPECT_FALSE(pool.trim(1));
  const ChunkRef chunk = ChunkRef::take(pool.get(4096));
  for (int i = 0; i < 5; ++i) pool.age();
  EXPECT_FALSE(pool.trim(1));
}

// The whole process, with headers and lists: two decay periods after a burst it is as large as before.
TEST(Ageing, ResidentMemoryReturnsAfterABurst) {
  if (kDebugChecks) GTEST_SKIP() << "a sanitizer's shadow memory and quarantine grow too";
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // So that malloc keeps nothing of the test's own vectors.
  constexpr size_t kBudget = 128 << 20, kBase = 16 << 20;
  ChunkPool pool({.budget_bytes = kBudget});
  ChunkPool::Use use(&pool);
  for (const size_t bytes : {64, 512, 4096, 65536}) {
    // Steady use, in the same slabs as a part of the burst.
    std::vector<ChunkRef> base = take_touched(pool, bytes, kBase / 4 / bytes);
    std::vector<ChunkRef> more = take_touched(pool, 16384, kBase / 16384);
    const size_t before = test::process_resident_bytes();
    size_t burst_bytes = 0;
    {
      std::vector<ChunkRef> burst = take_touched(pool, bytes, (kBudget - pool.out_bytes()) / 2 / bytes);
      std::vector<ChunkRef> rest = take_touched(pool, 1024, (kBudget - pool.out_bytes()) / 1024);
      burst_bytes = test::process_resident_bytes() - before;
      EXPECT_GT(burst_bytes, kBudget / 2);
    }
    const auto end_period = [&] {
      pool.age();
      while (pool.trim(2 << 20)) {
      }
    };
    end_period();  // That of the burst;
    end_period();  // and two more.
    end_period();
    const size_t after = test::process_resident_bytes();
    EXPECT_LE(after, before + before / 10) << bytes << " B chunks, " << burst_bytes << " bytes of burst";
  }
}

// What a chunk in use must contain, from its address and the round in which it was taken.
class Pattern {
 public:
  static void fill(const ChunkRef& chunk, uint64_t round) {
    for (size_t at = 0; at < chunk.capacity(); at += sizeof(uint64_t)) {
      const uint64_t word = word_of(chunk, round, at);
      std::memcpy(chunk.data() + at, &word, sizeof(word));
    }
  }
  static bool holds(const ChunkRef& chunk, uint64_t round) {
    for (size_t at = 0; at < chunk.capacity(); at += sizeof(uint64_t)) {
      const uint64_t word = word_of(chunk, round, at);
      if (std::memcmp(chunk.data() + at, &word, sizeof(word)) != 0) return false;
    }
    return true;
  }

 private:
  static uint64_t word_of(const ChunkRef& chunk, uint64_t round, size_t at) {
    return (reinterpret_cast<uintptr_t>(chunk.data()) + at) * 0x9e3779b97f4a7c15u ^ round;
  }
};

TEST(Ageing, NeverChangesAChunkInUse) {
  struct Held {
    ChunkRef chunk;
    uint64_t round;
  };
  constexpr size_t kBudget = 3 << 20;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    std::mt19937 random(seed);
    ChunkPool pool({.budget_bytes = kBudget});
    ChunkPool::Use use(&pool);
    std::vector<Held> held;
    size_t held_bytes = 0;
    uint64_t round = 0;
    const auto drop_one = [&] {
      const size_t index = random() % held.size();
      std::swap(held[index], held.back());
      ASSERT_TRUE(Pattern::holds(held.back().chunk, held.back().round)) << "seed " << seed << " round " << round;
      held_bytes -= held.back().chunk.capacity();
      if (random() % 4 == 0) {
        ChunkPool::Use elsewhere(nullptr);
        held.pop_back();
      } else {
        held.pop_back();
      }
    };
    // Tides: the amount in use grows and falls, in changing tiers, so that slabs fill, empty, retire and change tiers.
    for (int tide = 0; tide < 60; ++tide) {
      const int low = static_cast<int>(random() % kTierCount), span = 1 + static_cast<int>(random() % 4);
      const size_t steps = random() % 1500;
      const size_t takes = 1 + random() % 7;  // Of eight steps.
      for (size_t step = 0; step < steps; ++step, ++round) {
        if (random() % 8 < takes) {
          const int tier = std::min(kTierCount - 1, low + static_cast<int>(random() % static_cast<uint32_t>(span)));
          const bool fits = held_bytes + tier_bytes(tier) <= kBudget;
          ChunkRef chunk = ChunkRef::take(pool.get_tier(tier));
          ASSERT_LE(!fits, !chunk) << "the budget was exceeded";
          if (!chunk) continue;
          held_bytes += chunk.capacity();
          Pattern::fill(chunk, round);
          held.push_back({std::move(chunk), round});
        } else if (!held.empty()) {
          drop_one();
        }
        if (random() % 64 == 0) pool.age();
        if (random() % 16 == 0) pool.trim(random() % 4 == 0 ? kNoLimit : random() % (1 << 20));
      }
      pool.take_remote_frees();
      const ChunkPool::Stats stats = pool.stats();
      ASSERT_EQ(stats.out_bytes, held_bytes);
      ASSERT_EQ(pool.leaked(), held.size());
      ASSERT_LE(stats.out_bytes, stats.mapped_bytes);
      for (const Held& one : held) ASSERT_TRUE(Pattern::holds(one.chunk, one.round)) << "seed " << seed;
    }
    while (!held.empty()) drop_one();
    pool.take_remote_frees();
    EXPECT_EQ(pool.leaked(), 0u);
    for (int i = 0; i < 3; ++i) pool.age();
    while (pool.trim(100'000)) {
    }
    EXPECT_EQ(pool.stats().mapped_bytes, 0u) << "seed " << seed;
    for (const ChunkPool::Stats::Tier& tier : pool.stats().tiers) EXPECT_EQ(tier.free, 0u);
  }
}

}  // namespace
}  // namespace sluice
