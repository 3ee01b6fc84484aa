#include "proxy/common/base64.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

namespace sluice {
namespace {

std::string decoded(Base64 kind, std::string_view text) {
  std::array<unsigned char, 64> room;
  const auto bytes = decode_base64(kind, text, room);
  return bytes ? std::string(bytes->begin(), bytes->end()) : "malformed";
}

// RFC 4648 section 10.
TEST(Base64, Vectors) {
  const std::pair<std::string_view, std::string_view> cases[] = {{"", ""},
                                                                 {"Zg==", "f"},
                                                                 {"Zm8=", "fo"},
                                                                 {"Zm9v", "foo"},
                                                                 {"Zm9vYg==", "foob"},
                                                                 {"Zm9vYmE=", "fooba"},
                                                                 {"Zm9vYmFy", "foobar"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(decoded(Base64::kPadded, text), expected);
    EXPECT_EQ(decoded(Base64::kUrl, text.substr(0, text.find('='))), expected);
  }
  EXPECT_EQ(decoded(Base64::kUrl, "_-8"), "\xff\xef");
  EXPECT_EQ(decoded(Base64::kPadded, "/+8="), "\xff\xef");
}

TEST(Base64, EachValueHasOneEncoding) {
  for (const std::string_view text :
       {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 8", "_-8="}) {
    EXPECT_EQ(decoded(Base64::kPadded, text), "malformed") << text;
  }
  for (const std::string_view text : {"Z", "Zg==", "Zh", "Zm9", "Zm9vY", "/+8", "Zm9v\n", "Zm.v"}) {
    EXPECT_EQ(decoded(Base64::kUrl, text), "malformed") << text;
  }
}

}  // namespace
}  // namespace sluice
