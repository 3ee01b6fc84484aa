// append_packed copies small windows together, and moves larger ones.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;
using test::windows_of;
using Windows = std::vector<std::string>;

class AppendPackedTest : public test::PoolTest {};

TEST_F(AppendPackedTest, SmallWindowIsCopiedIntoTheTail) {
  Buffer buffer = buffer_of("hello", 20);
  View view = view_of(" world");
  buffer.append_packed(pool_, std::move(view));
  EXPECT_EQ(windows_of(buffer), Windows{"hello world"});
  EXPECT_TRUE(view.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(copied(), 6u);
  EXPECT_EQ(pool_.leaked(), 1u) << "the view's chunk went home";
}

TEST_F(AppendPackedTest, BoundaryIsPackBytes) {
  for (const bool packed : {true, false}) {
    Buffer buffer = buffer_of("x", 1000);
    const std::string text(Buffer::kPackBytes + (packed ? 0 : 1), 'y');
    View view = view_of(text);
    const std::byte* data = view.data();
    buffer.append_packed(pool_, std::move(view));
    EXPECT_EQ(text_of(buffer), "x" + text);
    EXPECT_EQ(buffer.window_count(), packed ? 1u : 2u);
    EXPECT_EQ(buffer.window(buffer.window_count() - 1).data() == data, !packed);
  }
  EXPECT_EQ(copied(), Buffer::kPackBytes);
}

TEST_F(AppendPackedTest, ManySmallPiecesOfLargeChunksPinLittle) {
  Buffer buffer;
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    const std::string text(10, static_cast<char>('0' + i % 10));
    View view = lease_of(text, 16000).freeze();
    buffer.append_packed(pool_, std::move(view));
    expected += text;
  }
  EXPECT_EQ(text_of(buffer), expected);
  EXPECT_LE(buffer.pinned_bytes(), 2 * expected.size() + 256);
}

TEST_F(AppendPackedTest, EachWindowOfABuffer) {
  const std::string large(Buffer::kPackBytes + 1, 'l');
  Buffer from = buffer_of("a");
  View view = view_of(large);
  const std::byte* data = view.data();
  from.append(std::move(view));
  from.append(view_of("b"));
  from.append(view_of("c"));
  Buffer buffer = buffer_of("x", 20);
  buffer.append_packed(pool_, std::move(from));
  EXPECT_EQ(windows_of(buffer), (Windows{"xa", large + "bc"}));
  EXPECT_EQ(buffer.window(1).data(), data);
  EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(copied(), 3u);
}

// Defect: a small window that continues the last one was copied although it could be merged with it.
TEST_F(AppendPackedTest, WindowThatContinuesTheLastIsMerged) {
  View first = view_of("hello world"), second = first.clone();
  const View other = first.clone();
  first.truncate(5);
  second.trim_front(5);
  Buffer buffer;
  buffer.append(std::move(first));
  buffer.append_packed(pool_, std::move(second));
  EXPECT_EQ(windows_of(buffer), Windows{"hello world"});
  EXPECT_EQ(copied(), 0u);
  EXPECT_EQ(buffer.window(0).data(), other.data());

  Buffer from = buffer_of("abcdef");
  Buffer leases = from.split_front(3);
  leases.append_packed(pool_, std::move(from));
  EXPECT_EQ(windows_of(leases), Windows{"abcdef"});
  EXPECT_TRUE(test::overwrite(leases, 0, 'x'));
  EXPECT_EQ(copied(), 0u);
  EXPECT_EQ(pool_.leaked(), 2u);
}

TEST_F(AppendPackedTest, WithoutBudgetTheWindowIsMoved) {
  ChunkPool small({.budget_bytes = 64});
  ChunkPool::Use use(&small);
  View view = test::filled(Lease::allocate(small, 64), "hello").freeze();
  const std::byte* data = view.data();
  Buffer buffer;
  buffer.append_packed(small, std::move(view));
  EXPECT_EQ(text_of(buffer), "hello");
  EXPECT_EQ(buffer.window(0).data(), data);
  EXPECT_EQ(copied(), 0u);
}

TEST_F(AppendPackedTest, EmptyWindowIsDropped) {
  Buffer buffer;
  View view = lease_of("x").freeze();
  view.truncate(0);
  buffer.append_packed(pool_, std::move(view));
  buffer.append_packed(pool_, View());
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(AppendPackedTest, OtherHoldersKeepTheirBytes) {
  View view = view_of("hello");
  const View other = view.clone();
  Buffer buffer = buffer_of("x", 20);
  buffer.append_packed(pool_, std::move(view));
  EXPECT_TRUE(test::overwrite(buffer, 0, 'z'));
  EXPECT_EQ(text_of(other), "hello");
}

using AppendPackedDeathTest = AppendPackedTest;

TEST_F(AppendPackedDeathTest, NotToItself) {
  Buffer buffer = buffer_of("hello");
  EXPECT_DEATH(buffer.append_packed(pool_, std::move(buffer)), "check failed");
}

}  // namespace
}  // namespace sluice
