// Field lines are read as by llhttp: the same are refused, and the others have the same names and values.

#include "proxy/http/h1/field_line.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>

#include "proxy/http/h1/head_reader.h"
#include "test/support/reference_fields.h"

namespace sluice {
namespace {

struct Case {
  std::string_view line, name, value, error = {};
};

constexpr Case kCases[] = {
    {"A: b", "A", "b"},
    {"a:", "a", ""},
    {"a:  \t ", "a", ""},
    {"a: \t b \t c\t ", "a", "b \t c"},
    {"a:b:c", "a", "b:c"},
    {"!#$%&'*+-.^_`|~9Z: x", "!#$%&'*+-.^_`|~9Z", "x"},
    {"a: \x80\xff", "a", "\x80\xff"},
    {" a: b", {}, {}, "a field line that begins with white space"},
    {"\ta: b", {}, {}, "a field line that begins with white space"},
    {" ", {}, {}, "a field line that begins with white space"},
    {"a : b", {}, {}, "white space between a field's name and its colon"},
    {"a\t: b", {}, {}, "white space between a field's name and its colon"},
    {"a b: c", {}, {}, "white space between a field's name and its colon"},
    {"a", {}, {}, "a field line without a colon"},
    {": b", {}, {}, "a field name that is not a token"},
    {"\r: b", {}, {}, "a field name that is not a token"},
    {"(a): b", {}, {}, "a field name that is not a token"},
    {"a[b]: c", {}, {}, "a field name that is not a token"},
    {"a\xc3: b", {}, {}, "a field name that is not a token"},
    {"a\r: b", {}, {}, "a field line without a colon"},
    {"a: b\rc: d", {}, {}, "a field value with invalid characters"},
    {"a: \r", {}, {}, "a field value with invalid characters"},
    {"a: \x01", {}, {}, "a field value with invalid characters"},
    {"a: \x7f", {}, {}, "a field value with invalid characters"},
    {std::string_view("a: \0", 4), {}, {}, "a field value with invalid characters"},
    {std::string_view("a\0: b", 5), {}, {}, "a field name that is not a token"},
};

TEST(FieldLine, Cases) {
  for (const Case& each : kCases) {
    const std::string text = std::string(each.line) + "\r\n\r\n";
    std::string_view section = text;
    http1::FieldLine line;
    const http1::Error error = http1::take_field_line(section, line);
    EXPECT_EQ(std::string_view(error.what ? error.what : ""), each.error) << each.line;
    EXPECT_EQ(test::read_by_field_line(text), test::read_by_llhttp(text)) << each.line;
    if (error) continue;
    EXPECT_EQ(line.name, each.name);
    EXPECT_EQ(line.value, each.value);
    EXPECT_EQ(section, "\r\n");
  }
}

// Defect: a line was taken before it was known that the next one continues it, so that it was refused for what it said.
TEST(FieldLine, FoldedLineIsRefusedFirst) {
  std::string_view section = "Expect: 100-\r\n continue\r\n\r\n";
  http1::FieldLine line;
  EXPECT_STREQ(http1::take_field_line(section, line).what, "a field line that begins with white space");
}

// Each byte, at each place of two lines.
TEST(FieldLine, EachByteIsReadAsByLlhttp) {
  constexpr std::string_view kLines = "ab: cd ef\r\nx: y\r\n\r\n";
  for (size_t at = 0; at < 16; ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string text(kLines);
      if (text[at] == '\r' || text[at] == '\n' || byte == '\n') continue;  // Line endings are HeadScan's.
      text[at] = static_cast<char>(byte);
      EXPECT_EQ(test::read_by_field_line(text), test::read_by_llhttp(text)) << "byte " << byte << " at " << at;
    }
  }
}

TEST(FieldLine, RandomLinesAreReadAsByLlhttp) {
  constexpr std::array<std::string_view, 16> kPieces = {"a",  "X-Name", ":", ": ", " ",    "\t",  "value", "\r",
                                                        "\"", ",",      ";", "\f", "\x80", "-_.", "\x7f",  "chunked"};
  std::mt19937 random(7);  // NOLINT: the same lines each time.
  size_t taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (size_t lines = 1 + random() % 3; lines-- > 0;) {
      if (random() % 2) text += "name:";
      for (size_t pieces = 1 + random() % 6; pieces-- > 0;) text += kPieces[random() % kPieces.size()];
      text += "\r\n";
    }
    text += "\r\n";
    const test::ReadFields read = test::read_by_field_line(text);
    EXPECT_EQ(read, test::read_by_llhttp(text)) << text;
    taken += !read.refused;
  }
  EXPECT_GT(taken, 2000U);
}

// Fields that are marked as ordinary are sent as they are.
TEST(FieldLine, OrdinaryFields) {
  for (const std::string_view name : {"te", "upgrade", "connection", "keep-alive", "proxy-connection",
                                      "transfer-encoding", "content-length", "host"}) {
    EXPECT_FALSE(http1::is_ordinary(name)) << name;
  }
  for (const std::string_view name : {"accept", "t", "hosts", "expect", "trailer", "connections"}) {
    EXPECT_TRUE(http1::is_ordinary(name)) << name;
  }
}

}  // namespace
}  // namespace sluice
