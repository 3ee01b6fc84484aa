#include "proxy/common/json.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sluice {
namespace {

using Kind = JsonValue::Kind;

std::string error_of(std::string_view text) {
  JsonText json;
  return json.read(text) ? "" : json.error();
}

TEST(Json, Values) {
  JsonText json;
  ASSERT_TRUE(json.read(R"( {"a": [1, -0.5e+3, "x", true, false, null, {}, []], "b": {"c": "d"}, "": ""} )"))
      << json.error();
  ASSERT_EQ(json.root().kind, Kind::kObject);
  const JsonValue* list = json.member(json.root(), "a");
  ASSERT_NE(list, nullptr);
  const JsonValue* each = json.first(*list);
  const std::pair<Kind, std::string_view> expected[] = {
      {Kind::kNumber, "1"}, {Kind::kNumber, "-0.5e+3"}, {Kind::kString, "x"}, {Kind::kTrue, ""},
      {Kind::kFalse, ""},   {Kind::kNull, ""},          {Kind::kObject, ""},  {Kind::kArray, ""}};
  for (const auto& [kind, text] : expected) {
    ASSERT_NE(each, nullptr);
    EXPECT_EQ(each->kind, kind);
    EXPECT_EQ(each->text, text);
    each = json.next(*each);
  }
  EXPECT_EQ(each, nullptr);
  EXPECT_EQ(json.member(*json.member(json.root(), "b"), "c")->text, "d");
  EXPECT_EQ(json.member(json.root(), "")->kind, Kind::kString);
  EXPECT_EQ(json.member(json.root(), "c"), nullptr);
  EXPECT_EQ(json.member(*list, "a"), nullptr);
  ASSERT_TRUE(json.read("7"));  // Its memory is reused.
  EXPECT_EQ(json.root().text, "7");
}

TEST(Json, EscapesInStrings) {
  JsonText json;
  ASSERT_TRUE(json.read(R"(["\"\\\/\b\f\n\r\t", "\u0041\u00e9\u20AC\ud83d\ude00", "é€😀", "\u0000"])")) << json.error();
  const JsonValue* each = json.first(json.root());
  EXPECT_EQ(each->text, "\"\\/\b\f\n\r\t");
  each = json.next(*each);
  EXPECT_EQ(each->text, "Aé€😀");
  each = json.next(*each);
  EXPECT_EQ(each->text, "é€😀");
  each = json.next(*each);
  EXPECT_EQ(each->text, std::string_view("\0", 1));
}

TEST(Json, NonStrictSyntaxIsRefused) {
  for (const std::string_view text : {"",
                                      " ",
                                      "{",
                                      "}",
                                      "[",
                                      "[1,]",
                                      "[1 2]",
                                      "{\"a\":1,}",
                                      "{\"a\" 1}",
                                      "{a:1}",
                                      "{'a':1}",
                                      "01",
                                      "1.",
                                      ".1",
                                      "+1",
                                      "-",
                                      "1e",
                                      "1e+",
                                      "0x1",
                                      "NaN",
                                      "Infinity",
                                      "tru",
                                      "nul",
                                      "truely",
                                      "\"",
                                      "\"\\\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "\"\n\"",
                                      "\"\x01\"",
                                      "1 2",
                                      "{} {}",
                                      "[1]]",
                                      "// x\n1",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\ud800x\"",
                                      "\"\xff\"",
                                      "\"\xc0\xaf\"",
                                      "\"\xe0\x80\xaf\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "\"\xc3\"",
                                      "\"\xe2\x82\"",
                                      "\xef\xbb\xbf{}"}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

// Of duplicate names, one reader takes the first and another the last: the checked value might not be the one in use.
TEST(Json, DuplicateNamesAreRefused) {
  EXPECT_EQ(error_of(R"({"a":1,"a":2})"), "an object has two members with the same name");
  EXPECT_EQ(error_of(R"({"a":1,"\u0061":2})"), "an object has two members with the same name");
  EXPECT_EQ(error_of(R"([{"a":1},{"a":2}])"), "");
  EXPECT_EQ(error_of(R"({"a":{"a":1}})"), "");
}

TEST(Json, EverythingIsBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of(nested(JsonText::kMaxDepth + 1)), "");
  EXPECT_EQ(error_of(nested(JsonText::kMaxDepth + 2)), "it is nested too deeply");
  const auto list = [](size_t count) {
    std::string text = "[1";
    for (size_t i = 1; i < count; ++i) text += ",1";
    return text + "]";
  };
  EXPECT_EQ(error_of(list(JsonText::kMaxValues - 1)), "");
  EXPECT_EQ(error_of(list(JsonText::kMaxValues)), "there are too many values");
  const auto object = [](size_t count) {
    std::string text = "{\"0\":1";
    for (size_t i = 1; i < count; ++i) text += ",\"" + std::to_string(i) + "\":1";
    return text + "}";
  };
  EXPECT_EQ(error_of(object(JsonText::kMaxMembers)), "");
  EXPECT_EQ(error_of(object(JsonText::kMaxMembers + 1)), "an object has too many members");
  EXPECT_EQ(error_of("\"" + std::string(JsonText::kMaxBytes, 'x') + "\""), "it is too long");
}

}  // namespace
}  // namespace sluice
