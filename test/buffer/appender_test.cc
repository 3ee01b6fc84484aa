#include "sluice/appender.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/cursor.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;
using test::windows_of;
using Windows = std::vector<std::string>;

class AppenderTest : public test::PoolTest {};

TEST_F(AppenderTest, WritesBothByteOrders) {
  Buffer buffer;
  {
    Appender out(buffer, pool_);
    out.u8(0x01);
    out.u16be(0x0203);
    out.u24be(0x040506);
    out.u32be(0x0708090a);
    out.u64be(0x0b0c0d0e0f101112);
    out.u16le(0x0201);
    out.u24le(0x050403);
    out.u32le(0x09080706);
    out.u64le(0x11100f0e0d0c0b0a);
    EXPECT_TRUE(out.ok());
  }
  EXPECT_EQ(text_of(buffer), test::from_hex("0102030405060708090a0b0c0d0e0f101112 0102030405060708090a0b0c0d0e0f1011"));
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(copied(), 0u) << "fields are no payload";
}

TEST_F(AppenderTest, RoundTripWithACursor) {
  for (const size_t chunk_bytes : {8u, 64u, 100u, 1024u}) {
    Buffer buffer;
    {
      Appender out(buffer, pool_, chunk_bytes);
      for (uint32_t i = 0; i < 200; ++i) {
        out.u8(static_cast<uint8_t>(i));
        out.u16be(static_cast<uint16_t>(i * 257));
        out.u24le(i * 65537);
        out.u32be(i * 16777259);
        out.u64le(i * 0x123456789abcdefu);
      }
    }
    ASSERT_EQ(buffer.size(), 200 * 18u);
    Cursor cursor(buffer);
    for (uint32_t i = 0; i < 200; ++i) {
      EXPECT_EQ(cursor.u8(), static_cast<uint8_t>(i));
      EXPECT_EQ(cursor.u16be(), static_cast<uint16_t>(i * 257));
      EXPECT_EQ(cursor.u24le(), (i * 65537) & 0xffffff);
      EXPECT_EQ(cursor.u32be(), i * 16777259);
      EXPECT_EQ(cursor.u64le(), i * 0x123456789abcdefu);
    }
    EXPECT_TRUE(cursor.ok());
  }
}

TEST_F(AppenderTest, AppendsAtCommitAndAtItsEnd) {
  Buffer buffer = buffer_of("start ", 50);
  {
    Appender out(buffer, pool_);
    out.text("one");
    out.commit();
    EXPECT_EQ(windows_of(buffer), Windows{"start one"});
    out.commit();
    out.text(" two");
  }
  EXPECT_EQ(windows_of(buffer), Windows{"start one two"});
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(AppenderTest, NothingWrittenNothingAllocated) {
  Buffer buffer;
  {
    Appender out(buffer, pool_);
    out.text("");
    out.commit();
    EXPECT_TRUE(out.ok());
  }
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(pool_.leaked(), 0u);
  EXPECT_EQ(pool_.stats().tiers[tier_for(1024)].out_peak, 0u);
}

TEST_F(AppenderTest, ContinuesInTheTailThenInFreshChunks) {
  Buffer buffer = buffer_of(std::string(60, 'a'));
  {
    Appender out(buffer, pool_, 64);
    out.text("bbbbbb");
  }
  EXPECT_EQ(windows_of(buffer), (Windows{std::string(60, 'a') + "bbbb", "bb"}));
  EXPECT_EQ(copied(), 6u);
}

TEST_F(AppenderTest, FieldIsNotSplitAcrossChunks) {
  Buffer buffer = buffer_of(std::string(60, 'a'));
  {
    Appender out(buffer, pool_, 64);
    out.u64be(0x6162636465666768);
  }
  EXPECT_EQ(windows_of(buffer), (Windows{std::string(60, 'a'), "abcdefgh"}));
}

TEST_F(AppenderTest, InsertsAView) {
  Buffer buffer;
  View body = view_of("body");
  const std::byte* data = body.data();
  {
    Appender out(buffer, pool_);
    out.text("<");
    out.view(std::move(body));
    out.text(">");
  }
  EXPECT_EQ(text_of(buffer), "<body>");
  EXPECT_EQ(buffer.window(1).data(), data);
  EXPECT_EQ(copied(), 2u);
}

TEST_F(AppenderTest, DoesNotWriteAfterASharedView) {
  Buffer buffer;
  View body = lease_of("body and more").freeze();
  const View all = body.clone();
  body.truncate(4);
  {
    Appender out(buffer, pool_);
    out.view(std::move(body));
    out.text("!!!!!");
  }
  EXPECT_EQ(text_of(buffer), "body!!!!!");
  EXPECT_EQ(text_of(all), "body and more");
}

TEST_F(AppenderTest, LargeTextsFillChunks) {
  std::string text(10'000, 0);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  Buffer buffer;
  {
    Appender out(buffer, pool_, 1000);
    out.u8(1);
    out.text(text);
  }
  EXPECT_EQ(text_of(buffer), '\1' + text);
  EXPECT_EQ(buffer.window_count(), 10u) << "chunks of 1,024 bytes";
}

TEST_F(AppenderTest, IsNeverOkAgainAfterTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 64});
  ChunkPool::Use use(&small);
  Buffer buffer;
  Appender out(buffer, small, 64);
  for (int i = 0; i < 16; ++i) out.u32be(0x61616161);
  EXPECT_TRUE(out.ok());
  out.u8('b');
  EXPECT_FALSE(out.ok());
  EXPECT_EQ(text_of(buffer), std::string(64, 'a'));
  buffer.clear();
  out.u8('b');
  out.text("more");
  View view = View::adopt("view", 4, nullptr);
  out.view(std::move(view));
  out.commit();
  EXPECT_FALSE(out.ok());
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(view.size(), 4u) << "not taken";  // NOLINT(bugprone-use-after-move)
}

TEST_F(AppenderTest, WritesVarints) {
  Buffer buffer;
  const std::vector<uint64_t> values{0, 1, 127, 128, 300, 16383, 16384, 0xffffffff, uint64_t{1} << 63, UINT64_MAX};
  {
    Appender out(buffer, pool_, 8);
    for (const uint64_t value : values) {
      out.varint(value);
      out.zigzag64(static_cast<int64_t>(value));
      out.zigzag64(-static_cast<int64_t>(value >> 1));
    }
    EXPECT_TRUE(out.ok());
  }
  Cursor cursor(buffer);
  for (const uint64_t value : values) {
    EXPECT_EQ(cursor.varint64(), value);
    EXPECT_EQ(cursor.zigzag64(), static_cast<int64_t>(value));
    EXPECT_EQ(cursor.zigzag64(), -static_cast<int64_t>(value >> 1));
  }
  EXPECT_TRUE(cursor.ok());
  EXPECT_EQ(cursor.remaining(), 0u);

  Buffer shortest;
  {
    Appender out(shortest, pool_);
    for (const uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{300}, UINT64_MAX}) out.varint(value);
  }
  EXPECT_EQ(text_of(shortest), test::from_hex("00 7f ac02 ffffffffffffffffff01"));
}

TEST_F(AppenderTest, FillsAGapInTheSameChunkOrAnEarlierOne) {
  for (const size_t body : {0u, 5u, 60u, 200u, 1000u}) {
    Buffer buffer = buffer_of("start ", 3);
    const std::string text(body, 'b');
    {
      Appender out(buffer, pool_, 64);
      const Appender::Gap outer = out.gap(4);
      const Appender::Gap inner = out.gap(3);
      const Appender::Gap padded = out.gap(3);
      out.text(text);
      EXPECT_EQ(out.bytes_after(outer), body + 6);
      out.fill_be(outer, 1);
      out.fill_be(outer, out.bytes_after(outer));
      out.fill_le(inner, out.bytes_after(inner));
      out.fill_varint(padded, out.bytes_after(padded));
      EXPECT_TRUE(out.ok());
    }
    Cursor cursor(buffer, 6);
    EXPECT_EQ(cursor.u32be(), body + 6);
    EXPECT_EQ(cursor.u24le(), body + 3);
    EXPECT_EQ(cursor.varint32(), body);
    EXPECT_EQ(cursor.position(), 16u) << "padded";
    EXPECT_EQ(cursor.remaining(), body);
    EXPECT_EQ(text_of(buffer).substr(16), text);
    pool_.take_remote_frees();
  }
  EXPECT_EQ(copied(), 0u + 5 + 60 + 200 + 1000) << "the bodies, but not the fields";
}

TEST_F(AppenderTest, AGapThatIsNotFilledIsZero) {
  Buffer buffer;
  {
    Appender out(buffer, pool_);
    EXPECT_EQ(out.gap(8).size(), 8u);
    const Appender::Gap largest = out.gap(8);
    out.fill_le(largest, UINT64_MAX);
  }
  EXPECT_EQ(text_of(buffer), std::string(8, '\0') + std::string(8, '\xff'));
}

TEST_F(AppenderTest, FillingDoesNotChangeAClone) {
  Buffer buffer;
  Appender out(buffer, pool_);
  const Appender::Gap gap = out.gap(2);
  out.text("body");
  out.commit();
  const Buffer clone = buffer.clone();
  out.fill_be(gap, 0x4142);
  out.text("!");
  out.commit();
  EXPECT_TRUE(out.ok());
  EXPECT_EQ(text_of(buffer), "ABbody!");
  EXPECT_EQ(text_of(clone), std::string_view("\0\0body", 6));
}

TEST_F(AppenderTest, FillsNothingWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 64});
  ChunkPool::Use use(&small);
  Buffer buffer;
  Appender out(buffer, small, 64);
  const Appender::Gap gap = out.gap(2);
  out.commit();
  const Buffer clone = buffer.clone();
  out.fill_be(gap, 1);  // Would have to copy.
  EXPECT_FALSE(out.ok());
  EXPECT_EQ(text_of(buffer), std::string(2, '\0'));
  const Appender::Gap none = out.gap(2);
  EXPECT_EQ(none.size(), 0u);
  out.fill_be(none, 0x10000);
  EXPECT_EQ(text_of(buffer), std::string(2, '\0'));
}

using AppenderDeathTest = AppenderTest;

TEST_F(AppenderDeathTest, AValueThatDoesNotFit) {
  Buffer buffer;
  Appender out(buffer, pool_);
  const Appender::Gap gap = out.gap(2);
  out.fill_be(gap, 0xffff);
  EXPECT_DEATH(out.fill_be(gap, 0x10000), "check failed");
  out.fill_varint(gap, 0x3fff);
  EXPECT_DEATH(out.fill_varint(gap, 0x4000), "check failed");
  EXPECT_DEATH(out.gap(9), "check failed");
}

}  // namespace
}  // namespace sluice
