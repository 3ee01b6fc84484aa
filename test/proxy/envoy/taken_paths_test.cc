// Paths that earlier routes take.
#include "proxy/envoy/taken_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sluice::envoy {
namespace {

using Kind = PathSet::Kind;

TEST(TakenPathsTest, ByKind) {
  TakenPaths taken;
  EXPECT_FALSE(taken.take_all_of({.kind = Kind::kExact, .text = "/a"}));
  taken.add({.kind = Kind::kSegments, .text = "/a"});
  taken.add({.kind = Kind::kBytes, .text = "/by"});
  taken.add({.kind = Kind::kExact, .text = "/only", .any_case = true});
  EXPECT_TRUE(taken.take_all_of({.kind = Kind::kExact, .text = "/a"}));
  EXPECT_TRUE(taken.take_all_of({.kind = Kind::kExact, .text = "/a/b"}));
  EXPECT_FALSE(taken.take_all_of({.kind = Kind::kExact, .text = "/ab"}));
  EXPECT_TRUE(taken.take_all_of({.kind = Kind::kSegments, .text = "/bytes"}));
  EXPECT_FALSE(taken.take_all_of({.kind = Kind::kBytes, .text = "/b"}));
  EXPECT_FALSE(taken.take_all_of({.kind = Kind::kAll}));
  taken.add({.kind = Kind::kAll});
  EXPECT_TRUE(taken.take_all_of({.kind = Kind::kRegex, .text = ".*"}));
  EXPECT_TRUE(taken.take_all_of({.kind = Kind::kAll}));
}

// Defect: each route of a virtual host was compared with all before it, so that 5,000 routes took seconds.
TEST(TakenPathsTest, IsWhatAComparisonOfEachPairSays) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time.
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  size_t taken_routes = 0;
  for (int round = 0; round < 2000; ++round) {
    TakenPaths taken;
    std::vector<PathSet> before;
    for (int i = 0; i < 8; ++i) {
      PathSet path{.kind = static_cast<Kind>(1 + below(4)), .any_case = false};
      for (size_t n = 1 + below(3); n > 0; --n) path.text += below(2) == 0 ? "/a" : below(2) == 0 ? "/A" : "b";
      if (below(4) == 0) path.text += "/";
      if (path.kind != Kind::kRegex) path.any_case = below(8) == 0;
      if (below(40) == 0) path = {.kind = Kind::kAll};
      const bool expected = std::any_of(before.begin(), before.end(),
                                        [&](const PathSet& each) { return overlap_of(path, each) == Overlap::kAll; });
      ASSERT_EQ(taken.take_all_of(path), expected) << path.text << " of kind " << static_cast<int>(path.kind);
      taken_routes += expected;
      taken.add(path);
      before.push_back(path);
    }
  }
  EXPECT_GT(taken_routes, 100u);
}

}  // namespace
}  // namespace sluice::envoy
