// Pools of threads that are not workers, and the lifetimes of these pools and of their chunks. Run under
// ThreadSanitizer too.

#include "sluice/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "test/pool/resident.h"

namespace sluice {
namespace {

// The pools belong to the process: a test counts relative to what existed before.
class ThreadPoolTest : public testing::Test {
 protected:
  ThreadPools since() const {
    const ThreadPools now = thread_pools();
    return {now.in_use - before_.in_use, now.waiting - before_.waiting, now.idle - before_.idle};
  }

 private:
  const ThreadPools before_ = thread_pools();
};
using ThreadPoolDeathTest = ThreadPoolTest;

TEST_F(ThreadPoolTest, IsTheCurrentPoolIfThereIsOne) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  EXPECT_EQ(&thread_pool(), &pool);
}

TEST_F(ThreadPoolTest, IsMadeCurrentForItsThread) {
  std::thread([&] {
    EXPECT_EQ(ChunkPool::current(), nullptr);
    ChunkPool& own = thread_pool();
    EXPECT_EQ(ChunkPool::current(), &own);
    EXPECT_EQ(&thread_pool(), &own);
    chunk_unref(own.get(4096));
    EXPECT_EQ(own.leaked(), 0u) << "home at once";
    {
      ChunkPool pool({.budget_bytes = 1 << 20});
      ChunkPool::Use use(&pool);
      EXPECT_EQ(&thread_pool(), &pool);
      ChunkPool::Use none(nullptr);
      EXPECT_EQ(&thread_pool(), &own);
    }
    EXPECT_EQ(ChunkPool::current(), &own);
  }).join();
  EXPECT_EQ(since().in_use, 0u);
}

TEST_F(ThreadPoolTest, IsReusedByTheNextThread) {
  ChunkPool* first = nullptr;
  std::thread([&] { chunk_unref((first = &thread_pool())->get(1)); }).join();
  for (int i = 0; i < 10; ++i) {
    std::thread([&] {
      EXPECT_EQ(&thread_pool(), first);
      const ThreadPools counts = since();
      EXPECT_EQ(counts.in_use, 1u);
    }).join();
  }
}

TEST_F(ThreadPoolTest, WaitsForItsChunks) {
  const size_t idle = thread_pools().idle;
  ChunkRef a, b;
  ChunkPool* pool = nullptr;
  std::thread([&] {
    pool = &thread_pool();
    a = ChunkRef::take(pool->get(4096));
    b = ChunkRef::take(pool->get(64));
  }).join();
  EXPECT_EQ(since().waiting, 1u);
  std::memset(a.data(), 1, a.capacity());
  std::thread([&] { EXPECT_NE(&thread_pool(), pool) << "it is not idle"; }).join();
  a = ChunkRef();
  EXPECT_EQ(since().waiting, 1u);
  std::thread([&] { b = ChunkRef(); }).join();  // A thread without a pool.
  EXPECT_EQ(since().waiting, 0u);
  EXPECT_GE(thread_pools().idle, std::max<size_t>(idle, 1));
  EXPECT_EQ(pool->stats().out_bytes, 0u);  // It has no owner: reading it is safe.
  EXPECT_EQ(pool->stats().mapped_bytes, 0u);
}

TEST_F(ThreadPoolTest, FreeMemoryIsReturnedWhenTheThreadEnds) {
  constexpr size_t kChunks = 64;
  std::vector<ChunkRef> kept(kChunks);
  std::vector<const std::byte*> data;
  std::thread([&] {
    std::vector<ChunkRef> chunks(kChunks);
    for (size_t i = 0; i < kChunks; ++i) {
      for (ChunkRef* chunk : {&chunks[i], &kept[i]}) {
        *chunk = ChunkRef::take(thread_pool().get(kMaxChunkBytes));
        std::memset(chunk->data(), 1, kMaxChunkBytes);
        data.push_back(chunk->data());
      }
    }
  }).join();
  const auto resident = [&] {
    size_t sum = 0;
    for (const std::byte* chunk : data) sum += test::resident_bytes(chunk, kMaxChunkBytes);
    return sum;
  };
  EXPECT_EQ(resident(), kChunks * kMaxChunkBytes);
  // No more is free than is in use.
  while (!kept.empty()) {
    kept.pop_back();
    EXPECT_LE(resident(), 2 * kept.size() * kMaxChunkBytes);
  }
}

// Lives as long as its thread, and longer than objects that were made after it.
struct Late {
  ChunkRef chunk;
  bool uses_pool = false;
  ~Late() {
    if (uses_pool) chunk_unref(thread_pool().get(64));
  }
};

TEST_F(ThreadPoolTest, ServesTheDestructorsOfItsThread) {
  std::thread([] {
    thread_local Late late;
    late.uses_pool = true;
    late.chunk = ChunkRef::take(thread_pool().get(4096));
  }).join();
  std::thread([] {
    thread_local Late late;  // Calls thread_pool() for the first time when its thread ends.
    late.uses_pool = true;
  }).join();
  EXPECT_EQ(since().waiting, 0u);
  EXPECT_EQ(since().in_use, 0u);
}

TEST_F(ThreadPoolTest, PressureEndsWithTheThread) {
  int calls = 0;
  ChunkRef kept;
  std::thread([&] {
    thread_pool().set_pressure(4095, 1, [](void* context, bool) { ++*static_cast<int*>(context); }, &calls);
    kept = ChunkRef::take(thread_pool().get(4096));
  }).join();
  EXPECT_EQ(calls, 1);
  kept = ChunkRef();
  EXPECT_EQ(calls, 1);
}

// Chunks of many threads, released by other threads: by some that have a pool, by some that have none, and by some that
// end.
TEST_F(ThreadPoolTest, ChunksOutliveTheirThreads) {
  constexpr int kThreads = 4;
  const int rounds = kDebugChecks ? 40 : 200;
  std::mutex mutex;
  std::deque<ChunkRef> passed;
  std::atomic<int> damaged = 0;
  const auto body = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int step = 0; step < 100; ++step) {
      ChunkRef mine = ChunkRef::take(thread_pool().get(random() % 8192));
      if (!mine) {
        ++damaged;
        break;
      }
      std::memset(mine.data(), static_cast<int>(seed), mine.capacity());
      ChunkRef other;
      {
        const std::lock_guard lock(mutex);
        passed.push_back(std::move(mine));
        if (random() % 64 == 0 || passed.size() > 200) other = std::move(passed.front()), passed.pop_front();
        if (random() % 2) std::swap(passed.front(), passed.back());
      }
      if (other && other.data()[0] != other.data()[other.capacity() - 1]) ++damaged;
      if (random() % 8 == 0) ChunkPool::Use(nullptr), other = ChunkRef();
    }
  };
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, static_cast<uint32_t>(round * kThreads + i));
    for (std::thread& thread : threads) thread.join();
  }
  passed.clear();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(since().waiting, 0u);
  EXPECT_EQ(since().in_use, 0u);
  EXPECT_LT(thread_pools().idle, 4u * kThreads * static_cast<size_t>(rounds) / 4);
}

// The last chunk is released just while its thread ends.
TEST_F(ThreadPoolTest, ChunkReleasedWhileItsThreadEndsIsNotLost) {
  const int rounds = kDebugChecks ? 500 : 3000;
  std::atomic<Chunk*> handed = nullptr;
  std::atomic<bool> done = false;
  std::thread releaser([&] {
    while (!done) {
      if (Chunk* chunk = handed.exchange(nullptr)) {
        chunk_unref(chunk);
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int round = 0; round < rounds; ++round) {
    std::thread([&] {
      Chunk* chunk = thread_pool().get(64);
      while (handed.load()) std::this_thread::yield();
      handed = chunk;
    }).join();
  }
  while (handed.load()) std::this_thread::yield();
  done = true;
  releaser.join();
  EXPECT_EQ(since().waiting, 0u);
}

TEST_F(ThreadPoolDeathTest, ReportsChunksInUseAtExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        thread_pool().get(64);
        std::thread([] { thread_pool().get(4096); }).join();
        std::atexit([] { std::fputs("the static objects\n", stderr); });
        // A leak checker that ends the process with a status of its own runs later.
        std::exit(0);
      },
      [](int) { return true; },
      "the static objects\n(.|\n)*64 bytes in chunks were not released: 1 x 64 B(.|\n)*"
      "4096 bytes in chunks were not released: 1 x 4096 B");
}

TEST_F(ThreadPoolDeathTest, DoesNotReportStaticObjects) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        // Destroyed at exit, and made before the first pool.
        static ChunkRef kept;
        static ChunkRef kept_of_another;
        kept = ChunkRef::take(thread_pool().get(64));
        std::thread([] { kept_of_another = ChunkRef::take(thread_pool().get(64)); }).join();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^$");
}

TEST_F(ThreadPoolDeathTest, UsesItsOptions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        set_thread_pool_options({.budget_bytes = 64});
        std::thread([] {
          const ChunkRef chunk = ChunkRef::take(thread_pool().get(64));
          _exit(chunk && thread_pool().budget_bytes() == 64 && thread_pool().get(64) == nullptr ? 0 : 1);
        }).join();
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice
