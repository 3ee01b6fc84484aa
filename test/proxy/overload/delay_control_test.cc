#include "proxy/overload/delay_control.h"

#include <gtest/gtest.h>

#include "proxy/overload/worker_overload.h"

namespace sluice {
namespace {

using config::Priority;

constexpr DelayControl::Settings kSettings{.target_ms = 100, .interval_ms = 500, .refuses_normal = true};

class DelayControlTest : public testing::Test {
 protected:
  /// Turns of `busy_ms` each, for `duration_ms`.
  void turns(uint64_t busy_ms, uint64_t duration_ms, const DelayControl::Settings& settings = kSettings) {
    for (const uint64_t end_ms = now_ms_ + duration_ms; now_ms_ < end_ms; now_ms_ += busy_ms) {
      control_.note_turn(now_ms_, busy_ms, 0, settings);
    }
  }
  /// A wait for events, of which a turn of a millisecond takes care.
  void sleep(uint64_t duration_ms) {
    now_ms_ += duration_ms;
    turns(1, 1);
  }
  int refused_of_hundred(Priority priority) {
    int refused = 0;
    for (int i = 0; i < 100; ++i) refused += control_.sheds() && control_.sheds(priority);
    return refused;
  }

  DelayControl control_;
  uint64_t now_ms_ = 1'000'000;
};

TEST_F(DelayControlTest, RefusesNothingBelowTheTarget) {
  turns(99, 10'000);
  EXPECT_FALSE(control_.sheds());
  EXPECT_EQ(control_.delay_ms(), 99u);
}

// A turn forwards a bounded number of requests, so turns are short however many wait.
TEST_F(DelayControlTest, WaitOfRequestsIsDelay) {
  const auto short_turns = [&](uint64_t wait_ms) {
    for (int i = 0; i < 2000; ++i) control_.note_turn(now_ms_++, 1, wait_ms, kSettings);
  };
  short_turns(99);
  EXPECT_FALSE(control_.sheds());
  short_turns(150);
  EXPECT_TRUE(control_.sheds());
  EXPECT_EQ(control_.delay_ms(), 150u);
  short_turns(0);
  EXPECT_FALSE(control_.sheds());
}

TEST_F(DelayControlTest, RefusesNothingBeforeTheIntervalIsOver) {
  turns(5, 1000);
  turns(200, 600);
  EXPECT_FALSE(control_.sheds());
  turns(200, 400);
  EXPECT_TRUE(control_.sheds());
}

TEST_F(DelayControlTest, IgnoresAStallHoweverLong) {
  turns(5, 1000);
  turns(3000, 3000);
  turns(5, 1000);
  EXPECT_FALSE(control_.sheds());
}

TEST_F(DelayControlTest, IgnoresBurstsThatDrain) {
  for (int i = 0; i < 50; ++i) {
    turns(300, 300);
    turns(5, 5);
  }
  EXPECT_FALSE(control_.sheds()) << "the shortest delay of each tick counts";
}

TEST_F(DelayControlTest, IgnoresTimesWithoutWork) {
  for (int i = 0; i < 50; ++i) {
    turns(200, 200);
    sleep(400);
  }
  EXPECT_FALSE(control_.sheds());
}

TEST_F(DelayControlTest, RefusesMoreAsLongAsTheDelayStays) {
  turns(200, 1500);
  const int at_first = refused_of_hundred(Priority::kNormal);
  turns(200, 2000);
  const int later = refused_of_hundred(Priority::kNormal);
  EXPECT_GT(at_first, 0);
  EXPECT_GT(later, at_first);
  turns(400, 20'000);
  EXPECT_EQ(refused_of_hundred(Priority::kNormal), 98) << "some always pass";
}

TEST_F(DelayControlTest, RefusesNothingOnceTheDelayIsGone) {
  turns(200, 3000);
  EXPECT_TRUE(control_.sheds());
  turns(10, 3000);
  EXPECT_FALSE(control_.sheds());
}

TEST_F(DelayControlTest, StopsAtOnceWhenIdle) {
  turns(400, 10'000);
  EXPECT_TRUE(control_.sheds());
  sleep(1000);
  EXPECT_FALSE(control_.sheds());
}

TEST_F(DelayControlTest, RefusesLowPriorityFirst) {
  int low = 0, normal = 0;
  for (int i = 0; i < 200 && normal == 0; ++i) {
    turns(150, 150);
    low = refused_of_hundred(Priority::kLow);
    normal = refused_of_hundred(Priority::kNormal);
  }
  EXPECT_GT(normal, 0);
  EXPECT_EQ(low, 100) << "before the first of normal priority";
  EXPECT_EQ(refused_of_hundred(Priority::kHigh), 0);
}

TEST_F(DelayControlTest, SkipsPrioritiesThatNoRequestHas) {
  turns(110, 3000);
  EXPECT_GT(refused_of_hundred(Priority::kNormal), 0);
}

TEST_F(DelayControlTest, RefusesOnlyLowPriorityUnlessToldOtherwise) {
  constexpr DelayControl::Settings kLowOnly{.target_ms = 100, .interval_ms = 500};
  int low = 0;
  for (int i = 0; i < 100; ++i) {
    turns(1000, 1000, kLowOnly);
    low = refused_of_hundred(Priority::kLow);
    ASSERT_EQ(refused_of_hundred(Priority::kNormal), 0);
  }
  EXPECT_EQ(low, 100);
}

TEST_F(DelayControlTest, IsOffWithoutATarget) {
  turns(1000, 60'000, {.target_ms = 0, .interval_ms = 500});
  EXPECT_FALSE(control_.sheds());
}

// A worker that takes 100 requests a tick, gets twice as many, and needs a fifth of the time for one that it refuses.
TEST_F(DelayControlTest, SettlesWhereTheWorkIsDone) {
  double waiting = 0;
  int served_at_last = 0;
  constexpr double kServedPerMs = 1, kArrivedPerMs = 2, kRefusalCost = 0.2;
  for (int turn = 0; turn < 2000; ++turn) {
    int served = 0;
    double cost = 0;
    const int arrived = static_cast<int>(waiting);
    for (int i = 0; i < arrived; ++i) {
      const bool refused = control_.sheds() && control_.sheds(Priority::kNormal);
      served += !refused;
      cost += refused ? kRefusalCost : 1;
    }
    const auto busy_ms = std::max<uint64_t>(1, static_cast<uint64_t>(cost / kServedPerMs));
    turns(busy_ms, busy_ms);
    waiting = static_cast<double>(busy_ms) * kArrivedPerMs;
    if (turn >= 1000) served_at_last += served;
  }
  EXPECT_LT(control_.delay_ms(), 400u);
  EXPECT_GT(served_at_last, 0);
}

TEST(WorkerOverloadTest, CountsWhatItRefuses) {
  OverloadState state;
  state.set_delay({.target = std::chrono::milliseconds(100),
                   .interval = std::chrono::milliseconds(500),
                   .refuse = Priority::kNormal});
  OverloadCounters counters;
  WorkerOverload overload(state, counters, 2, 0);
  for (uint64_t now_ms = 1000; now_ms < 20'000; now_ms += 500) overload.note_turn(now_ms, 500, 0);
  ASSERT_TRUE(overload.sheds());
  uint64_t refused = 0;
  for (int i = 0; i < 100; ++i) refused += overload.sheds(Priority::kNormal);
  overload.update_counters();
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(counters.actions[static_cast<size_t>(OverloadAction::kRefuseRequest)].value(), refused);
  EXPECT_EQ(counters.delay_ms.value(), 500u);
  EXPECT_EQ(counters.shed_percent.value(), 100u);
}

TEST(WorkerOverloadTest, ClosesNoMoreThanItsPartOfTheExcess) {
  constexpr config::OverloadMemory kMarks{.reduce = 80, .close = 90, .refuse = 95};
  OverloadState state;
  OverloadCounters counters;
  WorkerOverload overload(state, counters, 2, 0);
  EXPECT_EQ(overload.excess_bytes(), 0u);
  const MemoryUse use{.used = 950, .limit = 1000};
  state.set_memory(MemoryLevel::kRefuse, use, kMarks);
  EXPECT_EQ(overload.excess_bytes(), 50u) << "half of it, of two workers";
  overload.note_closed(30);
  EXPECT_EQ(overload.excess_bytes(), 20u);
  for (int i = 0; i < 14; ++i) state.set_memory(MemoryLevel::kRefuse, use, kMarks);
  EXPECT_EQ(overload.excess_bytes(), 20u) << "it may not have returned to the system yet";
  state.set_memory(MemoryLevel::kRefuse, use, kMarks);
  EXPECT_EQ(overload.excess_bytes(), 50u);
  EXPECT_EQ(counters.closed_bytes.value(), 30u);
}

}  // namespace
}  // namespace sluice
