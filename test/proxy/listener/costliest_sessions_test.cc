#include "proxy/listener/costliest_sessions.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr size_t kKiB = 1024;

struct FakeSession final : Session {
  FakeSession(size_t holds, uint64_t began_ms, uint64_t moved)
      : bytes(holds), started_ms(began_ms), transferred(moved) {}
  SessionKind kind() const override { return SessionKind::kTcp; }
  bool shut_down() override { return false; }
  ConnectionFacts facts() const override {
    return {.state = ConnectionState::kForwarding, .started_ms = started_ms, .memory_bytes = bytes};
  }
  uint64_t transferred_bytes() const override { return transferred; }
  bool close_for_memory() override { return !std::exchange(closed, true); }

  size_t bytes;
  uint64_t started_ms, transferred;
  bool closed = false;
};

constexpr uint64_t kNow = 10'000;

TEST(CostliestSessionsTest, ClosesTheCostliestFirst) {
  FakeSession fast(1024 * kKiB, 0, 1 << 30), slow(512 * kKiB, 0, 1000), young(512 * kKiB, kNow - 10, 1000);
  CostliestSessions sessions;
  for (FakeSession* const each : {&fast, &slow, &young}) sessions.consider(*each, kNow);
  std::vector<size_t> closed;
  sessions.close(1, [&](size_t bytes) { closed.push_back(bytes); });
  EXPECT_TRUE(slow.closed);
  EXPECT_FALSE(young.closed);
  EXPECT_FALSE(fast.closed) << "it holds more, but is of use";
  EXPECT_EQ(closed, std::vector<size_t>{512 * kKiB});
}

TEST(CostliestSessionsTest, ClosesUntilEnoughIsFree) {
  std::deque<FakeSession> all;
  CostliestSessions sessions;
  for (int i = 0; i < 40; ++i) sessions.consider(all.emplace_back(100 * kKiB, 0, 1000 + i), kNow);
  sessions.close(250 * kKiB, [](size_t) {});
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].closed, i < 3) << i;
}

TEST(CostliestSessionsTest, ClosesABoundedNumber) {
  std::deque<FakeSession> all;
  CostliestSessions sessions;
  for (int i = 0; i < 40; ++i) sessions.consider(all.emplace_back(100 * kKiB, 0, 1000 - i), kNow);
  size_t closed = 0;
  sessions.close(UINT64_MAX, [&](size_t) { ++closed; });
  EXPECT_EQ(closed, CostliestSessions::kMost);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].closed, i >= 40 - CostliestSessions::kMost) << i;
}

TEST(CostliestSessionsTest, LeavesThoseThatHoldLittle) {
  FakeSession small(CostliestSessions::kLeastBytes - 1, 0, 1);
  CostliestSessions sessions;
  sessions.consider(small, kNow);
  sessions.close(UINT64_MAX, [](size_t) {});
  EXPECT_FALSE(small.closed);
}

}  // namespace
}  // namespace sluice
