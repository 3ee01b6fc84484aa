// Pools that lend memory to one another.

#include "sluice/internal/budget_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGuaranteed = 64 * kMiB, kKept = 32 * kMiB, kLent = kGuaranteed - kKept;
constexpr size_t kSlack = 4 * kMiB;

// ---- Shares ----

struct Shares {
  explicit Shares(size_t count, size_t extra = 0) : common(count * kLent + extra) {
    for (size_t i = 0; i < count; ++i) {
      shares.push_back(std::make_unique<BudgetShare>(
          common, BudgetShare::Sizes{.guaranteed = kGuaranteed, .kept = kKept, .most = SIZE_MAX}));
    }
    for (auto& share : shares) share->settle(0);
  }
  BudgetShare& operator[](size_t i) { return *shares[i]; }
  size_t held() const {
    size_t held = 0;
    for (const auto& share : shares) held += share->held_bytes();
    return held;
  }

  Budget common;
  std::vector<std::unique_ptr<BudgetShare>> shares;
};

TEST(BudgetShare, LendsAllButWhatItKeeps) {
  Shares shares(4);
  EXPECT_EQ(shares.held(), 4 * kKept);
  EXPECT_EQ(shares[0].limit_bytes(), kKept + 4 * kLent) << "its own, and the part that three others lend";
  EXPECT_TRUE(shares[0].hold(kKept + 4 * kLent));
  EXPECT_FALSE(shares[0].hold(kKept + 4 * kLent + 1));
  EXPECT_EQ(shares[0].borrowed_bytes(), 3 * kLent);
  EXPECT_EQ(shares.common.borrowed_bytes(), 3 * kLent);
  EXPECT_FALSE(shares[0].claims()) << "it has more than it is guaranteed";
  EXPECT_EQ(shares[1].limit_bytes(), kKept + 4 * kLent) << "as of its last turn";
  shares[1].settle(0);
  EXPECT_EQ(shares[1].limit_bytes(), kGuaranteed) << "guaranteed, though another has it at the moment";
}

TEST(BudgetShare, ReturnsWhatItDoesNotUse) {
  Shares shares(2);
  ASSERT_TRUE(shares[0].hold(kGuaranteed + 20 * kMiB));
  shares[0].settle(kGuaranteed + 20 * kMiB);
  EXPECT_GE(shares[0].held_bytes(), kGuaranteed + 20 * kMiB);
  shares[0].settle(kGuaranteed + 5 * kMiB);
  EXPECT_LE(shares[0].held_bytes(), kGuaranteed + 5 * kMiB + kSlack);
  shares[0].settle(0);
  EXPECT_EQ(shares[0].held_bytes(), kKept);
  EXPECT_EQ(shares.common.used_bytes(), 0u);
  EXPECT_EQ(shares.common.borrowed_bytes(), 0u);
  // Use that goes up and down by less than the slack changes nothing in the budget that all share.
  ASSERT_TRUE(shares[0].hold(kGuaranteed + 10 * kMiB));
  const size_t held = shares[0].held_bytes();
  for (int i = 0; i < 10; ++i) {
    shares[0].settle(kGuaranteed + (i % 2 ? 10 : 8) * kMiB);
    EXPECT_EQ(shares[0].held_bytes(), held);
  }
}

TEST(BudgetShare, TakesItsGuaranteedPartAheadOfUse) {
  Shares shares(2);
  shares[0].settle(20 * kMiB);
  EXPECT_EQ(shares[0].held_bytes(), kKept + 4 * kMiB) << "half of what it keeps is always ahead";
  shares[0].settle(60 * kMiB);
  EXPECT_EQ(shares[0].held_bytes(), kGuaranteed) << "it does not borrow ahead";
}

TEST(BudgetShare, BorrowerPaysForAClaim) {
  Shares shares(2);
  ASSERT_TRUE(shares[0].hold(kKept + 2 * kLent));
  const size_t all = kKept + 2 * kLent;
  shares[0].settle(all);
  EXPECT_EQ(shares[0].limit_bytes(), all);
  EXPECT_FALSE(shares[0].recalled());

  shares[1].settle(20 * kMiB);
  EXPECT_TRUE(shares[1].claims());
  EXPECT_EQ(shares.common.claimed_bytes(), 4 * kMiB);
  shares[0].settle(all);
  EXPECT_TRUE(shares[0].recalled());
  EXPECT_EQ(shares[0].held_bytes(), all) << "it uses it still";
  EXPECT_LT(shares[0].limit_bytes(), all) << "but must not use more";
  EXPECT_GE(shares[0].limit_bytes(), all - 5 * kMiB) << "and gives no more back than is claimed";

  shares[0].settle(all - 3 * kMiB);
  EXPECT_EQ(shares[0].held_bytes(), all - 3 * kMiB) << "it gives back what it frees at once";
  EXPECT_FALSE(shares[0].hold(all)) << "nobody borrows while somebody claims";
  shares[1].settle(20 * kMiB);
  EXPECT_EQ(shares[1].held_bytes(), kKept + 3 * kMiB);
  EXPECT_TRUE(shares[1].claims());
  shares[0].settle(all - 10 * kMiB);
  shares[1].settle(20 * kMiB);
  EXPECT_FALSE(shares[1].claims());
  EXPECT_EQ(shares[1].held_bytes(), kKept + 4 * kMiB);
  shares[0].settle(all - 10 * kMiB);
  EXPECT_FALSE(shares[0].recalled());
  EXPECT_EQ(shares[0].recall_count(), 1u);
  EXPECT_EQ(shares[1].claim_count(), 1u);
}

TEST(BudgetShare, BorrowersPayInProportion) {
  Shares shares(4);
  ASSERT_TRUE(shares[0].hold(kGuaranteed + 48 * kMiB));
  ASSERT_TRUE(shares[1].hold(kGuaranteed + 16 * kMiB));
  shares[2].settle(32 * kMiB);
  EXPECT_TRUE(shares[2].claims());
  EXPECT_EQ(shares.common.claimed_bytes(), 16 * kMiB);
  shares[0].settle(kGuaranteed + 48 * kMiB);
  shares[1].settle(kGuaranteed + 16 * kMiB);
  EXPECT_NEAR(static_cast<double>(kGuaranteed + 48 * kMiB - shares[0].limit_bytes()), 12.0 * kMiB, 1.0 * kMiB);
  EXPECT_NEAR(static_cast<double>(kGuaranteed + 16 * kMiB - shares[1].limit_bytes()), 4.0 * kMiB, 1.0 * kMiB);
}

TEST(BudgetShare, WithdrawsAClaimThatItNoLongerNeeds) {
  Shares shares(2);
  ASSERT_TRUE(shares[0].hold(kKept + 2 * kLent));
  EXPECT_FALSE(shares[1].hold(kKept + kMiB));
  EXPECT_TRUE(shares[1].claims());
  shares[1].settle(0);
  EXPECT_FALSE(shares[1].claims());
  EXPECT_EQ(shares.common.claimed_bytes(), 0u);
}

TEST(BudgetShare, ExtraMemoryIsOnlyBorrowed) {
  Shares shares(1, 10 * kMiB);
  EXPECT_EQ(shares[0].limit_bytes(), kGuaranteed + 10 * kMiB);
  ASSERT_TRUE(shares[0].hold(kGuaranteed + 10 * kMiB));
  EXPECT_EQ(shares[0].borrowed_bytes(), 10 * kMiB);
}

TEST(BudgetShare, LeavesNothingBehind) {
  Budget common(2 * kLent);
  const BudgetShare::Sizes sizes{.guaranteed = kGuaranteed, .kept = kKept, .most = SIZE_MAX};
  {
    BudgetShare a(common, sizes), b(common, sizes);
    ASSERT_TRUE(a.hold(kKept + 2 * kLent));
    EXPECT_FALSE(b.hold(kGuaranteed));
  }
  EXPECT_EQ(common.used_bytes(), 0u);
  EXPECT_EQ(common.borrowed_bytes(), 0u);
  EXPECT_EQ(common.claimed_bytes(), 0u);
}

// ---- Pools ----

ChunkPool::Options pool_options(Budget& common, ChunkPool::Source source = ChunkPool::Source::kArena) {
  return {.budget_bytes = kGuaranteed,
          .reserve_bytes = kGuaranteed / 4,
          .source = source,
          .common = &common,
          .kept_bytes = kKept};
}

class CommonBudget : public testing::TestWithParam<ChunkPool::Source> {};

void take_until_refused(ChunkPool& pool, std::vector<ChunkRef>& chunks) {
  while (Chunk* chunk = pool.get(kMaxChunkBytes)) chunks.push_back(ChunkRef::take(chunk));
}

TEST_P(CommonBudget, OnePoolUsesWhatOthersDoNot) {
  Budget common(4 * kLent);
  ChunkPool a(pool_options(common, GetParam())), b(pool_options(common, GetParam()));
  ChunkPool c(pool_options(common, GetParam())), d(pool_options(common, GetParam()));
  ChunkPool::Use use(&a);
  a.settle();
  const size_t limit = kKept + 4 * kLent;
  EXPECT_EQ(a.budget_bytes(), limit);
  EXPECT_EQ(a.reserve_bytes(), limit / 4) << "the reserve follows";
  std::vector<ChunkRef> chunks;
  take_until_refused(a, chunks);
  EXPECT_EQ(a.out_bytes(), limit - limit / 4);
  EXPECT_EQ(a.headroom_bytes(), 0u);
  while (Chunk* chunk = a.get_reserved(kMaxChunkBytes)) chunks.push_back(ChunkRef::take(chunk));
  EXPECT_EQ(a.out_bytes(), limit);

  ChunkPool::Use other(&b);
  b.settle();
  std::vector<ChunkRef> of_b;
  take_until_refused(b, of_b);
  EXPECT_EQ(b.out_bytes(), kKept) << "which nobody can borrow";
  EXPECT_GT(b.headroom_bytes(), 0u) << "the rest is guaranteed and on its way, so its connections are not to pay";
  EXPECT_TRUE(b.needs_settling());
  of_b.clear();
  ChunkPool::Use back(&a);
  chunks.clear();
  a.settle();
  EXPECT_EQ(common.used_bytes(), 0u) << "of what can be lent";
}

TEST_P(CommonBudget, AClaimIsMetAsTheBorrowerFrees) {
  Budget common(2 * kLent);
  ChunkPool a(pool_options(common, GetParam())), b(pool_options(common, GetParam()));
  std::vector<ChunkRef> of_a, of_b;
  {
    ChunkPool::Use use(&a);
    a.settle();
    while (Chunk* chunk = a.get_reserved(kMaxChunkBytes)) of_a.push_back(ChunkRef::take(chunk));
  }
  int turns = 0;
  while (of_b.size() * kMaxChunkBytes < kGuaranteed / 4 * 3 && turns++ < 10000) {
    {
      ChunkPool::Use use(&b);
      b.settle();
      if (Chunk* chunk = b.get(kMaxChunkBytes)) of_b.push_back(ChunkRef::take(chunk));
      b.settle();
    }
    ChunkPool::Use use(&a);
    a.settle();
    EXPECT_EQ(a.get(kMaxChunkBytes), nullptr) << "the borrower gets nothing while its reserve is in use";
    // It frees as long as it has to, one chunk a turn.
    if (a.recalled_bytes() > 0) of_a.pop_back();
    ASSERT_LE(a.out_bytes() + b.out_bytes(), 2 * kGuaranteed);
    ASSERT_LE(common.used_bytes(), common.bytes());
  }
  EXPECT_EQ(b.out_bytes(), kGuaranteed / 4 * 3);
  EXPECT_EQ(b.stats().refused, 0u) << "a part is always ahead";
  ChunkPool::Use use(&b);
  of_b.clear();
  ChunkPool::Use back(&a);
  of_a.clear();
}

INSTANTIATE_TEST_SUITE_P(Sources, CommonBudget, testing::Values(ChunkPool::Source::kArena, ChunkPool::Source::kHeap));

// ---- Threads ----

// In each round one worker takes all that it gets, then the others want what they are guaranteed while it still wants
// all. They must get it, and the sum of what is used must never be beyond the budget.
class Workers {
 public:
  static constexpr size_t kWorkers = 4, kRounds = 40;
  // What get() hands out of a guaranteed part: not the reserve.
  static constexpr size_t kOpen = kGuaranteed / 4 * 3;

  void run() {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kWorkers; ++i) threads.emplace_back([this, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  }

  Budget common{kWorkers * kLent};
  std::atomic<uint64_t> claims{0}, recalls{0};

 private:
  struct One {
    explicit One(Budget& common) : pool(pool_options(common)), use(&pool) {}
    ChunkPool pool;
    ChunkPool::Use use;
    std::vector<ChunkRef> chunks;
  };

  // Counted once it is taken, and not any more before it is given back: the sum is never too high.
  void turn(One& one, size_t wanted) {
    const size_t before = one.pool.out_bytes();
    for (int i = 0; i < 16 && one.pool.out_bytes() < wanted; ++i) {
      Chunk* const chunk = one.pool.get(kMaxChunkBytes);
      if (chunk == nullptr) break;
      one.chunks.push_back(ChunkRef::take(chunk));
    }
    const size_t taken = one.pool.out_bytes() - before;
    EXPECT_LE(used_.fetch_add(taken) + taken, kWorkers * kGuaranteed);
    free(one, (one.pool.recalled_bytes() + kMaxChunkBytes - 1) / kMaxChunkBytes);
    one.pool.settle();
  }
  void free(One& one, size_t chunks) {
    chunks = std::min(chunks, one.chunks.size());
    used_.fetch_sub(chunks * kMaxChunkBytes);
    one.chunks.resize(one.chunks.size() - chunks);
  }

  void work(size_t index) {
    One one(common);
    for (size_t round = 0; round < kRounds; ++round) {
      const bool greedy = round % kWorkers == index;
      one.pool.settle();
      together_.arrive_and_wait();
      if (greedy) {
        one.pool.settle();
        served_ = 1;
        for (int i = 0; i < 1000; ++i) turn(one, SIZE_MAX);
        EXPECT_GT(one.pool.out_bytes(), kGuaranteed) << "it borrows";
      }
      together_.arrive_and_wait();
      bool served = greedy;
      while (served_ < kWorkers) {
        turn(one, greedy ? SIZE_MAX : kOpen);
        if (!served && one.pool.out_bytes() == kOpen) {
          served = true;
          ++served_;
        }
        std::this_thread::yield();
      }
      together_.arrive_and_wait();
      free(one, one.chunks.size());
    }
    claims += one.pool.share()->claim_count();
    recalls += one.pool.share()->recall_count();
    one.pool.settle();
    EXPECT_EQ(one.pool.leaked(), 0u);
  }

  std::barrier<> together_{kWorkers};
  std::atomic<size_t> served_{0}, used_{0};
};

TEST(CommonBudgetThreads, BoundHoldsAndGuaranteesAreKept) {
  Workers workers;
  workers.run();
  EXPECT_EQ(workers.common.used_bytes(), 0u);
  EXPECT_EQ(workers.common.borrowed_bytes(), 0u);
  EXPECT_EQ(workers.common.claimed_bytes(), 0u);
  EXPECT_GE(workers.claims.load(), Workers::kRounds) << "in each round somebody has to wait";
  EXPECT_GE(workers.recalls.load(), Workers::kRounds);
}

}  // namespace
}  // namespace sluice
