// A budget notifies its users when it becomes scarce, and when that is over.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "pool/arena.h"
#include "sluice/budget.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

void note(void* context, bool high) { *static_cast<std::string*>(context) += high ? 'H' : 'l'; }

TEST(BudgetPressure, NotifiesAtTheMarks) {
  Budget budget(100);
  std::string received;
  budget.set_pressure(60, 40, &note, &received);
  ASSERT_TRUE(budget.take(60));
  EXPECT_EQ(received, "");
  ASSERT_TRUE(budget.take(1));
  EXPECT_EQ(received, "H");
  EXPECT_TRUE(budget.pressed());
  ASSERT_TRUE(budget.take(20));
  budget.give_back(41);  // The low mark itself.
  EXPECT_EQ(received, "H") << "once";
  budget.give_back(1);
  EXPECT_EQ(received, "Hl");
  EXPECT_FALSE(budget.pressed());
  ASSERT_TRUE(budget.take(50));
  EXPECT_FALSE(budget.take(50));
  EXPECT_EQ(received, "HlH");
  budget.give_back(89);
  EXPECT_EQ(received, "HlHl");
}

TEST(BudgetPressure, NotifiesAtOnceWhenTheMarkIsExceeded) {
  Budget budget(100);
  ASSERT_TRUE(budget.take(80));
  std::string received;
  budget.set_pressure(60, 40, &note, &received);
  EXPECT_EQ(received, "H");
  budget.set_pressure(90, 40, &note, &received);
  EXPECT_EQ(received, "H");
  budget.set_pressure(0, 0, nullptr, nullptr);
  EXPECT_TRUE(budget.take(20));
  budget.give_back(100);
  EXPECT_EQ(received, "H");
}

TEST(BudgetPressure, OfPools) {
  constexpr size_t kSlab = Arena::kSlabBytes;
  Budget budget(8 * kSlab);
  std::string received;
  budget.set_pressure(4 * kSlab, 3 * kSlab, &note, &received);
  ChunkPool a({.budget_bytes = 8 * kSlab, .shared = &budget}), b({.budget_bytes = 8 * kSlab, .shared = &budget});
  ChunkPool::Use use(&a);
  std::vector<ChunkRef> chunks;
  for (size_t i = 0; i < 3 * kSlab / kMaxChunkBytes; ++i) {
    chunks.push_back(ChunkRef::take((i % 2 ? a : b).get(kMaxChunkBytes)));
  }
  EXPECT_EQ(received, "");
  for (size_t i = 0; i < 3 * kSlab / kMaxChunkBytes; ++i) chunks.push_back(ChunkRef::take(a.get(kMaxChunkBytes)));
  EXPECT_EQ(received, "H") << "neither pool's own budget is near";
  chunks.clear();
  for (ChunkPool* pool : {&a, &b}) pool->trim_all();
  EXPECT_EQ(received, "Hl");
}

// Whatever threads do at the same time: calls are serialized, and the last one has the final state.
TEST(BudgetPressure, OfManyThreads) {
  struct Calls {
    std::atomic<int> under_way = 0;
    std::atomic<bool> wrong = false, high = false;
    std::atomic<uint64_t> count = 0;
    static void note(void* context, bool high) {
      Calls& calls = *static_cast<Calls*>(context);
      if (calls.under_way.fetch_add(1) != 0 || calls.high.exchange(high) == high) calls.wrong = true;
      ++calls.count;
      calls.under_way.fetch_sub(1);
    }
  };
  for (const int count : {2, 3, 8}) {
    Budget budget(100);
    Calls calls;
    budget.set_pressure(50, 50, &Calls::note, &calls);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 3000; ++round) {
          if (budget.take(30)) budget.give_back(30);
        }
        if (budget.take(1)) budget.give_back(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(calls.wrong);
    EXPECT_EQ(budget.used_bytes(), 0u);
    EXPECT_FALSE(budget.pressed());
    EXPECT_FALSE(calls.high);
    EXPECT_EQ(calls.count % 2, 0u);
    ASSERT_TRUE(budget.take(51));
    EXPECT_TRUE(calls.high);
  }
}

TEST(BudgetPressureDeathTest, TheMarksAreInOrder) {
  Budget budget(100);
  EXPECT_DEATH(budget.set_pressure(40, 60, &note, nullptr), "check failed");
}

}  // namespace
}  // namespace sluice
