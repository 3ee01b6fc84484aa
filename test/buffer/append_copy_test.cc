#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "sluice/copied.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class AppendCopyTest : public test::PoolTest {
 protected:
  static std::string pattern(size_t size) {
    std::string text(size, 0);
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
    return text;
  }
};

TEST_F(AppendCopyTest, TakesAFreshChunkOfTheSmallestTier) {
  Buffer buffer;
  ASSERT_TRUE(append_copy(buffer, pattern(100)));
  EXPECT_EQ(text_of(buffer), pattern(100));
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(buffer.writable_window(0).size(), 100u);
  EXPECT_EQ(pool_.out_bytes(), 128u);
}

TEST_F(AppendCopyTest, EmptyTextAppendsNothing) {
  Buffer buffer;
  EXPECT_TRUE(append_copy(buffer, ""));
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(AppendCopyTest, FillsTheTailFirst) {
  Buffer buffer = buffer_of("hello", 59);
  ASSERT_TRUE(append_copy(buffer, std::string(50, 'a')));
  EXPECT_EQ(buffer.window_count(), 1u);
  ASSERT_TRUE(append_copy(buffer, std::string(20, 'b')));
  EXPECT_EQ(buffer.window_count(), 2u);
  EXPECT_EQ(buffer.window(0).size(), 64u);
  EXPECT_EQ(buffer.window(1).size(), 11u);
  EXPECT_EQ(text_of(buffer), "hello" + std::string(50, 'a') + std::string(20, 'b'));
}

// Defect: each of 64 pieces of 100 bytes had a chunk of 128 bytes and a window of its own.
TEST_F(AppendCopyTest, ManySmallPiecesGetFewChunks) {
  Buffer buffer;
  std::string text;
  for (size_t i = 0; i < 64; ++i) {
    const std::string piece(100, static_cast<char>('A' + i));
    ASSERT_TRUE(append_copy(buffer, piece));
    text += piece;
    EXPECT_LE(pool_.out_bytes(), 2 * text.size() + 128 + 256)
        << "no more is free than is used, but for the first; a block";
  }
  EXPECT_EQ(text_of(buffer), text);
  EXPECT_EQ(buffer.window_count(), 6u) << "128, 256, 512, 1,024, 2,048 and 4,096 bytes";
  EXPECT_EQ(copied(), text.size());
}

TEST_F(AppendCopyTest, FewBytesAfterALargeChunkTakeASmallChunk) {
  Buffer buffer;
  ASSERT_TRUE(append_copy(buffer, pattern(4096)));
  ASSERT_TRUE(append_copy(buffer, "end"));
  EXPECT_EQ(pool_.out_bytes(), 4096u + 64u);
}

TEST_F(AppendCopyTest, FillsTheTailLeftByATruncation) {
  Buffer buffer = buffer_of("hello world");
  buffer.truncate(6);
  ASSERT_TRUE(append_copy(buffer, "there"));
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(text_of(buffer), "hello there");
}

TEST_F(AppendCopyTest, ExclusiveViewHasATail) {
  Buffer buffer;
  buffer.append(view_of("hello"));
  ASSERT_TRUE(append_copy(buffer, " world"));
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(text_of(buffer), "hello world");
  EXPECT_TRUE(test::overwrite(buffer, 0, 'x'));
}

TEST_F(AppendCopyTest, DoesNotUseTheTailOfASharedChunk) {
  Lease front = lease_of("hello world");
  const Lease back = front.split_off(5);
  Buffer buffer;
  buffer.append(std::move(front));
  ASSERT_TRUE(append_copy(buffer, "!"));
  EXPECT_EQ(buffer.window_count(), 2u);
  EXPECT_EQ(text_of(buffer), "hello!");
  EXPECT_EQ(text_of(back), " world");
}

TEST_F(AppendCopyTest, OnlyTheLastWindowsTailCounts) {
  Buffer buffer = buffer_of("a", 60);
  buffer.append(lease_of(std::string(64, 'b')));
  ASSERT_TRUE(append_copy(buffer, "c"));
  EXPECT_EQ(buffer.window_count(), 3u);
  EXPECT_EQ(text_of(buffer), "a" + std::string(64, 'b') + "c");
}

TEST_F(AppendCopyTest, LargeDataBecomesAChain) {
  const std::string text = pattern(3 * kMaxChunkBytes + 100);
  Buffer buffer = buffer_of("");
  ASSERT_TRUE(append_copy(buffer, text));
  EXPECT_EQ(buffer.window_count(), 4u);
  EXPECT_EQ(text_of(buffer), text);
  EXPECT_EQ(pool_.out_bytes(), 3 * kMaxChunkBytes + 128 + 256)
      << "the last piece is small, and there is a block of windows";
}

TEST_F(AppendCopyTest, AllOrNothingWhenTheBudgetIsExhausted) {
  constexpr size_t kBudget = 64 + 3 * kMaxChunkBytes;
  ChunkPool small({.budget_bytes = kBudget});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 64), "hello"));
  const std::string text = pattern(59 + 3 * kMaxChunkBytes + 1);
  const auto bytes = std::as_bytes(std::span(text));

  EXPECT_FALSE(buffer.append_copy(small, bytes));  // One byte too many, after the tail and three chunks.
  EXPECT_EQ(text_of(buffer), "hello");
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(small.out_bytes(), 64u);
  EXPECT_EQ(small.stats().refused, 1u);

  EXPECT_TRUE(buffer.append_copy(small, bytes.first(bytes.size() - 1)));
  EXPECT_EQ(text_of(buffer), "hello" + text.substr(0, text.size() - 1));
  EXPECT_GE(small.out_bytes(), kBudget);

  EXPECT_FALSE(buffer.append_copy(small, bytes.first(1)));
  EXPECT_EQ(buffer.size(), 5 + text.size() - 1);
  EXPECT_TRUE(buffer.append_copy(small, std::span<const std::byte>()));
}

TEST_F(AppendCopyTest, TailNeedsNoBudget) {
  ChunkPool small({.budget_bytes = 64});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 64), "hello"));
  const std::string text(60, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_TRUE(buffer.append_copy(small, bytes.first(59)));
  EXPECT_FALSE(buffer.append_copy(small, bytes.last(1)));
  EXPECT_EQ(text_of(buffer), "hello" + text.substr(0, 59));
}

TEST_F(AppendCopyTest, AppendsItsOwnBytes) {
  // Into the tail of the same window that is read,
  Buffer buffer = buffer_of("hello ", 20);
  ASSERT_TRUE(buffer.append_copy(pool_, buffer.window(0)));
  EXPECT_EQ(text_of(buffer), "hello hello ");
  EXPECT_EQ(buffer.window_count(), 1u);
  // beyond its end,
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(buffer.append_copy(pool_, buffer.window(0)));
  std::string expected = "hello hello ";
  expected += expected;
  expected += expected;
  expected += expected.substr(0, 48);
  EXPECT_EQ(text_of(buffer), expected);
  EXPECT_EQ(buffer.window_count(), 2u);
  // and while the windows move to a block.
  for (int i = 0; i < 4; ++i) {
    const std::string first = text_of(buffer.window(0));
    ASSERT_TRUE(buffer.append_copy(pool_, buffer.window(0)));
    expected += first;
    EXPECT_EQ(text_of(buffer), expected);
  }
}

TEST_F(AppendCopyTest, CountsCopiedBytes) {
  Buffer buffer = buffer_of("hello", 20);
  const uint64_t before = copied_bytes;
  ASSERT_TRUE(append_copy(buffer, pattern(1000)));
  EXPECT_EQ(copied_bytes - before, 1000u);
}

TEST(AppendCopyBeyondBudgetTest, ExceedsTheBudgetInSeveralChunks) {
  ChunkPool none({.budget_bytes = 0});
  ChunkPool::Use use(&none);
  std::string text(2 * kMaxChunkBytes + 5, 'x');
  text.back() = 'y';
  Buffer buffer;
  ASSERT_FALSE(buffer.append_copy(none, "x"));
  buffer.append_copy_beyond_budget(none, text);
  EXPECT_EQ(text_of(buffer), text);
  EXPECT_EQ(buffer.window_count(), 3u);
  buffer.append_copy_beyond_budget(none, "");
  EXPECT_EQ(buffer.size(), text.size());
}

}  // namespace
}  // namespace sluice
