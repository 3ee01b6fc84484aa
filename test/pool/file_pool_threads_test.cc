// Many threads take chunks of one file, pass them on, release them and return blocks, at the limit of the pool. Run
// under ThreadSanitizer too.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "test/pool/file_pool_fixture.h"

namespace sluice {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kRounds = 1'000;
#else
constexpr int kRounds = 5'000;
#endif

// Each byte of a chunk in use has the value that its holder gave it.
struct Marked {
  ChunkRef chunk;
  int value = 0;
};

TEST(FilePoolThreads, NoChunkIsGivenOutTwiceAndAllReturn) {
  constexpr size_t kThreads = 4;
  constexpr size_t kExtent = FilePool::kExtentBytes;
  FilePool files({.directory = test::file_directory(), .limit_bytes = 12 * kExtent, .step_bytes = 3 * kExtent});
  ASSERT_TRUE(files.ok()) << files.error().message;
  std::atomic<int> damaged = 0, taken = 0;
  std::mutex mutex;
  std::vector<Marked> passed_on;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (size_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(static_cast<uint32_t>(number));
      std::vector<Marked> own;
      const auto check = [&](const Marked& marked) { damaged += !test::is_filled(marked.chunk, marked.value); };
      for (int round = 0; round < kRounds; ++round) {
        const size_t bytes = random() % 3 ? 1 + random() % kExtent : 4096;
        if (Chunk* chunk = files.get(bytes)) {
          own.push_back({ChunkRef::take(chunk), static_cast<int>(random() % 256)});
          std::memset(chunk->data, own.back().value, chunk->capacity);
          ++taken;
        }
        if (own.size() > 4 || random() % 4 == 0) {
          const std::lock_guard lock(mutex);
          std::swap(passed_on, own);
        }
        for (const Marked& marked : own) check(marked);
        if (random() % 2 && !own.empty()) own.erase(own.begin());
        if (random() % 200 == 0) files.trim();
      }
      for (const Marked& marked : own) check(marked);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Marked& marked : passed_on) damaged += !test::is_filled(marked.chunk, marked.value);
  passed_on.clear();
  EXPECT_EQ(damaged, 0);
  EXPECT_GT(taken, kRounds / 10);
  EXPECT_EQ(files.stats().out_chunks, 0u);
  EXPECT_LE(files.stats().disk_bytes_peak, 12 * kExtent);
  files.trim();
  EXPECT_EQ(files.disk_bytes(), 0u);
  test::expect_on_disk(files);
}

}  // namespace
}  // namespace sluice
