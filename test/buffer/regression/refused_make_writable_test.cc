// Defect: if the budget was exhausted in the middle of its range, Buffer::make_writable left the earlier windows as
// copies, which used up the budget, although it promises that nothing changes.

#include <gtest/gtest.h>

#include <utility>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class RefusedMakeWritable : public test::PoolTest {
 protected:
  RefusedMakeWritable() : PoolTest(3 * 64 + 256 + 64) {}
};

TEST_F(RefusedMakeWritable, ChangesNothing) {
  Buffer buffer = in_windows({"abc", "def", "ghi"});
  const Buffer clone = buffer.clone();
  pool_.take_remote_frees();
  const size_t out = pool_.out_bytes();
  Buffer filler;
  while (pool_.headroom_bytes() > 2 * 64) filler.append(lease_of("x"));  // Room for two copies of three.
  const size_t before = pool_.out_bytes();
  EXPECT_GT(before, out);
  EXPECT_FALSE(buffer.make_writable(pool_, 0, 9));
  EXPECT_EQ(pool_.out_bytes(), before);
  ASSERT_EQ(buffer.window_count(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(buffer.window(i).data(), clone.window(i).data());
  EXPECT_TRUE(buffer.make_writable(pool_, 0, 6));
}

}  // namespace
}  // namespace sluice
