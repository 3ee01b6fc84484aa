// Defect: ChunkRef's move assignment dropped the reference when it was assigned to itself, and kept the pointer.

#include <gtest/gtest.h>

#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

template <typename T>
void assign_to_itself(T& value) {
  T& same = value;
  value = std::move(same);
}

TEST(Regression, SelfMoveKeepsTheReference) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  ChunkRef chunk = ChunkRef::take(pool.get(64));
  assign_to_itself(chunk);
  EXPECT_TRUE(chunk);
  EXPECT_EQ(pool.leaked(), 1u);

  Lease lease = Lease::allocate(pool, 64);
  lease.grow_back(10);
  assign_to_itself(lease);
  EXPECT_EQ(lease.size(), 10u);
  EXPECT_EQ(pool.leaked(), 2u);
  View view = std::move(lease).freeze();
  assign_to_itself(view);
  EXPECT_EQ(view.size(), 10u);
  EXPECT_EQ(pool.leaked(), 2u);
}

}  // namespace
}  // namespace sluice
