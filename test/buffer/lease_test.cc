#include "sluice/lease.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::filled;
using test::text_of;

class LeaseTest : public test::PoolTest {};
using LeaseDeathTest = LeaseTest;

TEST_F(LeaseTest, AllocatedIsEmptyWithRoom) {
  Lease lease = Lease::allocate(pool_, 100);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(lease.empty());
  EXPECT_EQ(lease.headroom(), 0u);
  EXPECT_EQ(lease.tailroom(), 128u);
  EXPECT_TRUE(lease.bytes().empty());
}

TEST_F(LeaseTest, AllocatesWithHeadroom) {
  Lease lease = filled(Lease::allocate(pool_, 59, 5), "world");
  EXPECT_EQ(lease.headroom(), 5u);
  EXPECT_EQ(lease.tailroom(), 64u - 10u);
  lease.grow_front(5);
  std::memcpy(lease.data(), "hello", 5);
  EXPECT_EQ(text_of(lease), "helloworld");
  EXPECT_EQ(lease.headroom(), 0u);
}

TEST_F(LeaseTest, IsFalseWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 64});
  const Lease lease = Lease::allocate(small, 65, 5);
  EXPECT_FALSE(lease);
  EXPECT_TRUE(lease.empty());
  EXPECT_EQ(lease.data(), nullptr);
  EXPECT_EQ(lease.headroom(), 0u);
  EXPECT_EQ(lease.tailroom(), 0u);
  EXPECT_TRUE(Lease::allocate(small, 59, 5));
}

TEST_F(LeaseTest, GrowsToTheChunksEnds) {
  Lease lease = Lease::allocate(pool_, 60, 4);
  lease.grow_back(60);
  lease.grow_front(4);
  EXPECT_EQ(lease.size(), 64u);
  EXPECT_EQ(lease.headroom(), 0u);
  EXPECT_EQ(lease.tailroom(), 0u);
  std::memset(lease.data(), 1, 64);
}

TEST_F(LeaseTest, TrimsAndGrowsBack) {
  Lease lease = lease_of("hello world");
  lease.trim_front(6);
  EXPECT_EQ(text_of(lease), "world");
  EXPECT_EQ(lease.headroom(), 6u);
  lease.truncate(1);
  EXPECT_EQ(text_of(lease), "w");
  EXPECT_EQ(lease.tailroom(), 64u - 7u);
  lease.grow_front(6);
  lease.grow_back(4);
  EXPECT_EQ(text_of(lease), "hello world");
}

TEST_F(LeaseTest, SplitLeavesBothWritable) {
  Lease front = lease_of("hello world");
  Lease back = front.split_off(6);
  EXPECT_EQ(text_of(front), "hello ");
  EXPECT_EQ(text_of(back), "world");
  std::memset(front.data(), 'a', front.size());
  std::memset(back.data(), 'b', back.size());
  EXPECT_EQ(text_of(front), "aaaaaa");
  EXPECT_EQ(text_of(back), "bbbbb");
}

TEST_F(LeaseTest, SplitsAtItsEnds) {
  Lease lease = lease_of("hello");
  const Lease nothing = lease.split_off(5);
  EXPECT_TRUE(nothing.empty());
  EXPECT_EQ(text_of(lease), "hello");
  const Lease all = lease.split_off(0);
  EXPECT_TRUE(lease.empty());
  EXPECT_EQ(text_of(all), "hello");
}

// A neighbor's bytes begin where a window ends, so there is no room to grow until the neighbor is gone.
TEST_F(LeaseTest, HasNoRoomWhileItsChunkIsShared) {
  Lease front = lease_of("hello world");
  {
    const Lease back = front.split_off(6);
    EXPECT_EQ(front.headroom(), 0u);
    EXPECT_EQ(front.tailroom(), 0u);
    EXPECT_EQ(back.headroom(), 0u);
    EXPECT_EQ(back.tailroom(), 0u);
  }
  EXPECT_EQ(front.tailroom(), 64u - 6u);
  Lease back = front.split_off(2);
  front = Lease();
  EXPECT_EQ(back.headroom(), 2u);
  EXPECT_EQ(back.tailroom(), 64u - 6u);
}

TEST_F(LeaseTest, FreezesIntoAView) {
  Lease lease = lease_of("hello");
  const View view = std::move(lease).freeze();
  EXPECT_TRUE(lease.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_FALSE(lease);
  EXPECT_EQ(lease.tailroom(), 0u);
  EXPECT_EQ(text_of(view), "hello");
}

TEST_F(LeaseTest, MovedFromIsEmpty) {
  Lease lease = lease_of("hello");
  Lease other = std::move(lease);
  EXPECT_FALSE(lease);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_TRUE(lease.empty());
  EXPECT_EQ(lease.data(), nullptr);
  lease = std::move(other);
  EXPECT_EQ(text_of(lease), "hello");
  lease = lease_of("other");
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(LeaseDeathTest, EnforcesItsPreconditions) {
  Lease lease = filled(Lease::allocate(pool_, 59, 5), "hello");
  EXPECT_DEATH(lease.grow_front(6), "check failed");
  EXPECT_DEATH(lease.grow_back(55), "check failed");
  EXPECT_DEATH(lease.trim_front(6), "check failed");
  EXPECT_DEATH(lease.truncate(6), "check failed");
  EXPECT_DEATH(lease.split_off(6), "check failed");
  Lease none;
  EXPECT_DEATH(none.grow_back(1), "check failed");
}

}  // namespace
}  // namespace sluice
