// Defect: pinned_bytes did not count the memory for windows, so that a buffer that had once been long, and of which a
// few bytes in a small chunk were left, kept up to 64 KiB for windows and was not compacted.

#include <gtest/gtest.h>

#include <string>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class RingNotPinned : public test::PoolTest {};

TEST_F(RingNotPinned, WindowMemoryIsPinnedAndCompacted) {
  Buffer buffer;
  for (int i = 0; i < 1000; ++i) buffer.append(lease_of("x"));
  buffer.trim_front(999);
  EXPECT_EQ(pool_.out_bytes(), 64 + 256u);
  EXPECT_EQ(buffer.pinned_bytes(), 64 + 256u);
  EXPECT_EQ(buffer.pinned().wasted, 63 + 256u);
  EXPECT_TRUE(buffer.compact(pool_));
  EXPECT_EQ(pool_.out_bytes(), 64u);
  EXPECT_EQ(buffer.pinned_bytes(), 64u);
  EXPECT_EQ(test::text_of(buffer), "x");
}

}  // namespace
}  // namespace sluice
