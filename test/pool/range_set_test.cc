#include "pool/range_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace sluice {
namespace {

TEST(RangeSet, JoinsNeighbors) {
  RangeSet set;
  EXPECT_TRUE(set.empty());
  set.add({10, 2});
  set.add({14, 2});
  set.add({20, 0});
  EXPECT_EQ(set.count(), 4u);
  set.add({12, 2});
  const Range range = set.take_lowest(100);
  EXPECT_EQ(range.begin, 10u);
  EXPECT_EQ(range.count, 6u);
  EXPECT_TRUE(set.empty());
}

TEST(RangeSet, TakesNoMoreThanRequested) {
  RangeSet set;
  set.add({0, 10});
  set.add({20, 10});
  const Range low = set.take_lowest(3), high = set.take_highest(4);
  EXPECT_EQ(low.begin, 0u);
  EXPECT_EQ(low.count, 3u);
  EXPECT_EQ(high.begin, 26u);
  EXPECT_EQ(high.count, 4u);
  EXPECT_EQ(set.take_highest(100).count, 6u) << "adjoining ones only";
  EXPECT_EQ(set.count(), 7u);
  EXPECT_EQ(set.take_lowest(0).count, 0u);
  EXPECT_EQ(set.take_lowest(100).begin, 3u);
  EXPECT_EQ(set.take_lowest(1).count, 0u);
  EXPECT_EQ(set.take_highest(1).count, 0u);
}

TEST(RangeSet, IsASet) {
  std::mt19937 random(1);
  RangeSet set;
  std::set<size_t> model, rest;
  for (size_t i = 0; i < 200; ++i) rest.insert(i);
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 && !rest.empty()) {
      auto at = rest.lower_bound(random() % 200);
      if (at == rest.end()) at = rest.begin();
      Range range{*at, 0};
      for (size_t most = 1 + random() % 20; most > 0 && rest.erase(range.begin + range.count) > 0; --most) {
        model.insert(range.begin + range.count++);
      }
      set.add(range);
    } else {
      const bool lowest = random() % 2;
      const size_t most = random() % 20;
      const Range range = lowest ? set.take_lowest(most) : set.take_highest(most);
      if (most > 0 && !model.empty()) {
        ASSERT_GT(range.count, 0u);
        ASSERT_EQ(lowest ? range.begin : range.begin + range.count - 1, lowest ? *model.begin() : *model.rbegin());
      }
      for (size_t i = 0; i < range.count; ++i) {
        ASSERT_EQ(model.erase(range.begin + i), 1u);
        rest.insert(range.begin + i);
      }
    }
    ASSERT_EQ(set.count(), model.size());
  }
}

}  // namespace
}  // namespace sluice
