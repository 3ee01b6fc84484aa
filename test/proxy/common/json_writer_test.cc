#include "proxy/common/json_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "proxy/common/json.h"

namespace sluice {
namespace {

TEST(JsonWriter, IndentsObjectsAndArrays) {
  JsonWriter json;
  json.begin_object().member("name", "a").member("count", uint64_t{18446744073709551615u});
  json.key("list").begin_array().value(true).value(-1).null().begin_object().end_object().end_array();
  json.key("none").begin_array().end_array().member("share", 0.5).end_object();
  EXPECT_EQ(std::move(json).text(), R"({
  "name": "a",
  "count": 18446744073709551615,
  "list": [
    true,
    -1,
    null,
    {}
  ],
  "none": [],
  "share": 0.500
}
)");
}

TEST(JsonWriter, EscapesWhatJsonDoesNotAllow) {
  JsonWriter json;
  json.begin_array();
  json.value("\"\\\n\t\x7f");
  json.value(std::string_view("a\0b", 3));
  json.value("\xc3\xa9 \xf0\x9f\x98\x80");           // Valid UTF-8 stays.
  json.value("\xff\xc0\xaf \xed\xa0\x80 \xe2\x82");  // No UTF-8: bytes, too long a form, a surrogate, cut short.
  json.end_array();
  const std::string text = std::move(json).text();
  EXPECT_NE(text.find(R"("\"\\\n\u0009\u007f")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("a\u0000b")"), std::string::npos) << text;
  EXPECT_NE(text.find("\xc3\xa9 \xf0\x9f\x98\x80"), std::string::npos) << text;
  JsonText reader;  // Strict.
  EXPECT_TRUE(reader.read(text)) << reader.error() << " at " << reader.error_offset() << " of " << text;
}

}  // namespace
}  // namespace sluice
