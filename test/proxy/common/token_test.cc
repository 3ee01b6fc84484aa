#include "proxy/common/token.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::http1 {
namespace {

constexpr size_t kLongest = 40;  // Longer than two registers.

// Puts each character at each place of a text of each size, and compares `actual` with `expected`, which is given the
// character.
template <class Actual, class Expected>
void compare_all(Actual actual, Expected expected) {
  for (size_t size = 1; size <= kLongest; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::string text(size, 'a');
      for (int c = 0; c < 256; ++c) {
        text[at] = static_cast<char>(c);
        ASSERT_EQ(actual(text), expected(static_cast<uint8_t>(c)))
            << "character " << c << " at " << at << " of " << size;
      }
    }
  }
}

// RFC 9110 section 5.6.2
TEST(Token, EachCharacterAtEachPlace) {
  compare_all([](std::string_view text) { return is_token(text); },
              [](uint8_t c) {
                return c < 0x80 && (isalnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) !=
                                                      std::string_view::npos);
              });
  EXPECT_FALSE(is_token(""));
}

// RFC 9110 section 5.5
TEST(FieldText, EachCharacterAtEachPlace) {
  compare_all([](std::string_view text) { return is_field_text(text); },
              [](uint8_t c) { return c == '\t' || (c >= ' ' && c != 0x7f); });
  EXPECT_TRUE(is_field_text(""));
}

}  // namespace
}  // namespace sluice::http1
