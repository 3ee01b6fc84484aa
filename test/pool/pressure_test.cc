// The marks of set_pressure: one call up, one call down, whichever way the bytes went.

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

// Records each call as a letter: H for high, L for low.
struct Calls {
  std::string text;
  static void note(void* context, bool high) { static_cast<Calls*>(context)->text += high ? 'H' : 'L'; }
};

TEST(Pressure, NotifiesOncePerMark) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Calls calls;
  pool.set_pressure(4 * 4096, 2 * 4096, &Calls::note, &calls);
  std::vector<ChunkRef> chunks;
  const auto hold = [&](size_t count) {
    while (chunks.size() < count) chunks.push_back(ChunkRef::take(pool.get(4096)));
    while (chunks.size() > count) chunks.pop_back();
  };
  for (int round = 0; round < 3; ++round) {
    calls.text.clear();
    hold(4);
    EXPECT_EQ(calls.text, "") << "at the mark is not above it";
    hold(5);
    EXPECT_EQ(calls.text, "H");
    hold(9);
    hold(2);
    hold(9);
    EXPECT_EQ(calls.text, "H") << "at the mark is not below it";
    hold(1);
    EXPECT_EQ(calls.text, "HL");
    hold(0);
    EXPECT_EQ(calls.text, "HL");
  }
  EXPECT_EQ(pool.stats().pressures, 3u);
}

TEST(Pressure, CountsMetadataRemoteFreesAndTheHeap) {
  for (const ChunkPool::Source source : {ChunkPool::Source::kArena, ChunkPool::Source::kHeap}) {
    ChunkPool pool({.budget_bytes = 1 << 20, .source = source});
    ChunkPool::Use use(&pool);
    chunk_unref(pool.get(64));  // A free chunk remains where chunks are kept free.
    Calls calls;
    pool.set_pressure(63, 1, &Calls::note, &calls);
    std::thread([chunk = ChunkRef::take(pool.get_metadata(64))] {}).join();
    EXPECT_EQ(calls.text, "H");
    pool.take_remote_frees();
    EXPECT_EQ(calls.text, "HL");
  }
}

TEST(Pressure, NotifiesAtOnceWhenAMarkIsExceededAlready) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Calls calls;
  {
    const ChunkRef chunk = ChunkRef::take(pool.get(4096));
    pool.set_pressure(4095, 1, &Calls::note, &calls);
    EXPECT_EQ(calls.text, "H");
  }
  EXPECT_EQ(calls.text, "HL");
  pool.set_pressure(0, 0, nullptr, nullptr);
  const ChunkRef chunk = ChunkRef::take(pool.get(4096));
  EXPECT_EQ(calls.text, "HL");
}

TEST(Pressure, DoesNotChangeTheBudget) {
  ChunkPool pool({.budget_bytes = 8 * 4096});
  ChunkPool::Use use(&pool);
  Calls calls;
  pool.set_pressure(2 * 4096, 4096, &Calls::note, &calls);
  for (int round = 0; round < 2; ++round) {
    std::vector<ChunkRef> chunks;
    while (Chunk* chunk = pool.get(4096)) chunks.push_back(ChunkRef::take(chunk));
    EXPECT_EQ(chunks.size(), 8u);
  }
  EXPECT_EQ(calls.text, "HLHL");
  EXPECT_EQ(pool.stats().refused, 2u);
}

// Releases what it holds when it is notified.
struct Cache {
  ChunkPool& pool;
  std::vector<ChunkRef> chunks;
  int notifications = 0;
  static void shrink(void* context, bool high) {
    Cache& cache = *static_cast<Cache*>(context);
    ++cache.notifications;
    if (high) cache.chunks.clear();
    chunk_unref(cache.pool.get(64));
  }
};

TEST(Pressure, FunctionMayUseThePool) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Cache cache{pool, {}};
  pool.set_pressure(10 * 4096, 2 * 4096, &Cache::shrink, &cache);
  for (int i = 0; i < 100; ++i) {
    ChunkRef chunk = ChunkRef::take(pool.get(4096));
    ASSERT_TRUE(chunk);
    cache.chunks.push_back(std::move(chunk));
    EXPECT_LE(pool.out_bytes(), 10 * 4096u);
  }
  EXPECT_GT(cache.notifications, 10);
}

}  // namespace
}  // namespace sluice
