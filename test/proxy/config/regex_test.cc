#include "proxy/config/model/regex.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice::config {
namespace {

Regex regex(std::string_view text) { return Regex::parse(text).value(); }

TEST(Regex, MatchesTheWholeText) {
  const Regex users = regex("/users/[0-9]+|/me");
  EXPECT_TRUE(users.fits("/users/12"));
  EXPECT_TRUE(users.fits("/me"));
  for (const std::string_view text : {"", "/users/", "/users/12/x", "x/users/12", "/users/12x", "/men"}) {
    EXPECT_FALSE(users.fits(text)) << text;
  }
}

// A dot that does not match a line end, or a byte that is not UTF-8, would let the text after it pass unchecked.
TEST(Regex, MatchesBytes) {
  EXPECT_TRUE(
      regex("a.*b").fits("a\n\xff\xc3\x28"
                         "b"));
  EXPECT_TRUE(
      regex("a.b").fits("a\xff"
                        "b"));
  EXPECT_TRUE(regex("é").fits("é"));
  EXPECT_TRUE(regex("[^a]+").fits("\xff\n"));
}

TEST(Regex, Errors) {
  const auto error = [](std::string_view text) { return std::string(Regex::parse(text).status().message()); };
  EXPECT_EQ(error(""), "expected a regular expression, got \"\"");
  EXPECT_EQ(error("/a(b"), "expected a regular expression, got \"/a(b\": missing ): /a(b");
  EXPECT_EQ(error("ab\\9"), "expected a regular expression, got \"ab\\\\9\": invalid escape sequence: \\9");
  EXPECT_EQ(error("(?=a)"), "expected a regular expression, got \"(?=a)\": invalid perl operator: (?=");
  EXPECT_EQ(error(std::string(1025, 'a')), "a regular expression has 1024 bytes at most, this one 1025");
  EXPECT_NE(error("((((a{100}){100}){100}){100})"), "");
  EXPECT_NE(error(absl::StrCat("(", std::string(900, '.'), "){999}")), "");  // Too large once it is compiled.
}

TEST(Regex, Substitutes) {
  std::array<char, 32> room;
  const auto made = [&](std::string_view pattern, std::string_view text, std::string_view substitution) {
    return std::string(regex(pattern).substitute(text, substitution, room).value_or("no room"));
  };
  EXPECT_EQ(made("/(a+)/(b*)", "/aa/", "/\\2/\\1\\\\/\\0"), "//aa\\//aa/");
  EXPECT_EQ(made("/(a)|/(b)", "/b", "\\1-\\2"), "-b");  // A group that did not participate is empty.
  EXPECT_EQ(made("/a", "/b", "/c"), "/b");
  EXPECT_EQ(made("(.*)", std::string(20, 'x'), "\\1\\1"), "no room");
  EXPECT_EQ(made("(.*)", std::string(16, 'x'), "\\1\\1"), std::string(32, 'x'));
}

TEST(Regex, SubstitutionSyntax) {
  EXPECT_TRUE(regex("(a)(b)").accepts("\\2\\1\\0\\\\").ok());
  EXPECT_FALSE(regex("(a)").accepts("\\2").ok());
  EXPECT_FALSE(regex("(a)").accepts("\\").ok());
  EXPECT_FALSE(regex("(a)").accepts("\\x").ok());
}

TEST(Regex, AllocatesNothingForKnownTexts) {
  const Regex users = regex("/users/([0-9]+)(/[a-z]+)*");
  ASSERT_TRUE(users.fits("/users/123/orders/open"));
  const uint64_t before = test::allocations;
  EXPECT_TRUE(users.fits("/users/123/orders/open"));
  EXPECT_FALSE(users.fits("/users/123/orders/open?"));
  EXPECT_LE(test::allocations - before, 2u);  // A state for the other byte.
  const uint64_t again = test::allocations;
  EXPECT_TRUE(users.fits("/users/456/orders/open"));
  EXPECT_FALSE(users.fits("/users/123/orders/open?"));
  EXPECT_EQ(test::allocations - again, 0u);
}

}  // namespace
}  // namespace sluice::config
