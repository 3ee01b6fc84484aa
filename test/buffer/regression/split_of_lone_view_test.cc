// Defect: a view that was the only one of its chunk was writable, but when it was split, neither side was, although
// nothing else could see their bytes: split_front promises that a window stays as writable as it was.

#include <gtest/gtest.h>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class SplitOfLoneView : public test::PoolTest {};

TEST_F(SplitOfLoneView, BothSidesStayWritable) {
  Buffer back = buffer_of("hello world");
  back.clone().clear();
  ASSERT_FALSE(back.writable_window(0).empty());
  Buffer front = back.split_front(5);
  EXPECT_TRUE(test::overwrite(front, 0, 'f'));
  EXPECT_TRUE(test::overwrite(back, 0, 'b'));
  EXPECT_EQ(test::text_of(front), "fffff");
  EXPECT_EQ(test::text_of(back), "bbbbbb");
}

TEST_F(SplitOfLoneView, SharedBytesStayReadOnly) {
  Buffer back = buffer_of("hello world");
  const Buffer clone = back.clone();
  Buffer front = back.split_front(5);
  EXPECT_FALSE(test::overwrite(front, 0, 'f'));
  EXPECT_FALSE(test::overwrite(back, 0, 'b'));
  EXPECT_EQ(test::text_of(clone), "hello world");
}

}  // namespace
}  // namespace sluice
