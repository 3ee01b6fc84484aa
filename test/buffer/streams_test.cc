// Filling a buffer from a reader, and passing its bytes to a writer.

#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;
using test::windows_of;

class StreamsTest : public test::PoolTest {
 protected:
  // Reads `text` in pieces of at most `most` bytes, then returns the end.
  static auto reader(std::string& text, size_t most) {
    return [&text, most](std::span<std::byte> to) -> ssize_t {
      const size_t piece = std::min({to.size(), text.size(), most});
      std::memcpy(to.data(), text.data(), piece);
      text.erase(0, piece);
      return static_cast<ssize_t>(piece);
    };
  }
};
using StreamsDeathTest = StreamsTest;

TEST_F(StreamsTest, ReadsAsMuchAsRequested) {
  for (const size_t count : {0u, 1u, 10u, 70'000u, 200'000u}) {
    std::string source(150'000, 'x'), all = source;
    Buffer buffer = buffer_of("hello ", 20);
    const size_t expected = std::min<size_t>(count, all.size());
    EXPECT_EQ(buffer.append_from(pool_, count, reader(source, 3000)), expected);
    EXPECT_EQ(text_of(buffer), "hello " + all.substr(0, expected));
    EXPECT_EQ(source.size(), all.size() - expected);
  }
  EXPECT_EQ(copied(), 0u) << "the reader writes where the bytes stay";
}

TEST_F(StreamsTest, SmallReadsShareAChunk) {
  std::string source(1000, 'x');
  Buffer buffer;
  EXPECT_EQ(buffer.append_from(pool_, 1000, reader(source, 7)), 1000u);
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(buffer.pinned_bytes(), 1024u);
}

TEST_F(StreamsTest, ErrorEndsIt) {
  Buffer buffer;
  int calls = 0;
  const auto read = [&](std::span<std::byte> to) -> ssize_t {
    if (++calls == 3) return -1;
    to[0] = std::byte{'a'};
    return 1;
  };
  EXPECT_EQ(buffer.append_from(pool_, 10, read), 2u);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(text_of(buffer), "aa");
}

TEST_F(StreamsTest, BudgetEndsIt) {
  ChunkPool small({.budget_bytes = 256});
  ChunkPool::Use use(&small);
  std::string source(1000, 'x');
  Buffer buffer;
  EXPECT_EQ(buffer.append_from(small, 100, reader(source, 1000)), 100u);
  EXPECT_EQ(buffer.append_from(small, 900, reader(source, 1000)), 28u) << "what its tail has";
}

TEST_F(StreamsTest, WritesWindowByWindow) {
  const Buffer buffer = in_windows({"abc", "def", "ghi"});
  for (size_t count = 0; count <= 9; ++count) {
    std::vector<std::string> pieces;
    std::string all;
    const auto write = [&](std::span<const std::byte> piece) -> ssize_t {
      all += pieces.emplace_back(text_of(piece));
      return static_cast<ssize_t>(piece.size());
    };
    EXPECT_EQ(buffer.write_to(count, write), count);
    EXPECT_EQ(all, std::string("abcdefghi").substr(0, count));
    EXPECT_EQ(pieces.size(), (count + 2) / 3);
  }
  EXPECT_EQ(windows_of(buffer), (std::vector<std::string>{"abc", "def", "ghi"}));
}

TEST_F(StreamsTest, ShortWriteEndsIt) {
  const Buffer buffer = in_windows({"abc", "def", "ghi"});
  for (const ssize_t last : {-1, 0, 2}) {
    int calls = 0;
    const auto write = [&](std::span<const std::byte>) -> ssize_t { return ++calls < 2 ? 3 : last; };
    EXPECT_EQ(buffer.write_to(9, write), 3 + static_cast<size_t>(std::max<ssize_t>(last, 0)));
    EXPECT_EQ(calls, 2);
  }
}

TEST_F(StreamsDeathTest, NotMoreThanTheSize) {
  const Buffer buffer = buffer_of("abc");
  EXPECT_DEATH(buffer.write_to(4, [](std::span<const std::byte> piece) { return piece.size(); }), "check failed");
  Buffer to;
  EXPECT_DEATH(to.append_from(pool_, 4, [](std::span<std::byte> room) { return room.size() + 1; }), "check failed");
}

TEST_F(StreamsTest, CapsLengths) {
  Buffer buffer = in_windows({"abc", "def"});
  buffer.cap_length(7);
  EXPECT_EQ(text_of(buffer), "abcdef");
  buffer.cap_length(4);
  EXPECT_EQ(text_of(buffer), "abcd");
  Lease lease = lease_of("hello");
  lease.cap_length(6);
  EXPECT_EQ(lease.size(), 5u);
  lease.cap_length(2);
  View view = std::move(lease).freeze();
  EXPECT_EQ(text_of(view), "he");
  view.cap_length(3);
  EXPECT_EQ(view.size(), 2u);
  view.cap_length(0);
  EXPECT_TRUE(view.empty());
}

}  // namespace
}  // namespace sluice
