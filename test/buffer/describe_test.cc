// Buffers as text.

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class DescribeTest : public test::PoolTest {};

TEST_F(DescribeTest, SizeWindowsAndABoundedPrefix) {
  const Buffer buffer = in_windows({"GET / HTTP/1.1\r\n", "Host: a"});
  EXPECT_EQ(buffer.describe(), "23 bytes in 2 windows: \"GET / HTTP/1.1\\r\\nHost: a\"");
  EXPECT_EQ(buffer.describe(23), buffer.describe());
  EXPECT_EQ(buffer.describe(22), "23 bytes in 2 windows: \"GET / HTTP/1.1\\r\\nHost: \"...");
  EXPECT_EQ(buffer.describe(1), "23 bytes in 2 windows: \"G\"...");
  EXPECT_EQ(buffer.describe(0), "23 bytes in 2 windows");
  EXPECT_EQ(Buffer().describe(), "0 bytes");
  EXPECT_EQ(buffer_of("x").describe(0), "1 byte in 1 window");
  EXPECT_EQ(buffer_of(std::string(100, 'x')).describe(), "100 bytes in 1 window: \"" + std::string(64, 'x') + "\"...");
  EXPECT_EQ(copied(), 0u);
}

TEST_F(DescribeTest, EveryByteIsPrintableOnOneLine) {
  std::string all(256, 0);
  for (size_t i = 0; i < 256; ++i) all[i] = static_cast<char>(i);
  const std::string text = buffer_of(all).describe(256);
  for (const char c : text) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  for (const std::string_view part :
       {"\\x00\\x01", "\\x08\\t\\n\\x0b", " !\\\"#", "[\\\\]", "~\\x7f\\x80", "\\xfe\\xff\""}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

// As abseil calls it.
struct Sink {
  void Append(std::string_view piece) { text += piece; }
  std::string text;
};

TEST_F(DescribeTest, InStreamsAndFormats) {
  const Buffer buffer = buffer_of("hello");
  std::ostringstream stream;
  stream << buffer << '\n';
  EXPECT_EQ(stream.str(), "5 bytes in 1 window: \"hello\"\n");
  Sink sink;
  AbslStringify(sink, buffer);
  EXPECT_EQ(sink.text, "5 bytes in 1 window: \"hello\"");
}

TEST_F(DescribeTest, HexDump) {
  const std::string bytes("GET / HTTP/1.1\r\n\0\xff|", 19);
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Buffer buffer = test::buffer_of(pool_, bytes, test::splits_every(piece, bytes.size()));
    EXPECT_EQ(buffer.hex_dump(),
              "00000000  47 45 54 20 2f 20 48 54  54 50 2f 31 2e 31 0d 0a  |GET / HTTP/1.1..|\n"
              "00000010  00 ff 7c                                          |..||\n");
    EXPECT_EQ(buffer.hex_dump(4, 2), "00000004  2f 20                                             |/ |\n");
    EXPECT_EQ(buffer.hex_dump(0, 16), buffer.hex_dump().substr(0, 79));
    EXPECT_EQ(buffer.hex_dump(18), "00000012  7c                                                |||\n");
    EXPECT_EQ(buffer.hex_dump(19), "");
    EXPECT_EQ(buffer.hex_dump(0, 0), "");
  }
}

}  // namespace
}  // namespace sluice
