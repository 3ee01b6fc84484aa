// The stacks by which leaked chunks were taken.

#include "pool/leak_stacks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "pool/arena.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

[[gnu::noinline]] Chunk* taken_by_the_first(ChunkPool& pool) {
  Chunk* chunk = pool.get(100);
  EXPECT_NE(chunk, nullptr);  // Keeps the call from being a tail call.
  return chunk;
}

[[gnu::noinline]] Chunk* taken_by_the_second(ChunkPool& pool) {
  Chunk* chunk = pool.get_metadata(4096);
  EXPECT_NE(chunk, nullptr);
  return chunk;
}

using Take = Chunk* (*)(ChunkPool& pool);
[[gnu::noinline]] void take(std::vector<ChunkRef>& chunks, ChunkPool& pool, Take from, int number) {
  for (int i = 0; i < number; ++i) chunks.push_back(ChunkRef::take(from(pool)));
}

std::string report_of(const ChunkPool& pool) {
  testing::internal::CaptureStderr();
  pool.report_leaks();
  return testing::internal::GetCapturedStderr();
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Runs the commands that the report proposes, and returns their output.
std::string run_hints(const std::string& report) {
  std::string output;
  for (size_t at = report.find("addr2line"); at != std::string::npos; at = report.find("addr2line", at + 1)) {
    FILE* const pipe = popen(report.substr(at, report.find('\n', at) - at).c_str(), "r");
    if (pipe == nullptr) continue;
    std::array<char, 4096> piece{};
    while (const size_t bytes = std::fread(piece.data(), 1, piece.size(), pipe)) output.append(piece.data(), bytes);
    pclose(pipe);
  }
  return output;
}

TEST(LeakStacks, EqualStacksAreMergedWithACount) {
  ChunkPool pool({.budget_bytes = 1 << 20, .stack_every = 1});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  take(chunks, pool, &taken_by_the_first, 3);
  take(chunks, pool, &taken_by_the_second, 2);
  for (int i = 0; i < 10; ++i) chunk_unref(taken_by_the_second(pool));
  const std::string report = report_of(pool);
  EXPECT_NE(report.find("8576 bytes in chunks were not released: 3 x 128 B 2 x 4096 B\n"
                        "sluice: leak: 5 of these were sampled (1 of 1):\n"
                        "  2 of 8192 bytes in all, taken at\n    #0 "),
            std::string::npos)
      << report;
  EXPECT_EQ(count(report, "  3 of 384 bytes in all, taken at\n    #0 "), 1u) << report;
  EXPECT_EQ(count(report, "taken at"), 2u) << report;
  ASSERT_GE(count(report, "addr2line -Cfipe '/"), 1u) << report;
  if (std::system("addr2line --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no addr2line here";
  const std::string places = run_hints(report);
  EXPECT_NE(places.find("taken_by_the_first"), std::string::npos) << report << places;
  EXPECT_NE(places.find("taken_by_the_second"), std::string::npos) << report << places;
  EXPECT_NE(places.find("leak_stacks_test.cc:"), std::string::npos) << report << places;
  EXPECT_EQ(places.find("leak_stacks.cc:"), std::string::npos) << "a frame of its own" << report << places;
}

TEST(LeakStacks, ReturnedChunksAreForgotten) {
  for (const ChunkPool::Source source : {ChunkPool::Source::kArena, ChunkPool::Source::kHeap}) {
    ChunkPool pool({.budget_bytes = 1 << 20, .source = source, .stack_every = 1});
    ChunkPool::Use use(&pool);
    ChunkRef kept = ChunkRef::take(taken_by_the_first(pool));
    chunk_unref(taken_by_the_second(pool));
    std::thread([chunk = ChunkRef::take(taken_by_the_second(pool))] {}).join();
    pool.take_remote_frees();
    const std::string report = report_of(pool);
    EXPECT_EQ(count(report, "taken at"), 1u) << report;
    EXPECT_EQ(count(report, "1 of 128 bytes"), 1u) << report;
    kept = ChunkRef();
    EXPECT_EQ(report_of(pool), "");
  }
}

TEST(LeakStacks, OneInNIsSampled) {
  ChunkPool pool({.budget_bytes = 1 << 20, .stack_every = 10});
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  take(chunks, pool, &taken_by_the_first, 100);
  const std::string report = report_of(pool);
  EXPECT_NE(report.find("100 x 128 B"), std::string::npos) << report;
  EXPECT_NE(report.find("10 of these were sampled (1 of 10)"), std::string::npos) << report;
  EXPECT_NE(report.find("10 of 1280 bytes in all"), std::string::npos) << report;
}

TEST(LeakStacks, BudgetAndPeaksAreTheSame) {
  ChunkPool pool({.budget_bytes = 2 * 4096, .stack_every = 3});
  ChunkPool::Use use(&pool);
  for (int i = 0; i < 100; ++i) {
    const ChunkRef a = ChunkRef::take(pool.get(4096)), b = ChunkRef::take(pool.get(4096));
    EXPECT_TRUE(a);
    EXPECT_TRUE(b);
    EXPECT_EQ(pool.get(64), nullptr);
  }
  EXPECT_EQ(pool.stats().refused, 100u);
  EXPECT_EQ(pool.stats().mapped_bytes, Arena::kSlabBytes);
}

TEST(LeakStacksDeathTest, EnvironmentVariableEnablesThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("SLUICE_LEAK_STACKS", "2", 1);
        {
          ChunkPool pool({.budget_bytes = 1 << 20});
          for (int i = 0; i < 4; ++i) taken_by_the_first(pool);
        }
        _exit(0);
      },
      testing::ExitedWithCode(0), "4 x 128 B\nsluice: leak: 2 of these were sampled \\(1 of 2\\):\n.*addr2line");
}

}  // namespace
}  // namespace sluice
