// Write access: exclusivity is per byte range, the chunk's reference count is lifetime only.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::overwrite;
using test::text_of;

class ExclusivityTest : public test::PoolTest {
 protected:
  bool append_zeros(Buffer& buffer, size_t count) { return append_copy(buffer, std::string(count, '\0')); }
};
using ExclusivityDeathTest = ExclusivityTest;

TEST_F(ExclusivityTest, LeaseIsWritableThoughItsChunkIsShared) {
  Lease front = lease_of("hello world");
  const Lease back = front.split_off(6);
  Buffer buffer;
  buffer.append(std::move(front));
  EXPECT_TRUE(overwrite(buffer, 0, 'x'));
  EXPECT_EQ(text_of(buffer), "xxxxxx");
  EXPECT_EQ(text_of(back), "world");
}

TEST_F(ExclusivityTest, ViewIsReadOnlyWhileItsChunkIsShared) {
  View view = view_of("hello");
  const View other = view.clone();
  Buffer buffer;
  buffer.append(std::move(view));
  EXPECT_FALSE(overwrite(buffer, 0, 'x'));
  EXPECT_EQ(text_of(other), "hello");
}

TEST_F(ExclusivityTest, ExclusiveViewIsWritable) {
  Buffer buffer;
  buffer.append(view_of("hello"));
  EXPECT_TRUE(overwrite(buffer, 0, 'x'));
  EXPECT_EQ(text_of(buffer), "xxxxx");
}

TEST_F(ExclusivityTest, SplitKeepsBothSidesWritable) {
  for (size_t at = 1; at < 11; ++at) {
    Buffer back = buffer_of("hello world");
    Buffer front = back.split_front(at);
    EXPECT_TRUE(overwrite(front, 0, 'f'));
    EXPECT_EQ(text_of(back), std::string("hello world").substr(at));
    EXPECT_TRUE(overwrite(back, 0, 'b'));
    EXPECT_EQ(text_of(front), std::string(at, 'f'));
    EXPECT_EQ(text_of(back), std::string(11 - at, 'b'));
    // In pieces of any size.
    Buffer first = front.split_front(at / 2);
    EXPECT_TRUE(first.empty() || overwrite(first, 0, '1'));
    EXPECT_TRUE(overwrite(front, 0, '2'));
    EXPECT_EQ(text_of(first), std::string(at / 2, '1'));
    EXPECT_EQ(text_of(back), std::string(11 - at, 'b'));
  }
}

TEST_F(ExclusivityTest, CloneMakesBothReadOnly) {
  Buffer buffer = buffer_of("hello");
  Buffer clone = buffer.clone();
  EXPECT_FALSE(overwrite(buffer, 0, 'x'));
  EXPECT_FALSE(overwrite(clone, 0, 'x'));
  Buffer third = clone.clone();
  EXPECT_FALSE(overwrite(third, 0, 'x'));
  EXPECT_EQ(text_of(buffer), "hello");
}

TEST_F(ExclusivityTest, LastHolderCanWriteAgain) {
  Buffer buffer = buffer_of("hello");
  {
    const Buffer clone = buffer.clone();
  }
  EXPECT_TRUE(overwrite(buffer, 0, 'x'));

  Buffer clone = buffer.clone();
  buffer.clear();
  EXPECT_TRUE(overwrite(clone, 0, 'y'));
  EXPECT_EQ(text_of(clone), "yyyyy");

  Buffer second = clone.clone(), third = clone.clone();
  clone.clear();
  EXPECT_FALSE(overwrite(second, 0, 'z'));
  third.trim_front(5);
  EXPECT_TRUE(overwrite(second, 0, 'z'));
}

TEST_F(ExclusivityTest, WindowsAreIndependent) {
  Buffer buffer;
  buffer.append(lease_of("lease"));
  View view = view_of("view");
  const View other = view.clone();
  buffer.append(std::move(view));
  buffer.append(lease_of("lease"));
  EXPECT_TRUE(overwrite(buffer, 0, '0'));
  EXPECT_FALSE(overwrite(buffer, 1, '1'));
  EXPECT_TRUE(overwrite(buffer, 2, '2'));
  EXPECT_EQ(text_of(buffer), "00000view22222");
}

TEST_F(ExclusivityTest, CloneInTheSameBufferIsReadOnly) {
  Buffer buffer = buffer_of("hello");
  buffer.append(buffer.clone());
  ASSERT_EQ(buffer.window_count(), 2u);
  EXPECT_FALSE(overwrite(buffer, 0, 'x'));
  EXPECT_FALSE(overwrite(buffer, 1, 'x'));
  EXPECT_EQ(text_of(buffer), "hellohello");
  buffer.truncate(5);
  EXPECT_TRUE(overwrite(buffer, 0, 'x'));
}

TEST_F(ExclusivityTest, AppendDoesNotWriteAfterAClone) {
  Buffer buffer = buffer_of("hello", 40);
  Buffer clone = buffer.clone();
  ASSERT_TRUE(append_copy(buffer, " world"));
  ASSERT_TRUE(append_copy(clone, " there"));
  EXPECT_EQ(text_of(buffer), "hello world");
  EXPECT_EQ(text_of(clone), "hello there");
}

// The defect of gVisor's bufferv2: after Clone, Truncate of the clone and GrowTo(n, zero) on it, the original reads
// "hello\0\0\0\0\0\0", because GrowTo clears bytes of the chunk without checking who shares it. Each way to grow must
// refuse or use other memory.
TEST_F(ExclusivityTest, GrowToThroughASharedChunkIsNotPossible) {
  Buffer original = buffer_of("hello world", 40);
  Buffer clone = original.clone();
  clone.truncate(5);
  ASSERT_TRUE(append_zeros(clone, 6));
  EXPECT_EQ(text_of(original), "hello world");
  EXPECT_EQ(text_of(clone), std::string("hello\0\0\0\0\0\0", 11));
  EXPECT_EQ(clone.window_count(), 2u);

  // The same with the roles exchanged.
  Buffer second = original.clone();
  original.truncate(5);
  ASSERT_TRUE(append_zeros(original, 6));
  EXPECT_EQ(text_of(second), "hello world");

  // And with a part of a clone.
  Buffer third = second.clone();
  Buffer part = third.split_front(5);
  third.clear();
  ASSERT_TRUE(append_zeros(part, 6));
  EXPECT_EQ(text_of(second), "hello world");
}

TEST_F(ExclusivityDeathTest, GrowToThroughASharedChunkIsNotPossibleWithLeases) {
  Lease lease = lease_of("hello world", 40);
  Lease back = lease.split_off(5);
  EXPECT_EQ(lease.tailroom(), 0u);
  EXPECT_DEATH(lease.grow_back(1), "check failed");
  EXPECT_DEATH(back.grow_front(1), "check failed");
  Buffer buffer;
  buffer.append(std::move(lease));
  ASSERT_TRUE(append_zeros(buffer, 6));
  EXPECT_EQ(text_of(back), " world");
}

TEST_F(ExclusivityTest, GrowthIsPossibleAgainWithoutOtherHolders) {
  Buffer buffer = buffer_of("hello world", 40);
  buffer.clone().clear();
  buffer.truncate(5);
  ASSERT_TRUE(append_copy(buffer, " again"));
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(text_of(buffer), "hello again");
}

}  // namespace
}  // namespace sluice
