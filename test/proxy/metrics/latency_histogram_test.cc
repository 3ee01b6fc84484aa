#include "proxy/metrics/latency_histogram.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

LatencySum sum_of(std::initializer_list<uint64_t> times_ms) {
  LatencyHistogram histogram;
  for (const uint64_t ms : times_ms) histogram.add(ms);
  LatencySum sum;
  sum.add(histogram);
  return sum;
}

// The bucket of the only time.
size_t bucket_of(uint64_t ms) {
  const LatencySum sum = sum_of({ms});
  EXPECT_EQ(sum.count(), 1u);
  size_t bucket = 0;
  while (sum.buckets[bucket] == 0) ++bucket;
  return bucket;
}

TEST(LatencyHistogram, BoundsAscendAndAreTheSameInAllForms) {
  uint32_t before_ms = 0;
  for (const LatencyHistogram::Bound& bound : LatencyHistogram::kBounds) {
    EXPECT_GT(bound.ms, before_ms);
    before_ms = bound.ms;
    EXPECT_EQ(bound.ms, static_cast<uint32_t>(bound.seconds * 1000 + 1e-9));
    EXPECT_EQ(bound.seconds, std::stod(std::string(bound.text)));
  }
}

TEST(LatencyHistogram, ABoundIsInItsBucket) {
  for (size_t i = 0; i < LatencyHistogram::kBounds.size(); ++i) {
    EXPECT_EQ(bucket_of(LatencyHistogram::kBounds[i].ms), i);
    EXPECT_EQ(bucket_of(LatencyHistogram::kBounds[i].ms + 1), i + 1);
  }
  EXPECT_EQ(bucket_of(0), 0u);
  EXPECT_EQ(bucket_of(300), 8u);
  EXPECT_EQ(bucket_of(UINT32_MAX), LatencyHistogram::kBuckets - 1);
}

TEST(LatencyHistogram, Sums) {
  LatencySum sum = sum_of({0, 1, 2, 61'000});
  EXPECT_EQ(sum.count(), 4u);
  EXPECT_EQ(sum.sum_ms, 61'003u);
  EXPECT_EQ(sum.buckets[0], 2u);
  sum.add(sum_of({1, 7}));
  EXPECT_EQ(sum.count(), 6u);
  EXPECT_EQ(sum.sum_ms, 61'011u);
  EXPECT_EQ(sum.buckets[0], 3u);
}

TEST(LatencyHistogram, NoQuantileOfNothing) { EXPECT_FALSE(LatencySum().quantile(0.5)); }

// The figures are those of histogram_quantile of Prometheus.
TEST(LatencyHistogram, QuantilesAreInterpolated) {
  const LatencySum one = sum_of({300});  // Between 0.25 and 0.5.
  EXPECT_DOUBLE_EQ(*one.quantile(0.5), 0.375);
  EXPECT_DOUBLE_EQ(*one.quantile(0), 0.25);
  EXPECT_DOUBLE_EQ(*one.quantile(1), 0.5);
  const LatencySum two = sum_of({4, 4, 4, 80});
  EXPECT_DOUBLE_EQ(*two.quantile(0.5), 0.0025 + 0.0025 * 2 / 3);
  EXPECT_DOUBLE_EQ(*two.quantile(0.75), 0.005);
  EXPECT_DOUBLE_EQ(*two.quantile(0.9), 0.05 + 0.05 * 0.6);
  const LatencySum first = sum_of({0, 0});
  EXPECT_DOUBLE_EQ(*first.quantile(0.5), 0.0005);
}

TEST(LatencyHistogram, AQuantileBeyondAllBoundsIsTheLastBound) {
  EXPECT_DOUBLE_EQ(*sum_of({1, 70'000, 80'000}).quantile(0.9), 60);
}

}  // namespace
}  // namespace sluice
