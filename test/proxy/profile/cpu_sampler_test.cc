// Samples of threads of the test's own.
#include "proxy/profile/cpu_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "proxy/profile/program_symbols.h"

namespace sluice {

std::atomic<bool> profile_test_ends{false};
std::atomic<uint64_t> profile_test_sum{0};

// Uses a processor until the test ends.
[[gnu::noinline]] void profile_test_burn() {
  while (!profile_test_ends.load(std::memory_order_relaxed)) profile_test_sum.fetch_add(1, std::memory_order_relaxed);
  asm volatile("" : : : "memory");
}

namespace {

using testing::HasSubstr;
using testing::Not;

uint64_t thread_cpu_us(pthread_t thread) {
  clockid_t clock{};
  timespec time{};
  pthread_getcpuclockid(thread, &clock);
  clock_gettime(clock, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_nsec) / 1000;
}

std::string text_of_stacks(const FoldedStacks& stacks) {
  ProgramSymbols symbols;
  return stacks.text(CpuSampler::kPeriodUs,
                     [&](uintptr_t address) -> std::string_view { return symbols.name_of(address); });
}

// The sum of the lines of a thread that have `part`.
uint64_t microseconds_of(const std::string& text, std::string_view thread, std::string_view part) {
  uint64_t sum = 0;
  for (const std::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    uint64_t value = 0;
    if (!line.starts_with(thread) || line.find(part) == std::string_view::npos) continue;
    if (absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &value)) sum += value;
  }
  return sum;
}

class CpuSamplerTest : public testing::Test {
 protected:
  CpuSamplerTest() { profile_test_ends.store(false); }
  ~CpuSamplerTest() override {
    profile_test_ends.store(true);
    if (burning_.joinable()) burning_.join();
    if (idle_.joinable()) idle_.join();
  }

  void start_burning() {
    std::atomic<bool> named{false};
    burning_ = std::thread([&named] {
      pthread_setname_np(pthread_self(), "burning");
      named.store(true);
      profile_test_burn();
    });
    while (!named.load()) std::this_thread::yield();
  }
  void start_idle() {
    idle_ = std::thread([] {
      pthread_setname_np(pthread_self(), "idle");
      while (!profile_test_ends.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  // Collects until the thread has used so much of a processor.
  void collect_while_burning(CpuSampler& sampler, FoldedStacks& stacks, uint64_t us) {
    const uint64_t begin = thread_cpu_us(burning_.native_handle());
    while (thread_cpu_us(burning_.native_handle()) < begin + us) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      sampler.collect(stacks);
    }
  }

  std::thread burning_, idle_;
};

TEST_F(CpuSamplerTest, SumsAreTheProcessorTimeOfEachFunction) {
  start_burning();
  start_idle();
  auto sampler = CpuSampler::start();
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  FoldedStacks stacks;
  const uint64_t begin = thread_cpu_us(burning_.native_handle());
  collect_while_burning(**sampler, stacks, 600'000);
  (*sampler)->finish(stacks);
  const uint64_t used = thread_cpu_us(burning_.native_handle()) - begin;
  const std::string text = text_of_stacks(stacks);
#if !defined(__SANITIZE_THREAD__)  // It delivers signals late, with another stack.
  const uint64_t sampled = microseconds_of(text, "burning;", "sluice::profile_test_burn");
  EXPECT_GT(sampled, used / 2) << text;
  EXPECT_LT(sampled, used * 5 / 4) << text;
#endif
  // What waits is not sampled, or hardly.
  EXPECT_LT(microseconds_of(text, "idle;", ""), used / 4) << text;
  EXPECT_EQ(stacks.lost(), 0U);
}

TEST_F(CpuSamplerTest, FindsThreadsThatBeginLaterAndForgetsThoseThatEnd) {
  auto sampler = CpuSampler::start();
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  FoldedStacks stacks;
  for (int round = 0; round < 3; ++round) {
    profile_test_ends.store(false);
    start_burning();
    collect_while_burning(**sampler, stacks, 200'000);
    profile_test_ends.store(true);
    burning_.join();
    (*sampler)->collect(stacks);
  }
  (*sampler)->finish(stacks);
  EXPECT_GT(microseconds_of(text_of_stacks(stacks), "burning;", ""), 200'000U);
}

TEST_F(CpuSamplerTest, OneAtATimeAndOftenAfterEachOther) {
  start_burning();
  for (int round = 0; round < 20; ++round) {
    auto sampler = CpuSampler::start();
    ASSERT_TRUE(sampler.ok()) << sampler.status();
    EXPECT_EQ(CpuSampler::start().status().code(), absl::StatusCode::kAlreadyExists);
    FoldedStacks stacks;
    collect_while_burning(**sampler, stacks, 5'000);
  }
}

TEST_F(CpuSamplerTest, NothingIsLeftBehind) {
  {
    ASSERT_TRUE(CpuSampler::start().ok());
  }
  // A signal that comes late, or from somebody else, does nothing.
  EXPECT_EQ(raise(SIGPROF), 0);
}

}  // namespace
}  // namespace sluice
