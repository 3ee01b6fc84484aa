#include "sluice/appender.h"

#include <gtest/gtest.h>

#include <string>
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

}  // namespace
}  // namespace sluice
