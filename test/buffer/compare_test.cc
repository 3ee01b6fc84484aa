// Order and equality are those of the bytes, wherever the windows are cut.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class CompareTest : public test::PoolTest {};

TEST_F(CompareTest, LikeTheBytes) {
  const std::vector<std::string> texts = {
      "",     "a",    "ab",   "abc",      "abd",     "b", std::string(1, '\0'), std::string(2, '\0'),
      "\x7f", "\x80", "\xff", "abcdefgh", "abcdefgi"};
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      for (const size_t piece_a : {1u, 2u, 3u, 8u}) {
        for (const size_t piece_b : {1u, 2u, 3u, 8u}) {
          const Buffer x = test::buffer_of(pool_, a, test::splits_every(piece_a, a.size()));
          const Buffer y = test::buffer_of(pool_, b, test::splits_every(piece_b, b.size()));
          EXPECT_EQ(x <=> y, a.compare(b) <=> 0) << '"' << a << "\" and \"" << b << '"';
          EXPECT_EQ(x == y, a == b);
          EXPECT_EQ(x != y, a != b);
          EXPECT_EQ(x < y, a < b);
          EXPECT_EQ(x >= y, a >= b);
          EXPECT_EQ(x == std::string_view(b), a == b);
          EXPECT_EQ(b == x, a == b);
        }
      }
    }
  }
  EXPECT_EQ(copied(), 0u);
}

TEST_F(CompareTest, WithItselfAndItsClone) {
  Buffer buffer = in_windows({"abc", "def"});
  const Buffer clone = buffer.clone();
  EXPECT_EQ(buffer <=> buffer, std::strong_ordering::equal);
  EXPECT_TRUE(buffer == clone);
  EXPECT_TRUE(buffer == "abcdef");
  EXPECT_FALSE(buffer == "abcdeg");
  EXPECT_FALSE(buffer == "abcde");
}

}  // namespace
}  // namespace sluice
