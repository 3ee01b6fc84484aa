// The Internet checksum (RFC 1071), wherever the windows are cut.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class ChecksumTest : public test::PoolTest {
 protected:
  // The algorithm of RFC 1071 section 4.1, byte by byte.
  static uint16_t sum_of(std::string_view bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes.size(); ++i)
      sum += static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (i % 2 ? 0 : 8);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(sum);
  }
};
using ChecksumDeathTest = ChecksumTest;

// RFC 1071 section 3: the words 0001 f203 f4f5 f6f7 add up to ddf2.
TEST_F(ChecksumTest, RfcExample) {
  const std::string bytes = test::from_hex("00 01 f2 03 f4 f5 f6 f7");
  for (size_t piece = 1; piece <= 8; ++piece) {
    EXPECT_EQ(test::buffer_of(pool_, bytes, test::splits_every(piece, 8)).checksum(), 0xddf2u);
  }
}

// A header whose checksum field is right adds up to ffff.
TEST_F(ChecksumTest, IpHeader) {
  const std::string header = test::from_hex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7");
  EXPECT_EQ(buffer_of(header).checksum(), 0xffffu);
}

TEST_F(ChecksumTest, EmptyIsZero) {
  EXPECT_EQ(Buffer().checksum(), 0u);
  EXPECT_EQ(buffer_of("abc").checksum(3), 0u);
}

TEST_F(ChecksumTest, OddByteIsPaddedAfter) {
  EXPECT_EQ(buffer_of("\x12").checksum(), 0x1200u);
  EXPECT_EQ(buffer_of("\x12\x34\x56").checksum(), 0x1234u + 0x5600u);
}

TEST_F(ChecksumTest, EverySplitAndEveryOffset) {
  std::string bytes(23, 0);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 89 + 200);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      const Buffer buffer = test::buffer_of(pool_, bytes, first, second);
      for (size_t offset = 0; offset <= bytes.size(); offset += 5) {
        EXPECT_EQ(buffer.checksum(offset), sum_of(std::string_view(bytes).substr(offset))) << first << ' ' << second;
      }
    }
  }
}

TEST_F(ChecksumTest, ManySizes) {
  std::mt19937 random(1);
  for (const size_t size : {100u, 1000u, 1500u, 65535u, 200'000u}) {
    std::string bytes(size, 0);
    for (char& byte : bytes) byte = static_cast<char>(random() | 0x80);
    EXPECT_EQ(test::buffer_of(pool_, bytes, test::splits_every(1 + random() % 3000, size)).checksum(), sum_of(bytes));
  }
}

TEST_F(ChecksumDeathTest, EnforcesItsPreconditions) {
  const Buffer buffer = buffer_of("abc");
  EXPECT_DEATH(static_cast<void>(buffer.checksum(4)), "check failed");
}

}  // namespace
}  // namespace sluice
