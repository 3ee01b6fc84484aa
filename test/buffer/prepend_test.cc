// Prepending: whole buffers by their windows, bytes by copy into headroom.

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

class PrependTest : public test::PoolTest {
 protected:
  bool prepend_copy(Buffer& buffer, std::string_view text, size_t headroom = 64) {
    return buffer.prepend_copy(pool_, std::as_bytes(std::span(text)), headroom);
  }
  // A buffer on `text` with `headroom` free bytes before it.
  Buffer after_headroom(std::string_view text, size_t headroom) {
    Buffer buffer;
    buffer.append(test::filled(Lease::allocate(pool_, text.size(), headroom), text));
    return buffer;
  }
};
using PrependDeathTest = PrependTest;

TEST_F(PrependTest, TakesABuffer) {
  Buffer buffer = in_windows({"c", "d"}), other = in_windows({"a", "b"});
  buffer.prepend(std::move(other));
  EXPECT_EQ(windows_of(buffer), (Windows{"a", "b", "c", "d"}));
  EXPECT_TRUE(other.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  buffer.prepend(std::move(other));
  EXPECT_EQ(buffer.size(), 4u);
  other.prepend(std::move(buffer));  // To an empty one.
  EXPECT_EQ(windows_of(other), (Windows{"a", "b", "c", "d"}));
  EXPECT_TRUE(buffer.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(copied(), 0u);
}

TEST_F(PrependTest, PrependToItselfChangesNothing) {
  Buffer buffer = in_windows({"a", "b"});
  Buffer& same = buffer;
  buffer.prepend(std::move(same));
  EXPECT_EQ(windows_of(buffer), (Windows{"a", "b"}));
}

TEST_F(PrependTest, SplitWindowIsMergedAgain) {
  for (size_t at = 0; at <= 6; ++at) {
    Buffer buffer = buffer_of("abcdef");
    Buffer front = buffer.split_front(at);
    buffer.prepend(std::move(front));
    EXPECT_EQ(windows_of(buffer), Windows{"abcdef"});
    EXPECT_EQ(buffer.writable_window(0).size(), 6u);
    EXPECT_EQ(buffer.pinned_bytes(), 64u);
  }
}

TEST_F(PrependTest, LongBufferIsInOrder) {
  for (const size_t ours : {0u, 1u, 3u, 4u, 20u}) {
    for (const size_t theirs : {0u, 1u, 3u, 4u, 20u}) {
      Buffer buffer, other;
      for (size_t i = 0; i < ours; ++i) buffer.append(lease_of(std::string(1, static_cast<char>('a' + i))));
      for (size_t i = 0; i < theirs; ++i) other.append(lease_of(std::string(1, static_cast<char>('A' + i))));
      const std::string expected = text_of(other) + text_of(buffer);
      buffer.prepend(std::move(other));
      EXPECT_EQ(text_of(buffer), expected);
      EXPECT_EQ(buffer.window_count(), ours + theirs);
    }
  }
}

TEST_F(PrependTest, CopiesIntoTheHeadroom) {
  Buffer buffer = after_headroom("world", 10);
  const std::byte* world = buffer.window(0).data();
  EXPECT_EQ(buffer.headroom(), 10u);
  ASSERT_TRUE(prepend_copy(buffer, "hello "));
  EXPECT_EQ(windows_of(buffer), Windows{"hello world"});
  EXPECT_EQ(buffer.window(0).data(), world - 6);
  EXPECT_EQ(buffer.headroom(), 4u);
  EXPECT_EQ(pool_.leaked(), 1u);
  EXPECT_EQ(copied(), 6u);
}

TEST_F(PrependTest, RestBeyondTheHeadroomGoesBefore) {
  Buffer buffer = after_headroom("world", 3);
  ASSERT_TRUE(prepend_copy(buffer, "hello ", 20));
  EXPECT_EQ(windows_of(buffer), (Windows{"hel", "lo world"}));
  EXPECT_GE(buffer.headroom(), 20u);
  ASSERT_TRUE(prepend_copy(buffer, "<<<"));
  EXPECT_EQ(windows_of(buffer), (Windows{"<<<hel", "lo world"}));
}

TEST_F(PrependTest, LeavesTheRequestedHeadroom) {
  for (const size_t headroom : {size_t{0}, size_t{1}, size_t{64}, size_t{1000}, kMaxChunkBytes - 1}) {
    for (const size_t size : {size_t{1}, size_t{5}, size_t{64}, size_t{3000}, kMaxChunkBytes, 2 * kMaxChunkBytes}) {
      Buffer buffer;
      std::string text(size, 'x');
      text.back() = 'y';
      ASSERT_TRUE(prepend_copy(buffer, text, headroom));
      EXPECT_EQ(text_of(buffer), text);
      EXPECT_GE(buffer.headroom(), headroom);
    }
  }
}

// The layers of a protocol stack write their headers one before the other, in one chunk.
TEST_F(PrependTest, LayersPrependWithoutAChunkOfTheirOwn) {
  Buffer packet;
  ASSERT_TRUE(prepend_copy(packet, "payload"));
  for (const std::string header : {"stream ", "record ", "segment "}) ASSERT_TRUE(prepend_copy(packet, header));
  EXPECT_EQ(windows_of(packet), Windows{"segment record stream payload"});
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(PrependTest, DoesNotUseTheHeadroomOfASharedChunk) {
  Lease front = lease_of("hello world");
  Lease back = front.split_off(6);
  Buffer buffer;
  buffer.append(std::move(back));
  EXPECT_EQ(buffer.headroom(), 0u);
  ASSERT_TRUE(prepend_copy(buffer, "HELLO "));
  EXPECT_EQ(text_of(front), "hello ");
  EXPECT_EQ(windows_of(buffer), (Windows{"HELLO ", "world"}));
}

TEST_F(PrependTest, FillsTheHeadroomLeftByATrim) {
  Buffer buffer = buffer_of("hello world");
  buffer.trim_front(6);
  ASSERT_TRUE(prepend_copy(buffer, "HELLO "));
  EXPECT_EQ(windows_of(buffer), Windows{"HELLO world"});
}

TEST_F(PrependTest, OwnBytes) {
  Buffer buffer = after_headroom("ab", 3);
  ASSERT_TRUE(buffer.prepend_copy(pool_, buffer.window(0)));
  EXPECT_EQ(text_of(buffer), "abab");
  ASSERT_TRUE(buffer.prepend_copy(pool_, buffer.window(0)));  // Partly into the headroom.
  EXPECT_EQ(text_of(buffer), "abababab");
  EXPECT_EQ(buffer.window_count(), 2u);
}

TEST_F(PrependTest, EmptyTextPrependsNothing) {
  Buffer buffer;
  EXPECT_TRUE(prepend_copy(buffer, ""));
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(PrependTest, AllOrNothingWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 64 + kMaxChunkBytes});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 5, 5), "world"));
  const std::string text(5 + kMaxChunkBytes + 1, 'x');
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_FALSE(buffer.prepend_copy(small, bytes, 0));
  EXPECT_EQ(windows_of(buffer), Windows{"world"});
  EXPECT_EQ(buffer.headroom(), 5u);
  EXPECT_EQ(small.out_bytes(), 64u);
  EXPECT_TRUE(buffer.prepend_copy(small, bytes.first(bytes.size() - 1), 0));
  EXPECT_EQ(text_of(buffer), text.substr(1) + "world");
}

TEST_F(PrependDeathTest, EnforcesItsPreconditions) {
  Buffer buffer;
  EXPECT_DEATH(static_cast<void>(prepend_copy(buffer, "x", kMaxChunkBytes)), "check failed");
}

}  // namespace
}  // namespace sluice
