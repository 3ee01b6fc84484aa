// Making a range contiguous.

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

class PullUpTest : public test::PoolTest {};
using PullUpDeathTest = PullUpTest;

TEST_F(PullUpTest, EveryRange) {
  const std::string all = "abcdefghij", window_of_byte = "0111222223";
  for (size_t offset = 0; offset < 10; ++offset) {
    for (size_t count = 1; offset + count <= 10; ++count) {
      Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
      const uint64_t before = copied();
      const std::span<const std::byte> bytes = buffer.pull_up(pool_, offset, count);
      EXPECT_EQ(text_of(bytes), all.substr(offset, count));
      EXPECT_EQ(text_of(buffer), all);
      const bool in_place = window_of_byte[offset] == window_of_byte[offset + count - 1];
      EXPECT_EQ(copied() - before, in_place ? 0 : count);
      EXPECT_EQ(buffer.pull_up(pool_, offset, count).data(), bytes.data()) << "it is contiguous now";
    }
  }
}

TEST_F(PullUpTest, OnlyTheRangeMoves) {
  Buffer buffer = in_windows({"abc", "def", "ghi"});
  const std::byte *first = buffer.window(0).data(), *third = buffer.window(2).data();
  buffer.pull_up(pool_, 2, 5);
  EXPECT_EQ(windows_of(buffer), (Windows{"ab", "cdefg", "hi"}));
  EXPECT_EQ(buffer.window(0).data(), first);
  EXPECT_EQ(buffer.window(2).data(), third + 1);
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(buffer.writable_window(i).empty());
}

TEST_F(PullUpTest, ReadingASharedRangeInPlaceCopiesNothing) {
  Buffer buffer = buffer_of("hello world");
  const Buffer clone = buffer.clone();
  EXPECT_EQ(buffer.pull_up(pool_, 6, 5).data(), clone.window(0).data() + 6);
  EXPECT_EQ(copied(), 0u);
}

TEST_F(PullUpTest, OtherHoldersKeepTheirBytes) {
  Buffer buffer = in_windows({"abc", "def"});
  const Buffer clone = buffer.clone();
  buffer.pull_up(pool_, 2, 2);
  EXPECT_EQ(windows_of(clone), (Windows{"abc", "def"}));
  EXPECT_EQ(windows_of(buffer), (Windows{"ab", "cd", "ef"}));
}

TEST_F(PullUpTest, UpToTheLargestTier) {
  Buffer buffer = in_windows({std::string(kMaxChunkBytes, 'a'), std::string(10, 'b')});
  const std::span<const std::byte> bytes = buffer.pull_up(pool_, 1, kMaxChunkBytes);
  EXPECT_EQ(text_of(bytes), std::string(kMaxChunkBytes - 1, 'a') + "b");
  EXPECT_EQ(buffer.window_count(), 3u);
}

TEST_F(PullUpTest, MoreThanTheLargestTier) {
  const std::string all = std::string(kMaxChunkBytes, 'a') + std::string(kMaxChunkBytes, 'b') + "c";
  Buffer buffer = in_windows({all.substr(0, kMaxChunkBytes), all.substr(kMaxChunkBytes, kMaxChunkBytes), "c"});
  const size_t out = pool_.out_bytes();
  const std::span<const std::byte> bytes = buffer.pull_up(pool_, 1, all.size() - 2);
  EXPECT_EQ(text_of(bytes), all.substr(1, all.size() - 2));
  EXPECT_EQ(buffer.window_count(), 3u);
  EXPECT_EQ(text_of(buffer), all);
  EXPECT_TRUE(test::overwrite(buffer, 1, 'x')) << "it is ours alone";
  EXPECT_EQ(pool_.out_bytes(), out - kMaxChunkBytes) << "the heap's, and the ends keep their chunks";
}

TEST_F(PullUpTest, Flattens) {
  Buffer buffer;
  EXPECT_TRUE(buffer.flatten(pool_).empty());
  buffer = in_windows({"abc", "def", "ghi"});
  EXPECT_EQ(text_of(buffer.flatten(pool_)), "abcdefghi");
  EXPECT_EQ(windows_of(buffer), Windows{"abcdefghi"});
  const uint64_t before = copied();
  EXPECT_EQ(text_of(buffer.flatten(pool_)), "abcdefghi");
  EXPECT_EQ(copied(), before);
}

TEST_F(PullUpTest, ManyWindows) {
  std::string all;
  for (size_t i = 0; i < 200; ++i) all.push_back(static_cast<char>('a' + i % 26));
  for (const size_t offset : {0u, 1u, 50u, 100u}) {
    Buffer buffer = test::buffer_of(pool_, all, test::splits_every(2, all.size()));
    EXPECT_EQ(text_of(buffer.pull_up(pool_, offset, 99)), all.substr(offset, 99));
    EXPECT_EQ(text_of(buffer), all);
  }
}

TEST_F(PullUpTest, IsEmptyWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 2 * 64});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 64), "abc"));
  buffer.append(test::filled(Lease::allocate(small, 64), "def"));
  EXPECT_TRUE(buffer.pull_up(small, 2, 2).empty());
  EXPECT_EQ(windows_of(buffer), (Windows{"abc", "def"}));
  EXPECT_EQ(text_of(buffer.pull_up(small, 3, 3)), "def") << "in place needs no budget";
}

TEST_F(PullUpDeathTest, EnforcesItsPreconditions) {
  Buffer buffer = in_windows({std::string(kMaxChunkBytes, 'a'), "b"});
  EXPECT_DEATH(buffer.pull_up(pool_, 0, 0), "check failed");
  EXPECT_DEATH(buffer.pull_up(pool_, kMaxChunkBytes, 2), "check failed");
  EXPECT_DEATH(buffer.pull_up(pool_, 2, Buffer::npos), "check failed");
}

}  // namespace
}  // namespace sluice
