#include "proxy/http/h2/field_rules.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

namespace sluice {
namespace {

constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";  // RFC 9110 section 5.6.2.

bool is_small(unsigned char c) { return c >= 'a' && c <= 'z'; }
bool is_capital(unsigned char c) { return c >= 'A' && c <= 'Z'; }
bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
bool is_mark(unsigned char c) { return c != 0 && kMarks.find(static_cast<char>(c)) != std::string_view::npos; }

// Every character at every position of texts of all sizes that are checked by eight bytes, by one, or both.
void expect(bool (*rule)(std::string_view), const std::function<bool(unsigned char, bool edge)>& allowed) {
  for (size_t size = 1; size <= 25; ++size) {
    std::string text(size, 'a');
    ASSERT_TRUE(rule(text));
    for (size_t at = 0; at < size; ++at) {
      for (int c = 0; c < 256; ++c) {
        text[at] = static_cast<char>(c);
        const bool edge = at == 0 || at + 1 == size;
        ASSERT_EQ(rule(text), allowed(static_cast<unsigned char>(c), edge)) << size << " at " << at << ": " << c;
      }
      text[at] = 'a';
    }
  }
}

TEST(FieldRules, Tokens) {
  expect(http2::is_token,
         [](unsigned char c, bool) { return is_small(c) || is_capital(c) || is_digit(c) || is_mark(c); });
  EXPECT_FALSE(http2::is_token(""));
}

TEST(FieldRules, NamesHaveNoCapitals) {
  expect(http2::is_field_name, [](unsigned char c, bool) { return is_small(c) || is_digit(c) || is_mark(c); });
  EXPECT_FALSE(http2::is_field_name(""));
  EXPECT_TRUE(http2::is_field_name("x-forwarded-for"));
  EXPECT_TRUE(http2::is_field_name("sec_ch_ua_platform1"));
}

TEST(FieldRules, ValuesHaveNoControlsAndNoBlanksAtTheirEnds) {
  expect(http2::is_field_value, [](unsigned char c, bool edge) {
    if (c == ' ' || c == '\t') return !edge;
    return c >= 0x20 && c != 0x7f;
  });
  EXPECT_TRUE(http2::is_field_value(""));
}

TEST(FieldRules, PathsAreVisibleAscii) {
  expect(http2::is_path, [](unsigned char c, bool) { return c > 0x20 && c < 0x7f && c != '#'; });
  EXPECT_FALSE(http2::is_path(""));
}

TEST(FieldRules, OfOneConnection) {
  for (const std::string_view name : {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}) {
    EXPECT_TRUE(http2::is_connection_specific(name)) << name;
  }
  for (const std::string_view name : {"", "te", "upgrades", "connectiom", "user-agent", "via"}) {
    EXPECT_FALSE(http2::is_connection_specific(name)) << name;
  }
}

}  // namespace
}  // namespace sluice
