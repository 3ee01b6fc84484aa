// Reading at offsets: as text, in place or into scratch, piece by piece.

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class ReadingTest : public test::PoolTest {
 protected:
  const std::string all_ = "abcdefghij";
  Buffer letters() { return in_windows({"a", "bcd", "efghi", "j"}); }
};
using ReadingDeathTest = ReadingTest;

TEST_F(ReadingTest, ToString) {
  EXPECT_EQ(Buffer().to_string(), "");
  const Buffer buffer = letters();
  EXPECT_EQ(buffer.to_string(), all_);
  EXPECT_EQ(copied(), 10u);
}

TEST_F(ReadingTest, FetchesAtEveryOffset) {
  const Buffer buffer = letters();
  const std::string window_of_byte = "0111222223";
  std::array<std::byte, 10> scratch;
  for (size_t offset = 0; offset <= 10; ++offset) {
    for (size_t count = 0; offset + count <= 10; ++count) {
      const uint64_t before = copied();
      const std::span<const std::byte> bytes = buffer.fetch(offset, count, scratch);
      EXPECT_EQ(text_of(bytes), all_.substr(offset, count));
      const bool in_place = count == 0 || window_of_byte[offset] == window_of_byte[offset + count - 1];
      EXPECT_EQ(copied() - before, in_place ? 0 : count);
      EXPECT_EQ(bytes.data() == scratch.data(), !in_place);
    }
  }
}

// Pieces of up to 40 bytes, around the sizes that are copied by words, and no byte beside them.
TEST_F(ReadingTest, FetchesPiecesOfEveryLength) {
  for (size_t left = 1; left <= 20; ++left) {
    for (size_t right = 1; right <= 20; ++right) {
      std::string text;
      for (size_t i = 0; i < left + right; ++i) text.push_back(static_cast<char>('A' + i));
      const Buffer buffer = in_windows({text.substr(0, left), text.substr(left) + "not this"});
      std::vector<std::byte> scratch(text.size() + 2, std::byte{'-'});
      const uint64_t before = copied();
      EXPECT_EQ(text_of(buffer.fetch(text.size(), std::span(scratch).subspan(1, text.size()))), text);
      EXPECT_EQ(copied() - before, text.size());
      EXPECT_EQ(text_of(scratch), "-" + text + "-");
    }
  }
}

TEST_F(ReadingTest, AppliesToEveryRange) {
  const Buffer buffer = letters();
  for (size_t offset = 0; offset <= 10; ++offset) {
    for (size_t count = 0; offset + count <= 10; ++count) {
      std::string text;
      size_t pieces = 0;
      buffer.apply(offset, count, [&](std::span<const std::byte> piece) {
        EXPECT_FALSE(piece.empty());
        text += text_of(piece);
        ++pieces;
      });
      EXPECT_EQ(text, all_.substr(offset, count));
      EXPECT_LE(pieces, 4u);
    }
  }
  EXPECT_EQ(copied(), 0u);
}

TEST_F(ReadingTest, AppliesToManyWindows) {
  std::string all;
  for (size_t i = 0; i < 200; ++i) all.push_back(static_cast<char>('a' + i % 26));
  const Buffer buffer = test::buffer_of(pool_, all, test::splits_every(3, all.size()));
  for (size_t offset = 0; offset < all.size(); offset += 7) {
    std::string text;
    buffer.apply(offset, all.size() - offset, [&](std::span<const std::byte> piece) { text += text_of(piece); });
    EXPECT_EQ(text, all.substr(offset));
  }
}

TEST_F(ReadingTest, IteratesOverItsWindows) {
  for (const size_t count : {0u, 1u, 3u, 4u, 13u, 14u, 40u}) {
    Buffer buffer;
    std::vector<const std::byte*> expected;
    for (size_t i = 0; i < count; ++i) {
      Lease lease = lease_of("x");
      expected.push_back(lease.data());
      buffer.append(std::move(lease));
    }
    std::vector<const std::byte*> data;
    for (const std::span<const std::byte> window : buffer.windows()) data.push_back(window.data());
    EXPECT_EQ(data, expected);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(buffer.window(i).data(), expected[i]);
    EXPECT_EQ(std::distance(buffer.windows().begin(), buffer.windows().end()), static_cast<ptrdiff_t>(count));
    if (count == 0) continue;
    auto at = buffer.windows().begin();
    EXPECT_EQ((*at++).data(), expected[0]);
    EXPECT_EQ(at == buffer.windows().end(), count == 1);
  }
}

TEST_F(ReadingDeathTest, EnforcesItsPreconditions) {
  const Buffer buffer = letters();
  std::array<std::byte, 20> scratch;
  const auto nothing = [](std::span<const std::byte>) {};
  EXPECT_DEATH(buffer.fetch(0, 11, scratch), "check failed");
  EXPECT_DEATH(buffer.fetch(11, 0, scratch), "check failed");
  EXPECT_DEATH(buffer.fetch(2, Buffer::npos, scratch), "check failed");
  EXPECT_DEATH(buffer.fetch(0, 2, std::span(scratch).first(1)), "check failed");
  EXPECT_DEATH(buffer.apply(0, 11, nothing), "check failed");
  EXPECT_DEATH(buffer.apply(11, 0, nothing), "check failed");
  EXPECT_DEATH(buffer.apply(2, Buffer::npos, nothing), "check failed");
}

}  // namespace
}  // namespace sluice
