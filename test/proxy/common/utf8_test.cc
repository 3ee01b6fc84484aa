#include "proxy/common/utf8.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Utf8, BeginningsEndBetweenCharacters) {
  EXPECT_EQ(utf8_beginning("abc", 3), "abc");
  EXPECT_EQ(utf8_beginning("abc", 2), "ab");
  EXPECT_EQ(utf8_beginning("abc", 0), "");
  EXPECT_EQ(utf8_beginning("a\u20acb", 4), "a\u20ac");
  EXPECT_EQ(utf8_beginning("a\u20acb", 3), "a");
  EXPECT_EQ(utf8_beginning("a\u20acb", 2), "a");
  // No character is as long as that: it is cut somewhere.
  EXPECT_EQ(utf8_beginning("\x80\x80\x80\x80\x80\x80", 5).size(), 2u);
}

}  // namespace
}  // namespace sluice
