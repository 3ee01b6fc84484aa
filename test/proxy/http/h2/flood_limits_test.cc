#include "proxy/http/h2/flood_limits.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Http2RateTest, BurstThenRate) {
  Http2Rate rate;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(rate.take(1000, 5, 20)) << i;
  EXPECT_FALSE(rate.take(1000, 5, 20));
  Http2Rate slow;
  for (uint64_t now = 0; now < 100'000; now += 500) EXPECT_TRUE(slow.take(now, 1, 20)) << now;
  EXPECT_FALSE(slow.take(99'600, 1, 20));
}

TEST(Http2AbuseTest, EarnedCreditIsBounded) {
  Http2Limits limits;
  limits.resets = 3;
  limits.resets_saved = 5;
  Http2Counters counters;
  Http2Abuse abuse(limits);
  for (int i = 0; i < 100; ++i) abuse.stream_completed(limits);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(abuse.reset(counters), nullptr);
  EXPECT_NE(abuse.reset(counters), nullptr);
  EXPECT_EQ(counters.over_resets, 1u);
}

// Defect: a thousand frames of less than 64 bytes were a glitch, so that the connection of a stream of small gRPC
// messages ended with ENHANCE_YOUR_CALM after some 110,000 of them.
TEST(Http2AbuseTest, SmallDataIsNoGlitch) {
  const Http2Limits limits;
  Http2Counters counters;
  Http2Abuse abuse(limits);
  for (int i = 0; i < 500'000; ++i) ASSERT_EQ(abuse.data(1, false, limits, counters), nullptr);
  EXPECT_EQ(counters.glitches, 0u);
}

}  // namespace
}  // namespace sluice
