// Chunks that are released on other threads. Run under ThreadSanitizer too.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <semaphore>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "sluice/chunk_pool.h"
#include "test/support/another_reference.h"

namespace sluice {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 2'000;
#else
constexpr int kRounds = 20'000;
#endif

// Passes chunks to another thread. After close() the taker ends.
class Queue {
 public:
  void put(ChunkRef chunk) {
    const std::lock_guard lock(mutex_);
    chunks_.push_back(std::move(chunk));
    changed_.notify_one();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_one();
  }
  std::optional<ChunkRef> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !chunks_.empty(); });
    if (chunks_.empty()) return std::nullopt;
    ChunkRef chunk = std::move(chunks_.front());
    chunks_.pop_front();
    return chunk;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ChunkRef> chunks_;
  bool closed_ = false;
};

// For each way in which a pool may have its chunks returned, with this many threads.
class HomeThreads : public testing::TestWithParam<std::tuple<ChunkPool::Options, size_t>> {};

TEST_P(HomeThreads, ManyThreadsReleaseForOneHome) {
  const size_t thread_count = std::get<1>(GetParam());
  ChunkPool pool(std::get<0>(GetParam()));
  ChunkPool::Use use(&pool);
  int pressed = 0;
  const auto pass_mark = [](void* context, bool high) { *static_cast<int*>(context) += high ? 1 : -1; };
  pool.set_pressure(64 << 10, 32 << 10, pass_mark, &pressed);
  {
    // Exceeds the mark once, however fast the others release.
    std::vector<ChunkRef> held;
    for (int i = 0; i < 20; ++i) held.push_back(ChunkRef::take(pool.get(4096)));
  }
  std::vector<Queue> queues(thread_count);
  std::vector<std::thread> threads;
  threads.reserve(thread_count);
  std::atomic<int> damaged = 0;
  for (size_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([&, i] {
      // Every other thread has a pool of its own.
      std::optional<ChunkPool> own;
      if (i % 2) own.emplace(ChunkPool::Options{.budget_bytes = 1 << 20});
      ChunkPool::Use use_own(own ? &*own : nullptr);
      while (std::optional<ChunkRef> chunk = queues[i].take()) {
        // A sole holder writes to its chunk: a chunk given out twice shows as a race or as damage.
        const std::byte mark = chunk->data()[0];
        std::memset(chunk->data(), static_cast<int>(i), chunk->capacity());
        if (mark != std::byte{0xee} || chunk->data()[chunk->capacity() - 1] != static_cast<std::byte>(i)) ++damaged;
      }
    });
  }
  std::mt19937 random(1);
  uint64_t given = 0;
  for (int round = 0; round < kRounds; ++round) {
    ChunkRef chunk = ChunkRef::take(pool.get(random() % 4096));
    if (!chunk) {
      std::this_thread::yield();  // The budget is exhausted until some chunks return; get checks that itself.
      continue;
    }
    chunk.data()[0] = std::byte{0xee};
    queues[random() % thread_count].put(std::move(chunk));
    ++given;
    if (random() % 64 == 0) pool.take_remote_frees();
    if (random() % 512 == 0) pool.age();
    if (random() % 128 == 0) pool.trim(64 << 10);
  }
  for (Queue& queue : queues) queue.close();
  for (std::thread& thread : threads) thread.join();
  pool.take_remote_frees();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(pool.leaked(), 0u);
  EXPECT_EQ(pool.stats().freed_remotely, given);
  EXPECT_GT(given, 0u);
  EXPECT_GT(pool.stats().pressures, 0u);
  EXPECT_EQ(pressed, 0);
}

INSTANTIATE_TEST_SUITE_P(
    HomeComing, HomeThreads,
    testing::Combine(testing::Values(ChunkPool::Options{.budget_bytes = 256 << 10},
                                     ChunkPool::Options{.budget_bytes = 256 << 10, .source = ChunkPool::Source::kHeap},
                                     ChunkPool::Options{.budget_bytes = 256 << 10, .stack_every = 7}),
                     testing::Values(1, 4, 16)));

TEST(HomeComing, LastOfManyHoldersReturnsItOnce) {
  constexpr int kThreads = 3;
  ChunkPool pool({.budget_bytes = 4096});
  ChunkPool::Use use(&pool);
  std::vector<Queue> queues(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> damaged = 0;
  for (Queue& queue : queues) {
    threads.emplace_back([&queue, &damaged] {
      while (std::optional<ChunkRef> chunk = queue.take()) {
        if (chunk->data()[4095] != std::byte{0x11}) ++damaged;
        const ChunkRef another = test::another_reference(*chunk);
      }
    });
  }
  for (int round = 0; round < kRounds / 4; ++round) {
    Chunk* taken = nullptr;
    while ((taken = pool.get(4096)) == nullptr) std::this_thread::yield();
    ChunkRef chunk = ChunkRef::take(taken);  // Some of the last references are dropped here.
    std::memset(chunk.data(), 0x11, 4096);
    for (Queue& queue : queues) queue.put(test::another_reference(chunk));
  }
  for (Queue& queue : queues) queue.close();
  for (std::thread& thread : threads) thread.join();
  pool.take_remote_frees();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(pool.leaked(), 0u);
  EXPECT_EQ(pool.stats().tiers[6].free, 1u);
}

TEST(HomeComing, ThreadWithoutAPoolReleasesToRemoteFrees) {
  ChunkPool pool({.budget_bytes = 4096});
  ChunkPool::Use use(&pool);
  std::thread([chunk = ChunkRef::take(pool.get(4096))] { EXPECT_EQ(ChunkPool::current(), nullptr); }).join();
  EXPECT_EQ(pool.out_bytes(), 4096u);
  const ChunkRef again = ChunkRef::take(pool.get(4096));
  EXPECT_TRUE(again);
  EXPECT_EQ(pool.stats().freed_remotely, 1u);
}

// Counts how often it was woken, and on which thread.
struct Woken {
  int times = 0;
  std::thread::id on;

  static void wake(void* context) {
    Woken& woken = *static_cast<Woken*>(context);
    ++woken.times;
    woken.on = std::this_thread::get_id();
  }
};

TEST(HomeComing, WakesOnTheFirstRemoteFree) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  Woken woken;
  pool.set_wake(&Woken::wake, &woken);
  const auto release_elsewhere = [&pool] {
    std::thread::id id;
    std::thread thread([chunk = ChunkRef::take(pool.get_metadata(64))] {});
    id = thread.get_id();
    thread.join();
    return id;
  };
  release_elsewhere();
  EXPECT_EQ(woken.times, 0) << "nobody requested it";
  pool.take_remote_frees();

  pool.wake_on_remote_free(true);
  std::vector<ChunkRef> chunks(3);
  for (ChunkRef& chunk : chunks) chunk = ChunkRef::take(pool.get(64));
  chunks.pop_back();
  EXPECT_EQ(woken.times, 1);
  EXPECT_EQ(woken.on, std::this_thread::get_id());
  chunks.pop_back();
  EXPECT_EQ(woken.times, 1) << "the remote_frees was not empty";
  pool.take_remote_frees();
  const std::thread::id other = release_elsewhere();
  EXPECT_EQ(woken.times, 2);
  EXPECT_EQ(woken.on, other);

  pool.take_remote_frees();
  pool.wake_on_remote_free(false);
  chunks.clear();
  EXPECT_EQ(woken.times, 2);

  // A flag that is set while there are remote_frees has no effect until they are taken.
  pool.wake_on_remote_free(true);
  release_elsewhere();
  EXPECT_EQ(woken.times, 2);
  pool.take_remote_frees();
}

TEST(HomeComing, DoesNotWakeForLocalReleases) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  Woken woken;
  pool.set_wake(&Woken::wake, &woken);
  pool.wake_on_remote_free(true);
  chunk_unref(pool.get(64));
  EXPECT_EQ(woken.times, 0);
}

TEST(HomeComing, NoCallWithoutAWakeFunction) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  pool.wake_on_remote_free(true);
  chunk_unref(pool.get(64));
  pool.take_remote_frees();
  EXPECT_EQ(pool.leaked(), 0u);
}

// The home does what a worker does before it sleeps; a lost wake-up leaves it asleep with a chunk in its remote_frees.
TEST(HomeComing, NoWakeUpIsLost) {
  ChunkPool pool({.budget_bytes = 64});
  ChunkPool::Use use(&pool);
  std::counting_semaphore<> wakes(0);
  pool.set_wake([](void* context) { static_cast<std::counting_semaphore<>*>(context)->release(); }, &wakes);
  Queue queue;
  std::thread releaser([&queue] {
    while (queue.take()) {
    }
  });
  bool lost = false;
  for (int round = 0; round < kRounds && !lost; ++round) {
    Chunk* chunk = pool.get(64);
    ASSERT_NE(chunk, nullptr);
    queue.put(ChunkRef::take(chunk));
    while (pool.out_bytes() > 0) {
      pool.wake_on_remote_free(true);
      pool.take_remote_frees();
      if (pool.out_bytes() > 0 && !wakes.try_acquire_for(std::chrono::seconds(20))) {
        lost = true;
        break;
      }
      pool.wake_on_remote_free(false);
      pool.take_remote_frees();
    }
  }
  EXPECT_FALSE(lost);
  queue.close();
  releaser.join();
}

}  // namespace
}  // namespace sluice
