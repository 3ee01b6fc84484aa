#include "sluice/view.h"

#include <gtest/gtest.h>

#include <utility>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class ViewTest : public test::PoolTest {};
using ViewDeathTest = ViewTest;

TEST_F(ViewTest, IsAWindowOntoAChunk) {
  Lease lease = lease_of("hello world");
  const std::byte* data = lease.data();
  const View view = std::move(lease).freeze();
  EXPECT_EQ(view.size(), 11u);
  EXPECT_FALSE(view.empty());
  EXPECT_EQ(view.data(), data);
  EXPECT_EQ(text_of(view), "hello world");
}

TEST_F(ViewTest, PartOfAChunk) {
  View all(ChunkRef::take(pool_.get(64)), 0, 64), part = all.clone();
  part.trim_front(10);
  part.truncate(5);
  const View nothing(ChunkRef::take(pool_.get(64)), 64, 0);
  EXPECT_EQ(part.data(), all.data() + 10);
  EXPECT_EQ(part.size(), 5u);
  EXPECT_TRUE(nothing.empty());
}

TEST_F(ViewTest, EmptyHasNoData) {
  View view;
  EXPECT_TRUE(view.empty());
  EXPECT_EQ(view.data(), nullptr);
  EXPECT_TRUE(view.bytes().empty());
  EXPECT_TRUE(view.clone().empty());
}

TEST_F(ViewTest, TrimsAtBothEnds) {
  View view = view_of("hello world");
  view.trim_front(0);
  view.trim_front(6);
  EXPECT_EQ(text_of(view), "world");
  view.truncate(5);
  view.truncate(3);
  EXPECT_EQ(text_of(view), "wor");
  view.trim_front(3);
  EXPECT_TRUE(view.empty());
  EXPECT_EQ(view.data(), nullptr);
}

TEST_F(ViewTest, ClonesOverlap) {
  View view = view_of("hello world");
  View clone = view.clone();
  EXPECT_EQ(clone.data(), view.data());
  clone.trim_front(6);
  EXPECT_EQ(text_of(clone), "world");
  EXPECT_EQ(text_of(view), "hello world");
  view = View();
  EXPECT_EQ(text_of(clone), "world");  // Keeps the chunk alive.
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(ViewTest, MovedFromIsEmpty) {
  View view = view_of("hello");
  View other = std::move(view);
  EXPECT_TRUE(view.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(view.data(), nullptr);
  EXPECT_EQ(text_of(other), "hello");
  view = std::move(other);
  EXPECT_EQ(text_of(view), "hello");
  view = view_of("other");  // The old chunk returns to its pool.
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(ViewDeathTest, EnforcesItsPreconditions) {
  View view = view_of("hello");
  EXPECT_DEATH(view.trim_front(6), "check failed");
  EXPECT_DEATH(view.truncate(6), "check failed");
}

}  // namespace
}  // namespace sluice
