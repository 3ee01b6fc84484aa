// Defect: Buffer::fetch at an offset after the first window, of bytes in several windows, copied them from the offset
// within that window instead of within the buffer.

#include <gtest/gtest.h>

#include <array>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class FetchBehindWindows : public test::PoolTest {};

TEST_F(FetchBehindWindows, CopiesFromTheOffset) {
  const Buffer buffer = in_windows({"abc", "def", "ghi"});
  std::array<std::byte, 9> scratch;
  EXPECT_EQ(test::text_of(buffer.fetch(4, 4, scratch)), "efgh");
  EXPECT_EQ(test::text_of(buffer.fetch(2, 7, scratch)), "cdefghi");
}

}  // namespace
}  // namespace sluice
