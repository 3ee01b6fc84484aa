#include "net/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/net/loop.h"

namespace sluice {
namespace {

TEST(FeaturesTest, ProbeRuns) {
  const size_t descriptors = test::open_descriptors();
  const absl::StatusOr<Features> features = probe_features(RingsMode::kAuto);
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_TRUE(features->incremental || !features->min_left);
  // Otherwise bytes would reach the wrong connection.
  EXPECT_TRUE(features->in_order || !features->incremental);
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

TEST(FeaturesTest, TwoProbesAgree) {
  const absl::StatusOr<Features> first = probe_features(RingsMode::kAuto), second = probe_features(RingsMode::kAuto);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->to_string(), second->to_string());
}

TEST(FeaturesTest, PlainIsNeverIncremental) {
  const absl::StatusOr<Features> features = probe_features(RingsMode::kPlain);
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_FALSE(features->incremental);
  EXPECT_FALSE(features->min_left);
}

TEST(FeaturesTest, IncrementalIsRefusedIfItDoesNotWork) {
  const absl::StatusOr<Features> features = probe_features(RingsMode::kIncremental);
  EXPECT_EQ(features.ok(), test::kernel_features().incremental);
  if (features.ok()) {
    EXPECT_TRUE(features->incremental);
  } else {
    EXPECT_THAT(std::string(features.status().message()), ::testing::HasSubstr("--rings=plain"));
  }
}

TEST(FeaturesTest, OneLine) {
  EXPECT_EQ((Features{.incremental = true, .zero_copy = true}).to_string(),
            "incremental=yes min_left=no bundles=no zero_copy=yes in_order=no keyed_cancel=no");
}

}  // namespace
}  // namespace sluice
