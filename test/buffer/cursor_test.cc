#include "sluice/cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class CursorTest : public test::PoolTest {
 protected:
  // 00 01 02 ... in windows of `piece` bytes.
  Buffer counting(size_t size, size_t piece) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i));
    return test::buffer_of(pool_, text, test::splits_every(piece, size));
  }
};

TEST_F(CursorTest, ReadsBigEndianAcrossEveryBoundary) {
  for (size_t piece = 1; piece <= 18; ++piece) {
    const Buffer buffer = counting(18, piece);
    Cursor cursor(buffer);
    EXPECT_EQ(cursor.u8(), 0x00u);
    EXPECT_EQ(cursor.u16be(), 0x0102u);
    EXPECT_EQ(cursor.u24be(), 0x030405u);
    EXPECT_EQ(cursor.u32be(), 0x06070809u);
    EXPECT_EQ(cursor.u64be(), 0x0a0b0c0d0e0f1011u);
    EXPECT_TRUE(cursor.ok());
    EXPECT_EQ(cursor.position(), 18u);
    EXPECT_EQ(cursor.remaining(), 0u);
    EXPECT_EQ(buffer.size(), 18u) << "reading changes nothing";
  }
}

TEST_F(CursorTest, ReadsLittleEndianAcrossEveryBoundary) {
  for (size_t piece = 1; piece <= 17; ++piece) {
    const Buffer buffer = counting(17, piece);
    Cursor cursor(buffer);
    EXPECT_EQ(cursor.u16le(), 0x0100u);
    EXPECT_EQ(cursor.u24le(), 0x040302u);
    EXPECT_EQ(cursor.u32le(), 0x08070605u);
    EXPECT_EQ(cursor.u64le(), 0x100f0e0d0c0b0a09u);
    EXPECT_TRUE(cursor.ok());
    EXPECT_EQ(cursor.remaining(), 0u);
  }
}

TEST_F(CursorTest, HighBitsAreNotSigned) {
  const Buffer buffer = buffer_of("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8");
  EXPECT_EQ(Cursor(buffer).u8(), 0xffu);
  EXPECT_EQ(Cursor(buffer).u16be(), 0xfffeu);
  EXPECT_EQ(Cursor(buffer).u24be(), 0xfffefdu);
  EXPECT_EQ(Cursor(buffer).u32be(), 0xfffefdfcu);
  EXPECT_EQ(Cursor(buffer).u64be(), 0xfffefdfcfbfaf9f8u);
  EXPECT_EQ(Cursor(buffer).u16le(), 0xfeffu);
  EXPECT_EQ(Cursor(buffer).u24le(), 0xfdfeffu);
  EXPECT_EQ(Cursor(buffer).u32le(), 0xfcfdfeffu);
  EXPECT_EQ(Cursor(buffer).u64le(), 0xf8f9fafbfcfdfeffu);
}

TEST_F(CursorTest, StartsAnywhereAndSkips) {
  for (size_t piece = 1; piece <= 10; ++piece) {
    const Buffer buffer = counting(10, piece);
    for (size_t offset = 0; offset <= 10; ++offset) {
      for (size_t skip = 0; offset + skip <= 10; ++skip) {
        Cursor cursor(buffer, offset);
        EXPECT_TRUE(cursor.skip(skip));
        EXPECT_EQ(cursor.position(), offset + skip);
        EXPECT_EQ(cursor.remaining(), 10 - offset - skip);
        EXPECT_TRUE(cursor.ok());
        EXPECT_EQ(cursor.u8(), offset + skip < 10 ? offset + skip : 0);
      }
    }
  }
}

TEST_F(CursorTest, ReadsBytes) {
  for (size_t piece = 1; piece <= 10; ++piece) {
    const Buffer buffer = counting(10, piece);
    for (size_t size = 0; size <= 9; ++size) {
      std::array<std::byte, 9> to{};
      Cursor cursor(buffer, 1);
      EXPECT_TRUE(cursor.read(std::span(to).first(size)));
      for (size_t i = 0; i < size; ++i) EXPECT_EQ(to[i], static_cast<std::byte>(i + 1));
      EXPECT_EQ(cursor.position(), 1 + size);
    }
  }
}

TEST_F(CursorTest, PastTheEndIsZeroAndNeverOkAgain) {
  const Buffer buffer = counting(3, 2);
  const auto fails = [&](auto read) {
    Cursor cursor(buffer, 1);
    EXPECT_FALSE(read(cursor));
    EXPECT_FALSE(cursor.ok());
    EXPECT_EQ(cursor.position(), 1u) << "nothing was consumed";
    EXPECT_EQ(cursor.remaining(), 2u);
    // The bytes are there, but a parser that checks once at the end must see the failure.
    EXPECT_EQ(cursor.u8(), 0u);
    EXPECT_FALSE(cursor.skip(0));
    EXPECT_FALSE(cursor.read({}));
    EXPECT_FALSE(cursor.ok());
  };
  fails([](Cursor& cursor) { return cursor.u24be(); });
  fails([](Cursor& cursor) { return cursor.u32be(); });
  fails([](Cursor& cursor) { return cursor.u64be(); });
  fails([](Cursor& cursor) { return cursor.u24le(); });
  fails([](Cursor& cursor) { return cursor.u32le(); });
  fails([](Cursor& cursor) { return cursor.u64le(); });
  fails([](Cursor& cursor) { return cursor.skip(3); });
  fails([](Cursor& cursor) {
    std::array<std::byte, 3> to{};
    const bool read = cursor.read(to);
    EXPECT_EQ(to[0], std::byte{0});
    return read;
  });
}

TEST_F(CursorTest, StartsPastTheEnd) {
  const Buffer buffer = counting(3, 2);
  Cursor cursor(buffer, 4);
  EXPECT_FALSE(cursor.ok());
  EXPECT_EQ(cursor.u8(), 0u);
  EXPECT_TRUE(Cursor(buffer, 3).ok());
}

TEST_F(CursorTest, EmptyBuffer) {
  Buffer buffer;
  Cursor cursor(buffer);
  EXPECT_TRUE(cursor.ok());
  EXPECT_EQ(cursor.remaining(), 0u);
  EXPECT_TRUE(cursor.skip(0));
  EXPECT_TRUE(cursor.read({}));
  EXPECT_EQ(cursor.u16be(), 0u);
  EXPECT_FALSE(cursor.ok());
}

TEST_F(CursorTest, ReadsVarintsAcrossEveryBoundary) {
  const std::string bytes = test::from_hex("00 7f 8001 ac02 ffffffff0f ffffffffffffffffff01 8000 808080808000");
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    const Buffer buffer = test::buffer_of(pool_, bytes, test::splits_every(piece, bytes.size()));
    Cursor cursor(buffer);
    EXPECT_EQ(cursor.varint32(), 0u);
    EXPECT_EQ(cursor.varint64(), 127u);
    EXPECT_EQ(cursor.varint32(), 128u);
    EXPECT_EQ(cursor.varint64(), 300u);
    EXPECT_EQ(cursor.varint32(), 0xffffffffu);
    EXPECT_EQ(cursor.varint64(), 0xffffffffffffffffu);
    EXPECT_EQ(cursor.varint32(), 0u) << "leading zeros";
    EXPECT_EQ(cursor.varint64(), 0u);
    EXPECT_TRUE(cursor.ok());
    EXPECT_EQ(cursor.remaining(), 0u);
  }
}

TEST_F(CursorTest, ReadsZigzag) {
  const Buffer buffer = buffer_of(test::from_hex("00 01 02 03 feffffffffffffffff01 ffffffffffffffffff01"));
  Cursor cursor(buffer);
  for (const int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{-2}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(cursor.zigzag64(), value);
  }
  EXPECT_TRUE(cursor.ok());
}

TEST_F(CursorTest, VarintsThatEndTooEarlyAreNotMalformed) {
  const auto error_of = [&](std::string_view hex, auto read) {
    const std::string bytes = "x" + test::from_hex(hex);
    Cursor::Error error{};
    for (size_t piece = 1; piece <= bytes.size(); ++piece) {
      const Buffer buffer = test::buffer_of(pool_, bytes, test::splits_every(piece, bytes.size()));
      Cursor cursor(buffer, 1);
      EXPECT_EQ(read(cursor), 0u) << hex;
      EXPECT_FALSE(cursor.ok()) << hex;
      EXPECT_EQ(cursor.position(), 1u) << "nothing was consumed";
      error = cursor.error();
      EXPECT_EQ(cursor.u64be(), 0u);
      EXPECT_EQ(cursor.varint64(), 0u);
      EXPECT_EQ(cursor.error(), error) << "the first error stays";
    }
    return error;
  };
  const auto read_32 = [](Cursor& cursor) { return cursor.varint32(); };
  const auto read_64 = [](Cursor& cursor) { return cursor.varint64(); };
  for (const std::string_view hex : {"", "80", "80808080"}) EXPECT_EQ(error_of(hex, read_32), Cursor::Error::kEnd);
  EXPECT_EQ(error_of("ffffffffffffffffff", read_64), Cursor::Error::kEnd);
  // Too large in the last byte that may be, or too long; whether more follows does not matter.
  for (const std::string_view hex : {"ffffffff1f", "ffffffff10", "8080808080", "808080808000"}) {
    EXPECT_EQ(error_of(hex, read_32), Cursor::Error::kMalformed) << hex;
  }
  for (const std::string_view hex : {"ffffffffffffffffff02", "80808080808080808080", "8080808080808080808000"}) {
    EXPECT_EQ(error_of(hex, read_64), Cursor::Error::kMalformed) << hex;
  }
}

TEST_F(CursorTest, PeeksWithoutMovingOn) {
  for (size_t piece = 1; piece <= 10; ++piece) {
    const Buffer buffer = counting(10, piece);
    for (size_t offset = 0; offset <= 10; ++offset) {
      Cursor cursor(buffer, offset);
      const std::span<const std::byte> next = cursor.peek();
      EXPECT_EQ(next.size(), offset == 10 ? 0 : std::min(piece - offset % piece, 10 - offset));
      for (size_t count = 0; count <= 11; ++count) {
        std::array<std::byte, 11> scratch{};
        const std::span<const std::byte> bytes = cursor.peek(count, scratch);
        if (offset + count > 10) {
          EXPECT_TRUE(bytes.empty());
        } else {
          ASSERT_EQ(bytes.size(), count);
          for (size_t i = 0; i < count; ++i) EXPECT_EQ(bytes[i], static_cast<std::byte>(offset + i));
          EXPECT_EQ(count > 0 && bytes.data() == scratch.data(), count > next.size()) << "in place where it can be";
        }
        EXPECT_TRUE(cursor.ok());
        EXPECT_EQ(cursor.position(), offset);
      }
    }
  }
  EXPECT_EQ(copied(), 0u);
}

TEST_F(CursorTest, PeeksAtNothingAfterAnError) {
  const Buffer buffer = counting(6, 2);
  Cursor cursor(buffer, 1);
  EXPECT_FALSE(cursor.skip(6));
  std::array<std::byte, 4> scratch{};
  EXPECT_TRUE(cursor.peek().empty());
  EXPECT_TRUE(cursor.peek(1, scratch).empty());
  EXPECT_EQ(cursor.bytes_before(std::byte{3}), Cursor::npos);
}

TEST_F(CursorTest, FindsADelimiterWithinALimit) {
  for (size_t piece = 1; piece <= 10; ++piece) {
    const Buffer buffer = counting(10, piece);
    for (size_t offset = 0; offset <= 10; ++offset) {
      const Cursor cursor(buffer, offset);
      for (size_t at = 0; at <= 10; ++at) {
        const size_t expected = at >= offset && at < 10 ? at - offset : Cursor::npos;
        EXPECT_EQ(cursor.bytes_before(static_cast<std::byte>(at)), expected);
        for (size_t limit = 0; limit <= 11; ++limit) {
          EXPECT_EQ(cursor.bytes_before(static_cast<std::byte>(at), limit), expected < limit ? expected : Cursor::npos);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice
