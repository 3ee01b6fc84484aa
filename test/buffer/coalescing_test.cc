// Windows that continue each other in the same chunk are merged.

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class CoalescingTest : public test::PoolTest {};

// Like an incremental ring: slice after slice of one chunk.
TEST_F(CoalescingTest, AppendedSlicesOfOneChunkBecomeOneWindow) {
  Lease rest = lease_of("abcdefghij");
  Buffer buffer;
  for (size_t i = 0; i < 10; ++i) {
    Lease next = rest.split_off(1);
    buffer.append(std::move(rest));
    rest = std::move(next);
  }
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(text_of(buffer), "abcdefghij");
  EXPECT_EQ(buffer.writable_window(0).size(), 10u);
  rest = Lease();
  EXPECT_EQ(buffer.pinned_bytes(), 64u) << "the slices' references are merged too";
}

TEST_F(CoalescingTest, PrependedSlicesOfOneChunkBecomeOneWindow) {
  Lease front = lease_of("abcdefghij");
  Buffer buffer;
  for (size_t left = 10; left > 0; --left) buffer.prepend(front.split_off(left - 1));
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(text_of(buffer), "abcdefghij");
  EXPECT_EQ(buffer.writable_window(0).size(), 10u);
}

TEST_F(CoalescingTest, ViewsMergeWithViews) {
  View view = view_of("abcdef");
  Buffer buffer;
  for (size_t i = 0; i < 3; ++i) {
    View part = view.clone();
    part.trim_front(2 * i);
    part.truncate(2);
    buffer.append(std::move(part));
  }
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(text_of(buffer), "abcdef");
  EXPECT_TRUE(buffer.writable_window(0).empty());
}

TEST_F(CoalescingTest, ViewDoesNotMergeWithALease) {
  for (const bool at_front : {false, true}) {
    Lease front = lease_of("abcdef");
    Lease back = front.split_off(3);
    Buffer buffer;
    if (at_front) {
      buffer.append(std::move(front).freeze());
      buffer.append(std::move(back));
    } else {
      buffer.append(std::move(back));
      buffer.prepend(std::move(front).freeze());
    }
    ASSERT_EQ(buffer.window_count(), 2u);
    EXPECT_EQ(text_of(buffer), "abcdef");
    EXPECT_TRUE(buffer.writable_window(0).empty());
    EXPECT_EQ(buffer.writable_window(1).size(), 3u);
  }
}

TEST_F(CoalescingTest, OnlyContinuationsMerge) {
  Lease a = lease_of("abcdef");
  Lease c = a.split_off(4);
  Lease b = a.split_off(2);
  Buffer buffer;
  buffer.append(std::move(b));
  buffer.append(std::move(a));  // In the wrong order,
  EXPECT_EQ(buffer.window_count(), 2u);
  buffer.append(std::move(c));  // and with a gap.
  EXPECT_EQ(buffer.window_count(), 3u);
  EXPECT_EQ(text_of(buffer), "cdabef");
}

TEST_F(CoalescingTest, NeighborsInDifferentChunksDoNotMerge) {
  // Two chunks that are adjacent in memory.
  Lease a = Lease::allocate(pool_, 64), b = Lease::allocate(pool_, 64);
  ASSERT_EQ(a.data() + 64, b.data());
  a.grow_back(64);
  b.grow_back(64);
  Buffer buffer;
  buffer.append(std::move(a));
  buffer.append(std::move(b));
  EXPECT_EQ(buffer.window_count(), 2u);
}

TEST_F(CoalescingTest, BuffersMergeWhereTheyMeet) {
  Buffer buffer = buffer_of("abcdef");
  Buffer front = buffer.split_front(2);
  Buffer middle = buffer.split_front(2);
  front.append(std::move(middle));
  EXPECT_EQ(front.window_count(), 1u);
  front.append(std::move(buffer));
  EXPECT_EQ(front.window_count(), 1u);
  EXPECT_EQ(text_of(front), "abcdef");
  EXPECT_EQ(front.pinned_bytes(), 64u);
}

}  // namespace
}  // namespace sluice
