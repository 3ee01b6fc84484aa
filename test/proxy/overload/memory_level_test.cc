#include "proxy/overload/memory_level.h"

#include <gtest/gtest.h>

#include "proxy/overload/overload_state.h"

namespace sluice {
namespace {

constexpr uint64_t kLimit = 1000;
const config::OverloadMemory kMarks{.reduce = 80, .close = 90, .refuse = 95};

MemoryLevel next(MemoryLevel now, uint64_t used) {
  return next_memory_level(now, {.used = used, .limit = kLimit}, kMarks);
}

TEST(MemoryLevelTest, RisesAtItsMarks) {
  EXPECT_EQ(next(MemoryLevel::kNormal, 799), MemoryLevel::kNormal);
  EXPECT_EQ(next(MemoryLevel::kNormal, 800), MemoryLevel::kReduce);
  EXPECT_EQ(next(MemoryLevel::kReduce, 899), MemoryLevel::kReduce);
  EXPECT_EQ(next(MemoryLevel::kReduce, 900), MemoryLevel::kClose);
  EXPECT_EQ(next(MemoryLevel::kClose, 950), MemoryLevel::kRefuse);
  EXPECT_EQ(next(MemoryLevel::kNormal, 2000), MemoryLevel::kRefuse) << "at once";
}

TEST(MemoryLevelTest, FallsOnlyBelowTheHysteresis) {
  EXPECT_EQ(next(MemoryLevel::kReduce, 750), MemoryLevel::kReduce);
  EXPECT_EQ(next(MemoryLevel::kReduce, 749), MemoryLevel::kNormal);
  EXPECT_EQ(next(MemoryLevel::kClose, 850), MemoryLevel::kClose);
  EXPECT_EQ(next(MemoryLevel::kClose, 849), MemoryLevel::kReduce);
  EXPECT_EQ(next(MemoryLevel::kRefuse, 900), MemoryLevel::kRefuse);
  EXPECT_EQ(next(MemoryLevel::kRefuse, 899), MemoryLevel::kClose);
  EXPECT_EQ(next(MemoryLevel::kRefuse, 0), MemoryLevel::kNormal) << "at once";
}

TEST(MemoryLevelTest, DoesNotFlap) {
  int changes = 0;
  MemoryLevel now = MemoryLevel::kNormal;
  for (int i = 0; i < 100; ++i) {
    const MemoryLevel then = next(now, i % 2 == 0 ? 801 : 790);
    changes += then != now;
    now = then;
  }
  EXPECT_EQ(changes, 1);
}

TEST(MemoryLevelTest, IsNormalWithoutALimit) {
  EXPECT_EQ(next_memory_level(MemoryLevel::kRefuse, {.used = 5000, .limit = 0}, kMarks), MemoryLevel::kNormal);
  config::OverloadMemory off = kMarks;
  off.enabled = false;
  EXPECT_EQ(next_memory_level(MemoryLevel::kRefuse, {.used = 5000, .limit = kLimit}, off), MemoryLevel::kNormal);
}

TEST(MemoryLevelTest, KnowsWhatIsTooMuch) {
  EXPECT_EQ(memory_excess({.used = 950, .limit = kLimit}, kMarks), 100u) << "beyond the end of kClose";
  EXPECT_EQ(memory_excess({.used = 850, .limit = kLimit}, kMarks), 0u);
}

TEST(MemoryLevelTest, ReducesTimeouts) {
  const auto percent = [](uint64_t used) { return reduced_timeout_percent({.used = used, .limit = kLimit}, kMarks); };
  EXPECT_EQ(percent(500), 100u);
  EXPECT_EQ(percent(800), 100u);
  EXPECT_EQ(percent(875), 55u);
  EXPECT_EQ(percent(950), kLeastTimeout);
  EXPECT_EQ(percent(2000), kLeastTimeout);
}

TEST(OverloadStateTest, HasWhatTheWorkersNeed) {
  OverloadState state;
  EXPECT_EQ(state.reduced_ms(1000), 1000u);
  state.set_memory(MemoryLevel::kReduce, {.used = 875, .limit = kLimit}, kMarks);
  EXPECT_EQ(state.reduced_ms(1000), 550u);
  EXPECT_EQ(state.excess_bytes(), 0u) << "nothing is closed yet";
  state.set_memory(MemoryLevel::kClose, {.used = 900, .limit = kLimit}, kMarks);
  EXPECT_EQ(state.excess_bytes(), 50u);
  state.set_memory(MemoryLevel::kNormal, {.used = 100, .limit = kLimit}, kMarks);
  EXPECT_EQ(state.reduced_ms(1000), 1000u);
}

}  // namespace
}  // namespace sluice
