#include "proxy/http/message/client_ip.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

std::string text_of(const ClientIp& ip) {
  std::array<char, ClientIp::kTextBytes> room;
  return std::string(ip.text(room));
}

TEST(ClientIp, EachByteAtEachPlace) {
  for (size_t at = 0; at < 4; ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      std::array<uint8_t, 4> bytes{10, 0, 200, 7};
      bytes[at] = static_cast<uint8_t>(value);
      std::string expected;
      for (const uint8_t byte : bytes) expected += (expected.empty() ? "" : ".") + std::to_string(byte);
      ASSERT_EQ(text_of(ClientIp(bytes)), expected);
    }
  }
}

TEST(ClientIp, OtherFamilies) {
  std::array<uint8_t, 16> bytes{0x20, 1, 0xd, 0xb8};
  bytes[15] = 0x21;
  EXPECT_EQ(text_of(ClientIp(bytes)), "2001:db8::21");
  EXPECT_EQ(text_of(ClientIp()), "");
}

}  // namespace
}  // namespace sluice
