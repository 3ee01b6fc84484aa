// Clones of parts, which share chunks, and deep clones, which do not.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::overwrite;
using test::text_of;
using test::windows_of;
using Windows = std::vector<std::string>;

class CloneTest : public test::PoolTest {};
using CloneDeathTest = CloneTest;

TEST_F(CloneTest, AnyPart) {
  const std::string all = "abcdefghij";
  Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
  for (size_t offset = 0; offset <= 10; ++offset) {
    for (size_t count = 0; offset + count <= 10; ++count) {
      EXPECT_EQ(text_of(buffer.clone(offset, count)), all.substr(offset, count));
    }
  }
  EXPECT_EQ(windows_of(buffer), (Windows{"a", "bcd", "efghi", "j"}));
  EXPECT_EQ(copied(), 0u);
  EXPECT_EQ(pool_.leaked(), 5u) << "four windows and their block";
}

TEST_F(CloneTest, ChainOfAnyLengthKeepsItsShape) {
  std::vector<std::string> texts;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    texts.push_back(std::string(3, letter));
    Buffer buffer = in_windows(texts);
    if (texts.size() % 2 == 0) buffer.prepend(lease_of("first"));
    for (size_t cut = 0; !buffer.empty(); ++cut) {
      SCOPED_TRACE(texts.size() * 1000 + cut);
      const Windows windows = windows_of(buffer);
      const std::string text = text_of(buffer);
      Buffer clone = buffer.clone();
      EXPECT_EQ(windows_of(clone), windows);
      EXPECT_EQ(clone.size(), text.size());
      for (size_t i = 0; i < windows.size(); ++i) {
        EXPECT_FALSE(overwrite(clone, i, '-'));
        EXPECT_FALSE(overwrite(buffer, i, '-'));
      }
      // Both change independently.
      clone.append(lease_of("end"));
      clone.prepend(lease_of("begin"));
      EXPECT_EQ(text_of(clone), "begin" + text + "end");
      EXPECT_EQ(windows_of(buffer), windows);
      clone.clear();
      EXPECT_TRUE(clone.empty());
      for (size_t i = 0; i < windows.size(); ++i) EXPECT_TRUE(overwrite(buffer, i, windows[i][0]));
      buffer.trim_front(windows[0].size());
    }
  }
}

TEST_F(CloneTest, OnlyTouchedWindowsBecomeReadOnly) {
  Buffer buffer = in_windows({"abc", "def", "ghi"});
  const Buffer part = buffer.clone(3, 1);
  EXPECT_EQ(text_of(part), "d");
  EXPECT_TRUE(overwrite(buffer, 0, '0'));
  EXPECT_FALSE(overwrite(buffer, 1, '1'));
  EXPECT_TRUE(overwrite(buffer, 2, '2'));
  EXPECT_EQ(text_of(part), "d");
}

TEST_F(CloneTest, EmptySharesNothing) {
  Buffer buffer = in_windows({"abc", "def"});
  for (size_t offset = 0; offset <= 6; ++offset) EXPECT_TRUE(buffer.clone(offset, 0).empty());
  EXPECT_TRUE(overwrite(buffer, 0, '0'));
  EXPECT_TRUE(overwrite(buffer, 1, '1'));
}

TEST_F(CloneTest, PartKeepsOnlyItsChunks) {
  Buffer buffer = in_windows({"abc", "def", "ghi"});
  const Buffer part = buffer.clone(4, 3);
  buffer.clear();
  EXPECT_EQ(pool_.leaked(), 2u);
  EXPECT_EQ(text_of(part), "efg");
}

TEST_F(CloneTest, PartOfAClone) {
  Buffer buffer = buffer_of("hello world");
  Buffer world = buffer.clone(6, 5);
  const Buffer or_ = world.clone(1, 2);
  buffer.clear();
  world.clear();
  EXPECT_EQ(text_of(or_), "or");
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(CloneTest, ManyWindows) {
  Buffer buffer;
  std::string all;
  for (size_t i = 0; i < 100; ++i) {
    all.append(2, static_cast<char>('a' + i % 26));
    buffer.append(lease_of(all.substr(2 * i)));
  }
  for (const size_t offset : {0u, 1u, 25u, 26u, 27u, 150u, 199u}) {
    Buffer part = buffer.clone(offset, 200 - offset);
    EXPECT_EQ(text_of(part), all.substr(offset));
    EXPECT_EQ(text_of(part.clone(0, part.size() / 2)), all.substr(offset, (200 - offset) / 2));
  }
}

TEST_F(CloneTest, DeepSharesNothing) {
  Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
  std::optional<Buffer> copy = buffer.deep_clone(pool_);
  ASSERT_TRUE(copy);
  EXPECT_EQ(windows_of(*copy), Windows{"abcdefghij"}) << "in one window";
  EXPECT_EQ(copied(), 10u);
  EXPECT_TRUE(overwrite(*copy, 0, 'x'));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(overwrite(buffer, i, 'y'));
  EXPECT_EQ(text_of(*copy), "xxxxxxxxxx");
}

TEST_F(CloneTest, DeepOfEmpty) {
  const std::optional<Buffer> copy = Buffer().deep_clone(pool_);
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->empty());
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(CloneTest, DeepOfMoreThanTheLargestTier) {
  Buffer buffer;
  std::string all;
  for (int i = 0; i < 50; ++i) {
    const std::string text(5000, static_cast<char>('a' + i % 26));
    buffer.append(lease_of(text));
    all += text;
  }
  const std::optional<Buffer> copy = buffer.deep_clone(pool_);
  ASSERT_TRUE(copy);
  EXPECT_EQ(text_of(*copy), all);
  EXPECT_EQ(copy->window_count(), (all.size() + kMaxChunkBytes - 1) / kMaxChunkBytes);
}

TEST_F(CloneTest, DeepFailsWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 2 * kMaxChunkBytes});
  ChunkPool::Use use(&small);
  Buffer buffer = test::heap_buffer_of(std::string(2 * kMaxChunkBytes + 1, 'x'));
  EXPECT_FALSE(buffer.deep_clone(small));
  EXPECT_EQ(small.out_bytes(), 0u);
  buffer.truncate(2 * kMaxChunkBytes);
  EXPECT_TRUE(buffer.deep_clone(small));
}

TEST_F(CloneDeathTest, EnforcesItsPreconditions) {
  Buffer buffer = buffer_of("hello");
  EXPECT_DEATH(buffer.clone(0, 6), "check failed");
  EXPECT_DEATH(buffer.clone(6, 0), "check failed");
  EXPECT_DEATH(buffer.clone(3, Buffer::npos), "check failed");
}

}  // namespace
}  // namespace sluice
