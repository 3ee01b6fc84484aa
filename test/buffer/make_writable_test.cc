// Copy on write: exactly the shared bytes are copied, and other holders keep theirs.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
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

class MakeWritableTest : public test::PoolTest {
 protected:
  // Overwrites a range through writable windows. Returns whether all of it was writable.
  static bool overwrite_range(Buffer& buffer, size_t offset, size_t count, char letter) {
    size_t at = 0, written = 0;
    for (size_t i = 0; i < buffer.window_count(); ++i) {
      const size_t size = buffer.window(i).size();
      const size_t begin = std::max(offset, at), end = std::min(offset + count, at + size);
      if (begin < end) {
        const std::span<std::byte> window = buffer.writable_window(i);
        if (window.empty()) return false;
        std::memset(window.data() + (begin - at), letter, end - begin);
        written += end - begin;
      }
      at += size;
    }
    return written == count;
  }
};
using MakeWritableDeathTest = MakeWritableTest;
using WriteAtTest = MakeWritableTest;
using WriteAtDeathTest = MakeWritableTest;
using FillInPlaceTest = MakeWritableTest;
using FillInPlaceDeathTest = MakeWritableTest;

TEST_F(MakeWritableTest, ExclusiveBytesAreNotCopied) {
  Buffer buffer = in_windows({"abc", "def"});
  buffer.append(view_of("ghi"));
  const std::byte* data = buffer.window(1).data();
  ASSERT_TRUE(buffer.make_writable(pool_, 0, 9));
  EXPECT_EQ(copied(), 0u);
  EXPECT_EQ(buffer.window(1).data(), data);
  EXPECT_EQ(windows_of(buffer), (Windows{"abc", "def", "ghi"}));
}

TEST_F(MakeWritableTest, CopiesTheRangeOfASharedWindowAndNoMore) {
  for (size_t offset = 0; offset <= 11; ++offset) {
    for (size_t count = 0; offset + count <= 11; ++count) {
      Buffer buffer = buffer_of("hello world");
      const Buffer clone = buffer.clone();
      const uint64_t before = copied();
      ASSERT_TRUE(buffer.make_writable(pool_, offset, count));
      EXPECT_EQ(copied() - before, count);
      EXPECT_EQ(text_of(buffer), "hello world");
      EXPECT_TRUE(overwrite_range(buffer, offset, count, 'x'));
      EXPECT_EQ(text_of(buffer), std::string("hello world").replace(offset, count, count, 'x'));
      EXPECT_EQ(text_of(clone), "hello world");
    }
  }
}

TEST_F(MakeWritableTest, CopiesOnlySharedWindows) {
  Buffer buffer = in_windows({"abc", "def", "ghi", "jkl"});
  const Buffer clone = buffer.clone(3, 3);
  const std::byte *first = buffer.window(0).data(), *third = buffer.window(2).data();
  ASSERT_TRUE(buffer.make_writable(pool_, 1, 10));
  EXPECT_EQ(copied(), 3u);
  EXPECT_EQ(windows_of(buffer), (Windows{"abc", "def", "ghi", "jkl"}));
  EXPECT_EQ(buffer.window(0).data(), first);
  EXPECT_EQ(buffer.window(2).data(), third);
  EXPECT_TRUE(overwrite_range(buffer, 0, 12, 'x'));
  EXPECT_EQ(text_of(clone), "def");
}

TEST_F(MakeWritableTest, OtherHolderCanWriteAfterwards) {
  Buffer buffer = buffer_of("hello");
  Buffer clone = buffer.clone();
  ASSERT_TRUE(buffer.make_writable(pool_, 0, 5));
  EXPECT_TRUE(overwrite(buffer, 0, 'x'));
  EXPECT_TRUE(overwrite(clone, 0, 'y')) << "nobody else refers to its chunk any more";
  EXPECT_EQ(text_of(buffer), "xxxxx");
  EXPECT_EQ(text_of(clone), "yyyyy");
}

TEST_F(MakeWritableTest, SameBytesTwiceInOneBuffer) {
  for (const size_t count : {5u, 7u, 10u}) {
    Buffer buffer = buffer_of("hello");
    buffer.append(buffer.clone());
    ASSERT_TRUE(buffer.make_writable(pool_, 0, count));
    EXPECT_TRUE(overwrite_range(buffer, 0, count, 'x'));
    EXPECT_EQ(text_of(buffer), std::string("hellohello").replace(0, count, count, 'x'));
  }
}

TEST_F(MakeWritableTest, ReadOnlyMemoryIsCopiedEvenForItsOnlyHolder) {
  Buffer buffer;
  buffer.append(View::adopt("hello world", 11, nullptr));
  EXPECT_TRUE(buffer.writable_window(0).empty());
  ASSERT_TRUE(buffer.make_writable(pool_, 6, 5));
  EXPECT_EQ(copied(), 5u);
  EXPECT_EQ(windows_of(buffer), (Windows{"hello ", "world"}));
  EXPECT_TRUE(buffer.writable_window(0).empty());
  EXPECT_EQ(buffer.writable_window(1).size(), 5u);
}

TEST_F(MakeWritableTest, LargeWindow) {
  const std::string text(3 * kMaxChunkBytes, 'a');
  Buffer buffer;
  buffer.append(View::adopt(text.data(), text.size(), nullptr));
  ASSERT_TRUE(buffer.make_writable(pool_, 1, text.size() - 2));
  EXPECT_TRUE(overwrite_range(buffer, 1, text.size() - 2, 'b'));
  EXPECT_EQ(text_of(buffer), "a" + std::string(text.size() - 2, 'b') + "a");
}

TEST_F(MakeWritableTest, ManyWindows) {
  Buffer buffer;
  for (int i = 0; i < 60; ++i) buffer.append(lease_of("abc"));
  const Buffer clone = buffer.clone(30, 90);
  const std::string before = text_of(buffer);
  ASSERT_TRUE(buffer.make_writable(pool_, 10, 150));
  EXPECT_EQ(copied(), 90u);
  EXPECT_EQ(text_of(buffer), before);
  EXPECT_TRUE(overwrite_range(buffer, 0, 180, 'x'));
  EXPECT_EQ(text_of(clone), before.substr(30, 90));
}

TEST_F(MakeWritableTest, NothingChangesWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 64});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 64), "hello"));
  const Buffer clone = buffer.clone();
  EXPECT_FALSE(buffer.make_writable(small, 1, 3));
  EXPECT_EQ(windows_of(buffer), Windows{"hello"});
  EXPECT_EQ(buffer.window(0).data(), clone.window(0).data());
  EXPECT_TRUE(buffer.make_writable(small, 1, 0)) << "an empty range needs nothing";
}

TEST_F(MakeWritableDeathTest, EnforcesItsPreconditions) {
  Buffer buffer = buffer_of("hello");
  EXPECT_DEATH(static_cast<void>(buffer.make_writable(pool_, 0, 6)), "check failed");
  EXPECT_DEATH(static_cast<void>(buffer.make_writable(pool_, 6, 0)), "check failed");
  EXPECT_DEATH(static_cast<void>(buffer.make_writable(pool_, 2, Buffer::npos)), "check failed");
}

TEST_F(WriteAtTest, Overwrites) {
  const std::string all = "abcdefghij";
  for (size_t offset = 0; offset <= 10; ++offset) {
    for (size_t count = 0; offset + count <= 10; ++count) {
      Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
      const Buffer clone = buffer.clone(2, 5);
      const std::string text = std::string("0123456789").substr(0, count);
      ASSERT_TRUE(buffer.write_at(pool_, offset, std::as_bytes(std::span(text))));
      EXPECT_EQ(text_of(buffer), std::string(all).replace(offset, count, text));
      EXPECT_EQ(text_of(clone), "cdefg");
    }
  }
}

TEST_F(WriteAtTest, InPlaceIfExclusive) {
  Buffer buffer = in_windows({"abc", "def"});
  const std::byte* data = buffer.window(0).data();
  ASSERT_TRUE(buffer.write_at(pool_, 2, std::as_bytes(std::span("XY", 2))));
  EXPECT_EQ(windows_of(buffer), (Windows{"abX", "Yef"}));
  EXPECT_EQ(buffer.window(0).data(), data);
  EXPECT_EQ(copied(), 2u);
}

TEST_F(WriteAtTest, NothingIsWrittenWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 2 * 64});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 64), "abc"));
  buffer.append(test::filled(Lease::allocate(small, 64), "def"));
  const Buffer clone = buffer.clone(3, 3);
  EXPECT_FALSE(buffer.write_at(small, 0, std::as_bytes(std::span("123456", 6))));
  EXPECT_EQ(text_of(buffer), "abcdef");
  EXPECT_TRUE(buffer.write_at(small, 0, std::as_bytes(std::span("123", 3))));
  EXPECT_EQ(text_of(buffer), "123def");
}

TEST_F(WriteAtDeathTest, EnforcesItsPreconditions) {
  Buffer buffer = buffer_of("hello");
  const std::array<std::byte, 6> bytes{};
  EXPECT_DEATH(static_cast<void>(buffer.write_at(pool_, 0, bytes)), "check failed");
  EXPECT_DEATH(static_cast<void>(buffer.write_at(pool_, 6, {})), "check failed");
}

TEST_F(FillInPlaceTest, DescribesARange) {
  Buffer buffer = in_windows({"abc", "def", "ghi"});
  std::array<Buffer::InOut, 3> pieces;
  ASSERT_EQ(buffer.fill_in_place(1, 6, pieces), 3u);
  std::string text;
  for (const Buffer::InOut& piece : pieces) {
    EXPECT_EQ(piece.in, piece.out);
    text += text_of({piece.in, piece.bytes});
    std::memset(piece.out, 'x', piece.bytes);
  }
  EXPECT_EQ(text, "bcdefg");
  EXPECT_EQ(text_of(buffer), "axxxxxxhi");
  ASSERT_EQ(buffer.fill_in_place(4, 1, pieces), 1u);
  EXPECT_EQ(pieces[0].in, buffer.window(1).data() + 1);
  EXPECT_EQ(pieces[0].bytes, 1u);
}

TEST_F(FillInPlaceTest, IsZeroWithMorePiecesThanRoom) {
  Buffer buffer = in_windows({"abc", "def", "ghi"});
  std::array<Buffer::InOut, 2> pieces;
  EXPECT_EQ(buffer.fill_in_place(0, 9, pieces), 0u);
  EXPECT_EQ(buffer.fill_in_place(0, 6, pieces), 2u);
  EXPECT_EQ(buffer.fill_in_place(0, 1, {}), 0u);
  EXPECT_EQ(buffer.fill_in_place(9, 0, pieces), 0u);
}

TEST_F(FillInPlaceTest, IsZeroIfAPartIsShared) {
  Buffer buffer = in_windows({"abc", "def", "ghi"});
  const Buffer clone = buffer.clone(4, 1);
  std::array<Buffer::InOut, 4> pieces;
  EXPECT_EQ(buffer.fill_in_place(2, 2, pieces), 0u);
  EXPECT_EQ(buffer.fill_in_place(0, 3, pieces), 1u);
  ASSERT_TRUE(buffer.make_writable(pool_, 2, 2));
  ASSERT_EQ(buffer.fill_in_place(2, 2, pieces), 2u);
  EXPECT_EQ(buffer.fill_in_place(2, 3, pieces), 0u) << "the byte behind is still shared";
  EXPECT_EQ(text_of(clone), "e");
}

TEST_F(FillInPlaceDeathTest, EnforcesItsPreconditions) {
  Buffer buffer = buffer_of("hello");
  std::array<Buffer::InOut, 4> pieces;
  EXPECT_DEATH(buffer.fill_in_place(0, 6, pieces), "check failed");
  EXPECT_DEATH(buffer.fill_in_place(6, 0, pieces), "check failed");
}

}  // namespace
}  // namespace sluice
