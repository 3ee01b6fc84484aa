// Defect: Buffer::append and prepend took a Lease's or View's chunk but left its size, so that the moved-from object
// was not empty: bytes() returned null with a size, and appending it again put a window without a chunk into a buffer.

#include <gtest/gtest.h>

#include <utility>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class MovedFromWindow : public test::PoolTest {};

TEST_F(MovedFromWindow, IsEmpty) {
  Lease lease = lease_of("a"), other_lease = lease_of("b");
  View view = view_of("c"), other_view = view_of("d");
  Buffer buffer;
  buffer.append(std::move(lease));
  buffer.prepend(std::move(other_lease));
  buffer.append(std::move(view));
  buffer.prepend(std::move(other_view));
  EXPECT_EQ(test::text_of(buffer), "dbac");
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_TRUE(lease.empty());
  EXPECT_TRUE(other_lease.bytes().empty());
  EXPECT_TRUE(view.empty());
  EXPECT_TRUE(other_view.empty());
  buffer.append(std::move(lease));
  buffer.prepend(std::move(other_lease));
  buffer.append(std::move(view));
  buffer.prepend(std::move(other_view));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(buffer.window_count(), 4u);
  EXPECT_EQ(test::text_of(buffer), "dbac");
}

}  // namespace
}  // namespace sluice
