// Samples of memory that the test takes. Bounds of estimates are 6 standard deviations or more.
#include "proxy/profile/allocation_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "proxy/profile/cpu_sampler.h"
#include "proxy/profile/program_symbols.h"
#include "proxy/profile/thread_list.h"
#include "sluice/chunk_pool.h"

namespace sluice {

[[gnu::noinline]] void allocation_test_take_large(ChunkPool& pool) {
  ChunkRef chunk = ChunkRef::take(pool.get(16384));
  ASSERT_TRUE(chunk);
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void allocation_test_take_small(ChunkPool& pool) {
  ChunkRef chunk = ChunkRef::take(pool.get(512));
  ASSERT_TRUE(chunk);
  asm volatile("" : : : "memory");
}

[[gnu::noinline]] void allocation_test_note(size_t bytes) {
  AllocationSampler::note_heap(bytes, __builtin_return_address(0));
  asm volatile("" : : : "memory");
}

namespace {

using Unit = AllocationSampler::Unit;
using testing::HasSubstr;
using testing::Not;

// More than that is sampled nearly always.
constexpr size_t kHugeBytes = AllocationSampler::kMeanBytes * 64;

std::string folded_allocations(const FoldedStacks& stacks) {
  ProgramSymbols symbols;
  return stacks.text(AllocationSampler::kScale,
                     [&](uintptr_t address) -> std::string_view { return symbols.name_of(address); });
}

// The sum of the lines that have both parts.
double sum_of(const std::string& text, std::string_view part, std::string_view other) {
  double sum = 0;
  for (const std::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    uint64_t value = 0;
    if (line.find(part) == std::string_view::npos || line.find(other) == std::string_view::npos) continue;
    if (absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &value)) sum += static_cast<double>(value);
  }
  return sum;
}

// Takes many chunks while a sampler is there. Returns its lines.
std::string profile_of_chunks(Unit unit, int large, int small) {
  ChunkPool pool({.budget_bytes = size_t{8} << 20});
  const ChunkPool::Use use(&pool);
  auto sampler = AllocationSampler::start(unit);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  if (!sampler.ok()) return "";
  AllocationSampler::follow(pool);
  FoldedStacks stacks;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < large / 20; ++i) allocation_test_take_large(pool);
    for (int i = 0; i < small / 20; ++i) allocation_test_take_small(pool);
    (*sampler)->collect(stacks);
  }
  (*sampler)->finish(stacks);
  sampler->reset();
  AllocationSampler::follow(pool);
  EXPECT_EQ(stacks.lost(), 0U);
  return folded_allocations(stacks);
}

TEST(AllocationSampler, SumsAreTheBytesThatAreTaken) {
  constexpr int kLarge = 40'000, kSmall = 400'000;
  const std::string text = profile_of_chunks(Unit::kBytes, kLarge, kSmall);
  EXPECT_NEAR(sum_of(text, ";buffers;", "allocation_test_take_large") / (kLarge * 16384.0), 1, 0.1);
  EXPECT_NEAR(sum_of(text, ";buffers;", "allocation_test_take_small") / (kSmall * 512.0), 1, 0.16);
  EXPECT_THAT(text, Not(HasSubstr("AllocationSampler::")));
  EXPECT_THAT(text, Not(HasSubstr(";heap;")));
}

TEST(AllocationSampler, CountsOfDifferentSizesAreUnbiasedToo) {
  constexpr int kLarge = 40'000, kSmall = 400'000;
  const std::string text = profile_of_chunks(Unit::kCount, kLarge, kSmall);
  EXPECT_NEAR(sum_of(text, ";buffers;", "allocation_test_take_large") / kLarge, 1, 0.1);
  EXPECT_NEAR(sum_of(text, ";buffers;", "allocation_test_take_small") / kSmall, 1, 0.16);
}

TEST(AllocationSampler, BlocksLargerThanTheIntervalAreExact) {
  auto sampler = AllocationSampler::start(Unit::kBytes);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  FoldedStacks stacks;
  for (int i = 0; i < 50; ++i) allocation_test_note(kHugeBytes);
  allocation_test_note(0);
  (*sampler)->finish(stacks);
  const std::string text = folded_allocations(stacks);
  EXPECT_EQ(stacks.samples(), 50U);
  EXPECT_EQ(sum_of(text, ";heap;", "AllocationSampler"), 50.0 * kHugeBytes) << text;
  EXPECT_EQ((*sampler)->total_bytes(), 50 * kHugeBytes);
}

TEST(AllocationSampler, ASampleThatDoesNotFitIsCounted) {
  constexpr uint64_t kSamples = 30'000;
  auto sampler = AllocationSampler::start(Unit::kBytes);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  FoldedStacks stacks;
  for (uint64_t i = 0; i < kSamples; ++i) allocation_test_note(kHugeBytes);
  (*sampler)->collect(stacks);
  EXPECT_EQ(stacks.samples() + stacks.lost(), kSamples);
  EXPECT_GT(stacks.lost(), 0U);
  EXPECT_GT(stacks.samples(), 1000U);
  // Nothing is counted twice, and there is room again.
  const uint64_t lost = stacks.lost();
  allocation_test_note(kHugeBytes);
  (*sampler)->finish(stacks);
  EXPECT_EQ(stacks.lost(), lost);
  EXPECT_EQ(stacks.samples() + stacks.lost(), kSamples + 1);
}

TEST(AllocationSampler, TooManyThreadsAreLost) {
  const size_t parts = list_threads()->size() + AllocationSampler::kSpareThreads;
  auto sampler = AllocationSampler::start(Unit::kBytes);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  FoldedStacks stacks;
  for (size_t i = 0; i < parts + 3; ++i) {
    std::thread([&] {
      pthread_setname_np(pthread_self(), "taker;1");
      allocation_test_note(kHugeBytes);
      // While it is there, it has a name.
      (*sampler)->collect(stacks);
    }).join();
  }
  (*sampler)->finish(stacks);
  EXPECT_EQ(stacks.samples(), parts);
  EXPECT_EQ(stacks.lost(), 3U);
  EXPECT_THAT(folded_allocations(stacks), testing::StartsWith("taker:1;heap;"));
}

TEST(AllocationSampler, OneProfileAtATime) {
  auto sampler = AllocationSampler::start(Unit::kBytes);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  EXPECT_TRUE(absl::IsAlreadyExists(AllocationSampler::start(Unit::kBytes).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(CpuSampler::start().status()));
  sampler->reset();
  EXPECT_TRUE(CpuSampler::start().ok());
  EXPECT_TRUE(AllocationSampler::start(Unit::kBytes).ok());
}

TEST(AllocationSampler, NothingIsLeftBehind) {
  ChunkPool pool({.budget_bytes = size_t{8} << 20});
  const ChunkPool::Use use(&pool);
  auto sampler = AllocationSampler::start(Unit::kBytes);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  EXPECT_TRUE(AllocationSampler::samples_heap());
  AllocationSampler::follow(pool);
  sampler->reset();
  EXPECT_FALSE(AllocationSampler::samples_heap());
  // Until the pool follows, and where a thread is late.
  for (int i = 0; i < 100; ++i) allocation_test_take_large(pool);
  allocation_test_note(kHugeBytes);
  AllocationSampler::follow(pool);

  // Those are not of the next profile.
  sampler = AllocationSampler::start(Unit::kBytes);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  for (int i = 0; i < 1000; ++i) allocation_test_take_large(pool);
  FoldedStacks stacks;
  (*sampler)->finish(stacks);
  EXPECT_EQ(stacks.samples(), 0U);
}

// For TSan: threads sample while profiles begin and end.
TEST(AllocationSampler, BeginsAndEndsWhileThreadsSample) {
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!ends.load()) allocation_test_note(kHugeBytes);
    });
  }
  uint64_t samples = 0;
  for (int i = 0; i < 30 || samples == 0; ++i) {
    auto sampler = AllocationSampler::start(Unit::kBytes);
    ASSERT_TRUE(sampler.ok()) << sampler.status();
    FoldedStacks stacks;
    (*sampler)->collect(stacks);
    std::this_thread::yield();
    (*sampler)->finish(stacks);
    samples += stacks.samples();
  }
  ends.store(true);
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice
