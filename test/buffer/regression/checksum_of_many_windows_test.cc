// Defect: Buffer::checksum added up the sums of its windows in 32 bits, so that the carries of a buffer with more than
// 65,537 windows were lost.

#include <gtest/gtest.h>

#include <utility>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class ChecksumOfManyWindows : public test::PoolTest {};

TEST_F(ChecksumOfManyWindows, KeepsEveryCarry) {
  View ones = view_of("\xff\xff");  // Its sum is ffff, which in one's complement is zero.
  Buffer buffer;
  for (int i = 0; i < 70'000; ++i) buffer.append(ones.clone());
  ASSERT_EQ(buffer.window_count(), 70'000u);
  EXPECT_EQ(buffer.checksum(), 0xffffu);
  buffer.append(view_of(std::string_view("\0\1", 2)));
  EXPECT_EQ(buffer.checksum(), 1u);
}

}  // namespace
}  // namespace sluice
