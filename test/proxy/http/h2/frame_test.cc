#include "proxy/http/h2/frame.h"

#include <gtest/gtest.h>

#include "test/proxy/http/h2/rig.h"

namespace sluice::test::http2 {
namespace {

class Http2FrameTest : public PoolTest {};

TEST_F(Http2FrameTest, HeaderIsReadAndWritten) {
  const Http2FrameHeader header{.length = 0x123456, .type = Http2FrameType::kPing, .flags = 0xa5, .stream = 0x7edcba98};
  std::array<std::byte, Http2FrameHeader::kBytes> bytes;
  header.write(bytes.data());
  EXPECT_EQ(text_of(std::span<const std::byte>(bytes)), from_hex("123456 06 a5 7edcba98"));
  bytes[5] |= std::byte{0x80};  // Reserved.
  const auto read = Http2FrameHeader::read(bytes);
  EXPECT_EQ(read.length, header.length);
  EXPECT_EQ(read.type, header.type);
  EXPECT_EQ(read.flags, header.flags);
  EXPECT_EQ(read.stream, header.stream);
}

TEST_F(Http2FrameTest, SmallFramesShareAChunk) {
  Buffer out;
  for (int i = 0; i < 10; ++i) append_frame(pool_, out, Http2FrameType::kWindowUpdate, 3, 7);
  EXPECT_EQ(out.window_count(), 1u);
  EXPECT_EQ(out.pinned_bytes(), 256u);
  EXPECT_TRUE(out.starts_with(window_update(3, 7)));
}

TEST(Http2FrameBudget, FramesGoBeyondIt) {
  ChunkPool pool({.budget_bytes = 0});
  ChunkPool::Use use(&pool);
  Buffer out;
  append_frame(pool, out, {.type = Http2FrameType::kPing}, std::as_bytes(std::span("12345678", 8)));
  EXPECT_EQ(text_of(out), ping());
}

TEST(Http2Errors, ResetsAreTranslated) {
  const struct {
    ResetReason reason;
    Http2Error sent;
    ResetReason received;
  } cases[] = {
      {ResetReason::kCancelled, Http2Error::kCancel, ResetReason::kCancelled},
      {ResetReason::kRefused, Http2Error::kRefusedStream, ResetReason::kRefused},
      {ResetReason::kMalformed, Http2Error::kProtocolError, ResetReason::kRejected},
      {ResetReason::kTooLarge, Http2Error::kCancel, ResetReason::kCancelled},
      {ResetReason::kTimeout, Http2Error::kCancel, ResetReason::kCancelled},
      {ResetReason::kOverload, Http2Error::kEnhanceYourCalm, ResetReason::kOverload},
      {ResetReason::kInternal, Http2Error::kInternalError, ResetReason::kInternal},
      {ResetReason::kConnectionLost, Http2Error::kInternalError, ResetReason::kInternal},
      {ResetReason::kRejected, Http2Error::kCancel, ResetReason::kCancelled},
      {ResetReason::kUnsendable, Http2Error::kInternalError, ResetReason::kInternal},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(http2_error(c.reason, false), c.sent);
    EXPECT_EQ(reset_reason(static_cast<uint32_t>(c.sent)), c.received);
  }
  EXPECT_EQ(http2_error(ResetReason::kConnectionLost, true), Http2Error::kCancel);
  EXPECT_EQ(reset_reason(0), ResetReason::kCancelled);
  EXPECT_EQ(reset_reason(12345), ResetReason::kInternal);
}

}  // namespace
}  // namespace sluice::test::http2
