#include "proxy/rate_limit/rate_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace sluice {
namespace {

constexpr uint64_t kSecond = 1'000'000'000, kMinute = 60 * kSecond, kHour = 60 * kMinute;
constexpr uint64_t kStart = 12'345 * kSecond + 678;

/// The hash of a key with this tag, in the only bucket of a table for 8 keys.
constexpr uint64_t key(uint64_t tag) { return tag << Gcra::kTimeBits; }

int admitted_at_once(RateTable& table, uint64_t hash, uint64_t now, int events) {
  int admitted = 0;
  for (int i = 0; i < events; ++i) admitted += table.check(hash, now).admitted;
  return admitted;
}

// ---- GCRA ----

TEST(RateTableTest, AdmitsTheBurstAndThenTheRate) {
  RateTable table(Gcra(10, kSecond, 5), 8);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart, 20), 5);
  EXPECT_FALSE(table.check(key(1), kStart + kSecond / 10 - kSecond / 1000).admitted);
  int admitted = 0;
  for (uint64_t ms = 100; ms < 10'000; ++ms) admitted += table.check(key(1), kStart + ms * 1'000'000).admitted;
  EXPECT_EQ(admitted, 99);
}

TEST(RateTableTest, GivesTheWholeBurstAgainAndNoMore) {
  RateTable table(Gcra(10, kSecond, 5), 8);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart, 20), 5);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart + kSecond / 5, 20), 2);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart + kHour, 20), 5);
}

TEST(RateTableTest, SaysHowLongToWait) {
  RateTable table(Gcra(2, kMinute, 2), 8);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart, 2), 2);
  const uint64_t wait = table.check(key(1), kStart).wait_ns;
  EXPECT_NEAR(static_cast<double>(wait), 30e9, 1e8);
  EXPECT_FALSE(table.check(key(1), kStart + wait - kSecond).admitted);
  EXPECT_TRUE(table.check(key(1), kStart + wait + kSecond / 5).admitted);
}

// ---- Delays ----

// Events over the burst wait for their turns, an emission interval apart, as many as have one within the delay.
TEST(RateTableTest, EventsWaitForTheirTurns) {
  RateTable table(Gcra(10, kSecond, 2, 3 * kSecond / 10), 8);
  std::vector<double> waits;
  RateVerdict verdict;
  while ((verdict = table.check(key(1), kStart)).admitted) waits.push_back(static_cast<double>(verdict.wait_ns) / 1e9);
  ASSERT_EQ(waits.size(), 5u);
  for (size_t i = 0; i < waits.size(); ++i) EXPECT_NEAR(waits[i], i < 2 ? 0 : 0.1 * static_cast<double>(i - 1), 1e-3);
  EXPECT_NEAR(static_cast<double>(verdict.wait_ns) / 1e9, 0.1, 1e-3);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart + kSecond / 4, 20), 2);
  EXPECT_EQ(admitted_at_once(table, key(2), kStart, 20), 5);
}

// In the long run events that wait are no more than those that conform.
TEST(RateTableTest, DelayLeavesTheRateAlone) {
  RateTable table(Gcra(1000, kSecond, 10, kSecond), 8);
  int admitted = 0;
  uint64_t last = 0;
  for (uint64_t now = kStart; now < kStart + 20 * kSecond; now += kSecond / 4000) {
    const RateVerdict verdict = table.check(key(1), now);
    if (!verdict.admitted) continue;
    ++admitted;
    EXPECT_LE(verdict.wait_ns, kSecond + 1000);
    EXPECT_GE(now + verdict.wait_ns + 1000, last);
    last = now + verdict.wait_ns;
  }
  EXPECT_NEAR(admitted, 20 * 1000 + 10 + 1000, 2);
}

// ---- Bytes ----

TEST(RateTableTest, BytesWaitForTheirTurns) {
  RateTable table(Gcra::of_bytes(1000, kSecond, 500), 8);
  const auto wait_ms = [&](size_t bytes, uint64_t now) {
    return table.reserve(key(1), bytes, now).wait_ns / 1'000'000;
  };
  EXPECT_EQ(wait_ms(400, kStart), 0u);
  EXPECT_EQ(wait_ms(100, kStart), 0u);
  EXPECT_NEAR(static_cast<double>(wait_ms(100, kStart)), 100, 1);
  EXPECT_NEAR(static_cast<double>(wait_ms(300, kStart)), 400, 1);
  EXPECT_NEAR(static_cast<double>(wait_ms(100, kStart + kSecond / 4)), 250, 1);
  EXPECT_EQ(table.reserve(key(2), 500, kStart).wait_ns, 0u);
  EXPECT_EQ(wait_ms(500, kStart + kHour), 0u);
  EXPECT_NEAR(static_cast<double>(wait_ms(1, kStart + kHour)), 1, 1);
}

TEST(RateTableTest, BytesThatDoNotPassAreGivenBack) {
  RateTable table(Gcra::of_bytes(1000, kSecond, 500), 8);
  table.give_back(key(1), 100, kStart);  // Of a key that was forgotten.
  EXPECT_EQ(table.reserve(key(1), 500, kStart).wait_ns, 0u);
  EXPECT_GT(table.reserve(key(1), 400, kStart).wait_ns, 0u);
  table.give_back(key(1), 400, kStart);
  EXPECT_NEAR(static_cast<double>(table.reserve(key(1), 100, kStart).wait_ns), 1e8, 1e6);
  table.give_back(key(1), 100'000, kStart);  // Never more than the burst.
  EXPECT_EQ(table.reserve(key(1), 500, kStart).wait_ns, 0u);
  EXPECT_GT(table.reserve(key(1), 100, kStart).wait_ns, 0u);
}

// Slow and fast rates are exact, and time that passes without bytes is worth no more than the burst.
TEST(RateTableTest, BytesInTheLongRun) {
  struct Case {
    uint64_t bytes, period;
  };
  for (const auto& [bytes, period] : {Case{1000, kSecond}, Case{3'600'000, kHour}, Case{60'001, kMinute},
                                      Case{uint64_t{10} << 30, kSecond}, Case{uint64_t{36'000} << 30, kHour}}) {
    const uint64_t burst = std::max<uint64_t>(bytes * (kSecond / 10) / period, 300);
    RateTable table(Gcra::of_bytes(bytes, period, burst), 8);
    uint64_t now = kStart, passed = 0;
    for (int i = 0; i < 100'000; ++i) {  // One body, each piece of which waits.
      passed += 256;
      now += table.reserve(key(1), 256, now).wait_ns;
    }
    const double expected =
        static_cast<double>(now - kStart) * static_cast<double>(bytes) / static_cast<double>(period);
    if (passed > 2 * burst) {
      EXPECT_NEAR(static_cast<double>(passed - burst), expected, 1024 + expected / 50) << bytes;
    }
  }
}

// However many bodies wait, none waits longer than kMaxOwedNs, and what they owe is not forgotten.
TEST(RateTableTest, BytesOwedAreBounded) {
  RateTable slow(Gcra::of_bytes(1000, kSecond, 1000), 8);
  uint64_t longest = 0;
  for (int i = 0; i < 10'000; ++i) longest = std::max(longest, slow.reserve(key(1), 256, kStart).wait_ns);
  EXPECT_NEAR(static_cast<double>(longest), static_cast<double>(Gcra::kMaxOwedNs), 1e9);
  EXPECT_GT(slow.reserve(key(1), 256, kStart + 30 * kSecond).wait_ns, 29 * kSecond);
  EXPECT_EQ(slow.reserve(key(1), 256, kStart + 62 * kSecond).wait_ns, 0u);
  RateTable fast(Gcra::of_bytes(uint64_t{10} << 30, kSecond, uint64_t{64} << 30), 8);
  for (int i = 0; i < 100; ++i) longest = fast.reserve(key(1), uint64_t{1} << 30, kStart).wait_ns;
  EXPECT_NEAR(static_cast<double>(longest), 1e8, 1e7);
  EXPECT_EQ(fast.reserve(key(1), 1, kStart + 7 * kSecond).wait_ns, 0u);
}

// The largest burst and delay are within what the time can tell.
TEST(RateTableTest, LongestDelay) {
  const Gcra gcra(Gcra::kMaxPerSecond, kSecond, Gcra::kMaxBurst, Gcra::kMaxDelayNs);
  const uint64_t now = gcra.ticks_at(kStart);
  const int64_t reach = (int64_t{Gcra::kMaxBurst} - 1 + 60'000'000) * Gcra::kTicks;
  const auto ahead_of = [&](int64_t ticks) {
    return gcra.ahead((now + static_cast<uint64_t>(ticks)) & Gcra::kTimeMask, now);
  };
  EXPECT_EQ(ahead_of(reach - 1), reach - 1);
  EXPECT_TRUE(gcra.counts(ahead_of(reach - 1)));
  EXPECT_NEAR(static_cast<double>(gcra.wait_ns(ahead_of(reach - 1))), 60e9, 1e4);
  EXPECT_EQ(ahead_of(reach + Gcra::kTicks), reach + Gcra::kTicks);
  EXPECT_FALSE(gcra.counts(ahead_of(reach + Gcra::kTicks)));
}

// A tick is a fraction of the emission interval, so no rate is rounded.
TEST(RateTableTest, KeepsEachRate) {
  struct Case {
    uint64_t events, period;
  };
  for (const auto& [events, period] :
       {Case{1, kHour}, Case{7, kHour}, Case{999'983, kSecond}, Case{1'000'000, kSecond}, Case{3, kMinute}}) {
    RateTable table(Gcra(events, period, 2), 8);
    const uint64_t interval = period / events;
    uint64_t admitted = 0, now = kStart;
    const uint64_t steps = 400'000;
    for (uint64_t i = 0; i < steps; ++i) {
      admitted += table.check(key(1), now).admitted;
      now += interval / 10 + 1;
    }
    const double expected =
        static_cast<double>(now - kStart) * static_cast<double>(events) / static_cast<double>(period);
    EXPECT_NEAR(static_cast<double>(admitted), expected, 3) << events;
  }
}

TEST(RateTableTest, KeysAreIndependent) {
  RateTable table(Gcra(1, kHour, 3), 8);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart, 9), 3);
  EXPECT_EQ(admitted_at_once(table, key(2), kStart, 9), 3);
  EXPECT_EQ(admitted_at_once(table, key(3), kStart, 9), 3);
}

// ---- The clock ----

TEST(RateTableTest, ForgivesClocksOfThreadsThatDiffer) {
  RateTable table(Gcra(1'000'000, kSecond, 10), 8);
  EXPECT_EQ(admitted_at_once(table, key(1), kStart + kSecond / 2, 20), 10);
  // A thread that has read the clock earlier than those before it: the key is still limited.
  EXPECT_FALSE(table.check(key(1), kStart).admitted);
  EXPECT_FALSE(table.check(key(1), kStart + kSecond / 2).admitted);
}

// The time wraps. A key that is old by whole turns is not limited, and one that is limited stays so across the wrap.
TEST(RateTableTest, TimeWraps) {
  const uint64_t turn = (uint64_t{1} << 32) * 1000;  // Of 1,000,000 events a second, in nanoseconds.
  RateTable table(Gcra(1'000'000, kSecond, 1000), 8);
  for (int turns = 0; turns < 3; ++turns) {
    const uint64_t before_wrap = turn * static_cast<uint64_t>(turns + 3) - 200'000;
    EXPECT_EQ(admitted_at_once(table, key(1), before_wrap, 2000), 1000);
    EXPECT_EQ(admitted_at_once(table, key(1), before_wrap + 400'000, 2000), 400);
    EXPECT_EQ(admitted_at_once(table, key(1), before_wrap + turn / 3, 2000), 1000);
    EXPECT_EQ(admitted_at_once(table, key(1), before_wrap + turn - 3 * kSecond, 2000), 1000);
  }
}

// ---- Eviction ----

TEST(RateTableTest, ReplacesTheKeyThatRecoveredLongestAgo) {
  RateTable table(Gcra(1, kSecond, 2), 8);
  for (uint64_t tag = 1; tag <= 8; ++tag) table.check(key(tag), kStart + tag * kSecond);
  const uint64_t now = kStart + kHour;
  EXPECT_EQ(admitted_at_once(table, key(2), now, 3), 2);  // The second oldest is in use again.
  for (uint64_t tag = 11; tag <= 17; ++tag) EXPECT_FALSE(table.check(key(tag), now).evicted);
  EXPECT_FALSE(table.check(key(2), now).admitted);
}

TEST(RateTableTest, FloodDoesNotFreeALimitedKey) {
  RateTable table(Gcra(10, kSecond, 20), 1024);
  std::mt19937_64 random(1);
  const uint64_t limited = random();
  uint64_t evicted = 0, refused = 0, now = kStart;
  EXPECT_EQ(admitted_at_once(table, limited, now, 100), 20);
  int admitted = 0;
  for (int i = 0; i < 1'000'000; ++i) {  // 1,000,000 sources in 10 s, and the limited one goes on.
    now += 10'000;
    const RateVerdict stranger = table.check(random(), now);
    refused += !stranger.admitted;
    evicted += stranger.evicted;
    if (i % 10 == 0) admitted += table.check(limited, now).admitted;
  }
  EXPECT_LE(admitted, 101);
  EXPECT_GE(admitted, 98);
  EXPECT_EQ(refused, 0u);
  EXPECT_GT(evicted, 900'000u);  // The table is too small for this, and says so.
}

TEST(RateTableTest, CountsNoEvictionOfKeysThatHaveRecovered) {
  RateTable table(Gcra(1000, kSecond, 1), 1024);
  std::mt19937_64 random(1);
  uint64_t now = kStart, evicted = 0;
  for (int i = 0; i < 100'000; ++i) evicted += table.check(random(), now += 2'000'000).evicted;
  EXPECT_EQ(evicted, 0u);
}

TEST(RateTableTest, HasAFixedSize) {
  const Gcra gcra(1, kSecond, 1);
  EXPECT_EQ(RateTable(gcra, 65536).bytes(), 512u * 1024);
  EXPECT_EQ(RateTable(gcra, 65537).bytes(), 1024u * 1024);
  EXPECT_EQ(RateTable(gcra, 1).bytes(), 64u);
}

// ---- Threads ----

TEST(RateTableTest, ThreadsShareTheLimitOfAKey) {
  RateTable table(Gcra(1, kHour, 10'000), 64);
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { admitted += admitted_at_once(table, key(1), kStart, 5'000); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, 10'000);
}

// Keys come and go in one bucket while one of them is limited.
TEST(RateTableTest, ThreadsReplaceKeys) {
  RateTable table(Gcra(1, kHour, 1'000), 8);
  std::atomic<int> limited{0}, strangers{0};
  std::vector<std::thread> threads;
  EXPECT_EQ(admitted_at_once(table, key(1), kStart, 500), 500);
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t n = 0; n < 2'000; ++n) {
        limited += table.check(key(1), kStart).admitted;
        strangers += table.check(key(2 + n * 4 + i), kStart).admitted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(limited, 500);
  EXPECT_EQ(strangers, 8'000);
}

}  // namespace
}  // namespace sluice
