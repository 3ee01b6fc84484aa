#include "net/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace sluice {
namespace {

constexpr uint64_t kTick = TimerWheel::kTickMs;
constexpr uint64_t kSecond = 1000, kHour = 3600 * kSecond, kDay = 24 * kHour;

/// A timer that calls a function.
struct Alarm {
  explicit Alarm(std::function<void()> f = {}) : call(std::move(f)) {}
  std::function<void()> call;
  int fired = 0;
  Timer timer{[](void* self) {
                auto* alarm = static_cast<Alarm*>(self);
                ++alarm->fired;
                if (alarm->call) alarm->call();
              },
              this};
};

// The first multiple of a tick that is not before `ms`.
uint64_t tick_at_or_after(uint64_t ms) { return (ms + kTick - 1) / kTick * kTick; }

TEST(TimerWheelTest, NothingArmed) {
  TimerWheel wheel(12345);
  EXPECT_EQ(wheel.now_ms(), 12345u);
  EXPECT_EQ(wheel.next_ms(), -1);
  wheel.advance(12345);
  wheel.advance(99 * kDay);
  EXPECT_EQ(wheel.now_ms(), 99 * kDay);
  EXPECT_EQ(wheel.next_ms(), -1);
}

// However little time has passed; and what such a timer arms is for the call after that.
TEST(TimerWheelTest, ForTheNextAdvance) {
  TimerWheel wheel(1001);
  Alarm canceled, other;
  Alarm again([&] {
    if (again.fired == 1) wheel.arm_for_next(again.timer);
    canceled.timer.cancel();
    wheel.arm(other.timer, 1002);
  });
  EXPECT_EQ(wheel.next_ms(), -1);
  wheel.arm(again.timer, 5000);
  wheel.arm_for_next(again.timer);
  wheel.arm_for_next(canceled.timer);
  EXPECT_EQ(wheel.next_ms(), 0);
  EXPECT_TRUE(again.timer.armed());
  wheel.advance(1001);
  EXPECT_EQ(again.fired, 1);
  EXPECT_EQ(wheel.next_ms(), 0);
  wheel.advance(1001);
  EXPECT_EQ(again.fired, 2);
  EXPECT_GT(wheel.next_ms(), 0);
  wheel.advance(6000);
  EXPECT_EQ(again.fired, 2);
  EXPECT_EQ(canceled.fired, 0);
  EXPECT_EQ(other.fired, 1);
  wheel.arm_for_next(other.timer);
  wheel.arm(other.timer, 7000);
  EXPECT_GT(wheel.next_ms(), 0);
}

// Each delay that is near a border of the wheels, from several starts, millisecond by millisecond around its time.
TEST(TimerWheelTest, FiresAtItsTimeOrWithinOneTick) {
  std::vector<uint64_t> delays = {0, 1, 2, 3, 4, 5, 7, 8, 100, 1000};
  for (uint64_t width = kTick; width <= kTick << 24; width <<= 6) {
    for (int64_t d : {-5, -4, -3, -1, 0, 1, 3, 4, 5}) delays.push_back(64 * width + static_cast<uint64_t>(d));
  }
  for (uint64_t start : {uint64_t{0}, uint64_t{1}, uint64_t{255}, uint64_t{256 * 64 - 1}, uint64_t{1'234'567'891}}) {
    for (uint64_t delay : delays) {
      TimerWheel wheel(start);
      Alarm alarm;
      const uint64_t due = start + delay;
      wheel.arm(alarm.timer, due);
      ASSERT_TRUE(alarm.timer.armed());
      if (due > start) {
        wheel.advance(due - 1);
        ASSERT_EQ(alarm.fired, 0) << "early: start " << start << " delay " << delay;
      }
      uint64_t now = std::max(due, start);
      while (alarm.fired == 0 && now <= due + kTick) wheel.advance(now++);
      ASSERT_EQ(alarm.fired, 1) << "late: start " << start << " delay " << delay;
      ASSERT_FALSE(alarm.timer.armed());
      wheel.advance(now + kDay);
      ASSERT_EQ(alarm.fired, 1);
    }
  }
}

TEST(TimerWheelTest, FiresInOrderOfTime) {
  TimerWheel wheel(1000);
  std::mt19937_64 random(1);
  std::vector<uint64_t> fired;
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t due = 1000 + (random() % (uint64_t{1} << (random() % 38)));
    alarms.push_back(std::make_unique<Alarm>([&fired, due] { fired.push_back(due); }));
    wheel.arm(alarms.back()->timer, due);
  }
  wheel.advance(uint64_t{1} << 39);
  ASSERT_EQ(fired.size(), alarms.size());
  for (size_t i = 1; i < fired.size(); ++i) {
    ASSERT_LE(tick_at_or_after(fired[i - 1]), std::max<uint64_t>(tick_at_or_after(fired[i]), 1004)) << i;
  }
}

// Farther ahead than the wheels reach (about 18 hours), in steps of one size.
TEST(TimerWheelTest, FarTimers) {
  for (const uint64_t step : {977 * kSecond, kHour, 3 * kDay, 200 * kDay}) {
    TimerWheel wheel(777);
    const uint64_t due = 777 + 90 * kDay + 123;
    Alarm far, farther;
    wheel.arm(far.timer, due);
    wheel.arm(farther.timer, due + kDay);
    while (wheel.now_ms() + step < due) wheel.advance(wheel.now_ms() + step);
    EXPECT_EQ(far.fired, 0);
    wheel.advance(due + kTick);
    EXPECT_EQ(far.fired, 1);
    EXPECT_EQ(farther.fired, 0);
    wheel.advance(due + kDay + kTick);
    EXPECT_EQ(farther.fired, 1);
  }
}

// Like the loop: from one next_ms to the next. A far timer takes a few turns.
TEST(TimerWheelTest, FarTimerByNextMs) {
  TimerWheel wheel(777);
  const uint64_t due = 777 + 90 * kDay + 123;
  Alarm far;
  wheel.arm(far.timer, due);
  int turns = 0;
  while (far.fired == 0 && turns < 1000) {
    ASSERT_GT(wheel.next_ms(), 0);
    wheel.advance(wheel.now_ms() + static_cast<uint64_t>(wheel.next_ms()));
    ++turns;
  }
  EXPECT_LT(turns, 1000);
  EXPECT_EQ(wheel.now_ms(), tick_at_or_after(due));
}

TEST(TimerWheelTest, CancelAndRearm) {
  TimerWheel wheel(0);
  Alarm a, b;
  wheel.arm(a.timer, 100);
  wheel.arm(b.timer, 100);
  a.timer.cancel();
  EXPECT_FALSE(a.timer.armed());
  a.timer.cancel();  // Nothing to do.
  wheel.advance(200);
  EXPECT_EQ(a.fired, 0);
  EXPECT_EQ(b.fired, 1);

  wheel.arm(a.timer, 300);
  wheel.arm(a.timer, 5000);  // Later,
  wheel.advance(4000);
  EXPECT_EQ(a.fired, 0);
  wheel.arm(a.timer, 4100);  // sooner.
  wheel.advance(4200);
  EXPECT_EQ(a.fired, 1);
  wheel.advance(6000);
  EXPECT_EQ(a.fired, 1);
}

TEST(TimerWheelTest, DestroyedTimerDoesNotFire) {
  TimerWheel wheel(0);
  Alarm before, after;
  wheel.arm(before.timer, 50);
  auto gone = std::make_unique<Alarm>();
  wheel.arm(gone->timer, 50);
  wheel.arm(after.timer, 50);
  gone.reset();
  wheel.advance(100);
  EXPECT_EQ(before.fired, 1);
  EXPECT_EQ(after.fired, 1);
}

// A timer that is due in the past, or now, fires with the next tick and not within arm().
TEST(TimerWheelTest, PastIsNextTick) {
  TimerWheel wheel(1000);
  Alarm past, now;
  wheel.arm(past.timer, 10);
  wheel.arm(now.timer, 1000);
  EXPECT_EQ(past.fired + now.fired, 0);
  EXPECT_GT(wheel.next_ms(), 0);
  EXPECT_LE(wheel.next_ms(), static_cast<int64_t>(kTick));
  wheel.advance(1000 + kTick);
  EXPECT_EQ(past.fired, 1);
  EXPECT_EQ(now.fired, 1);
}

TEST(TimerWheelTest, CallbackMayRearmItself) {
  TimerWheel wheel(0);
  Alarm alarm;
  alarm.call = [&] { wheel.arm(alarm.timer, wheel.now_ms() + 100); };
  wheel.arm(alarm.timer, 100);
  for (uint64_t now = 0; now <= 1000; ++now) wheel.advance(now);
  EXPECT_EQ(alarm.fired, 10);
  // The time of the callback is the argument of advance(): skipped periods are not made up for.
  wheel.advance(kDay);
  EXPECT_EQ(alarm.fired, 11);
  EXPECT_TRUE(alarm.timer.armed());
}

// Armed again at once: no endless loop inside advance(), neither on a tick's border nor off it.
TEST(TimerWheelTest, CallbackMayRearmForNow) {
  for (const uint64_t now : {uint64_t{4000}, uint64_t{4001}, uint64_t{4003}}) {
    TimerWheel wheel(0);
    Alarm alarm;
    alarm.call = [&] { wheel.arm(alarm.timer, wheel.now_ms()); };
    wheel.arm(alarm.timer, 8);
    wheel.advance(now);
    EXPECT_GE(alarm.fired, 1);
    EXPECT_LE(alarm.fired, 2);
    EXPECT_TRUE(alarm.timer.armed());
    EXPECT_GT(wheel.next_ms(), 0);
  }
}

TEST(TimerWheelTest, CallbackMayArmAndCancelOthers) {
  TimerWheel wheel(0);
  Alarm neighbor, neighbor_moved, later, fresh;
  Alarm first([&] {
    neighbor.timer.cancel();
    wheel.arm(neighbor_moved.timer, wheel.now_ms() + 500);
    later.timer.cancel();
    wheel.arm(fresh.timer, wheel.now_ms() + 4);
  });
  wheel.arm(first.timer, 100);
  wheel.arm(neighbor.timer, 100);
  wheel.arm(neighbor_moved.timer, 100);
  wheel.arm(later.timer, 200);
  wheel.advance(100);
  EXPECT_EQ(first.fired, 1);
  wheel.advance(300);
  EXPECT_EQ(neighbor.fired, 0);
  EXPECT_EQ(neighbor_moved.fired, 0);
  EXPECT_EQ(later.fired, 0);
  EXPECT_EQ(fresh.fired, 1);
  wheel.advance(700);
  EXPECT_EQ(neighbor_moved.fired, 1);
}

TEST(TimerWheelTest, CallbackMayDestroyItsOwnerAndOthers) {
  struct Owner {
    Alarm* victim;
    int* destroyed;
    Timer timer{[](void* self) {
                  auto* owner = static_cast<Owner*>(self);
                  delete owner->victim;
                  ++*owner->destroyed;
                  delete owner;
                },
                this};
  };
  TimerWheel wheel(0);
  int destroyed = 0;
  auto* owner = new Owner{new Alarm, &destroyed};
  Alarm last;
  wheel.arm(owner->timer, 40);
  wheel.arm(owner->victim->timer, 40);
  wheel.arm(last.timer, 40);
  wheel.advance(60);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(last.fired, 1);
}

// next_ms may be early once after a cancellation, but the loop must not turn for nothing repeatedly.
TEST(TimerWheelTest, CanceledTimersCostFewTurns) {
  TimerWheel wheel(0);
  std::vector<std::unique_ptr<Alarm>> alarms;
  for (int i = 0; i < 500; ++i) {
    alarms.push_back(std::make_unique<Alarm>());
    wheel.arm(alarms.back()->timer, 10'000 + static_cast<uint64_t>(i));
  }
  for (auto& alarm : alarms) alarm->timer.cancel();
  int turns = 0;
  while (wheel.next_ms() >= 0 && turns < 100) {
    ASSERT_GT(wheel.next_ms(), 0);
    wheel.advance(wheel.now_ms() + static_cast<uint64_t>(wheel.next_ms()));
    ++turns;
  }
  EXPECT_LE(turns, 4);
  EXPECT_EQ(wheel.next_ms(), -1);
}

/// The wheel, compared with a multimap of when each timer must fire.
class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed), now_(random_() % (uint64_t{1} << (random_() % 40))), wheel_(now_) {
    for (size_t i = 0; i < kAlarms; ++i) {
      alarms_.push_back(std::make_unique<Alarm>([this, i] { on_fire(i); }));
      position_.push_back(due_.end());
    }
  }

  void run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) {
      switch (random_() % 8) {
        case 0:
        case 1:
        case 2:
          arm(random_() % kAlarms);
          break;
        case 3:
          cancel(random_() % kAlarms);
          break;
        case 4:
          if (wheel_.next_ms() >= 0) advance(now_ + static_cast<uint64_t>(wheel_.next_ms()));
          break;
        default:
          advance(now_ + any_time());
      }
      check();
    }
  }

 private:
  static constexpr size_t kAlarms = 60;

  // From nothing to about 50 days, small ones as often as large ones.
  uint64_t any_time() { return random_() % (uint64_t{1} << (random_() % 33)); }

  void arm(size_t i) {
    cancel(i);
    // One in eight is in the past.
    const uint64_t due = random_() % 8 == 0 ? now_ - std::min(now_, any_time()) : now_ + any_time();
    wheel_.arm(alarms_[i]->timer, due);
    // The tick that fires now, or the last one, is over.
    const uint64_t soonest = (firing_ ? tick_ms_ : now_ / kTick * kTick) + kTick;
    position_[i] = due_.emplace(std::max(tick_at_or_after(due), soonest), i);
  }

  void cancel(size_t i) {
    alarms_[i]->timer.cancel();
    if (position_[i] != due_.end()) due_.erase(position_[i]);
    position_[i] = due_.end();
  }

  void on_fire(size_t i) {
    ASSERT_NE(position_[i], due_.end()) << "fired without being armed";
    const uint64_t due = position_[i]->first;
    ASSERT_LE(due, now_) << "early";
    ASSERT_EQ(due, due_.begin()->first) << "out of order";
    tick_ms_ = due;
    due_.erase(position_[i]);
    position_[i] = due_.end();
    // The budget bounds chains of callbacks that arm for the past within one advance().
    if (callback_budget_ == 0) return;
    --callback_budget_;
    if (random_() % 2 == 0) arm(random_() % 4 == 0 ? i : random_() % kAlarms);
    if (random_() % 4 == 0) cancel(random_() % kAlarms);
  }

  void advance(uint64_t to) {
    now_ = to;
    firing_ = true;
    callback_budget_ = 200;
    wheel_.advance(to);
    firing_ = false;
    ASSERT_TRUE(due_.empty() || due_.begin()->first > now_) << "late by " << now_ - due_.begin()->first << " ms";
    ASSERT_NE(wheel_.next_ms(), 0) << "the loop would spin";
  }

  void check() {
    ASSERT_EQ(wheel_.now_ms(), now_);
    const int64_t next = wheel_.next_ms();
    if (due_.empty()) return;
    ASSERT_GE(next, 0);
    ASSERT_LE(now_ + static_cast<uint64_t>(next), due_.begin()->first) << "next_ms is late";
    for (size_t i = 0; i < kAlarms; ++i) ASSERT_EQ(alarms_[i]->timer.armed(), position_[i] != due_.end());
  }

  std::mt19937_64 random_;
  uint64_t now_;
  TimerWheel wheel_;
  std::multimap<uint64_t, size_t> due_;
  std::vector<std::multimap<uint64_t, size_t>::iterator> position_;
  std::vector<std::unique_ptr<Alarm>> alarms_;
  bool firing_ = false;
  uint64_t tick_ms_ = 0;
  int callback_budget_ = 0;
};

TEST(TimerWheelTest, AgreesWithModel) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed);
    model.run(2000);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace sluice
