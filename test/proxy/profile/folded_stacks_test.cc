#include "proxy/profile/folded_stacks.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

std::string name_of_number(uintptr_t address) { return absl::StrCat("f", address / 10); }

std::string folded(const FoldedStacks& stacks, double scale = 1) {
  std::string name;
  return stacks.text(scale, [&](uintptr_t address) -> std::string_view { return name = name_of_number(address); });
}

void add(FoldedStacks& stacks, std::string_view thread, std::vector<uintptr_t> frames, uint64_t weight = 1) {
  stacks.add(thread, frames, weight);
}

TEST(FoldedStacks, WritesTheOuterFunctionFirst) {
  FoldedStacks stacks;
  add(stacks, "worker 0", {30, 20, 10});
  EXPECT_EQ(folded(stacks), "worker 0;f1;f2;f3 1\n");
}

TEST(FoldedStacks, SumsWhatHasTheSameNames) {
  FoldedStacks stacks;
  add(stacks, "worker 0", {30, 10}, 2);
  add(stacks, "worker 0", {30, 10});
  add(stacks, "worker 0", {35, 10});  // Another place in the same function.
  add(stacks, "worker 0", {10});
  add(stacks, "worker 1", {30, 10});
  EXPECT_EQ(folded(stacks, 100), "worker 0;f1 100\nworker 0;f1;f3 400\nworker 1;f1;f3 100\n");
  EXPECT_EQ(stacks.samples(), 5U);
  EXPECT_EQ(stacks.lost(), 0U);
}

TEST(FoldedStacks, SaysWhatIsLost) {
  FoldedStacks stacks;
  EXPECT_EQ(folded(stacks), "");
  add(stacks, "admin", {10});
  stacks.add_lost(3);
  EXPECT_EQ(folded(stacks, 5), "admin;f1 5\n[lost samples] 3\n");
}

TEST(FoldedStacks, RoundsWhatItScales) {
  FoldedStacks stacks;
  add(stacks, "worker 0", {10}, 1499);
  add(stacks, "worker 0", {20}, 1500);
  add(stacks, "worker 0", {25}, 900);  // Of the same function: sums are rounded, and not their parts.
  EXPECT_EQ(folded(stacks, 0.001), "worker 0;f1 1\nworker 0;f2 2\n");
}

TEST(FoldedStacks, HasALimit) {
  FoldedStacks stacks;
  for (uintptr_t i = 0; i < FoldedStacks::kMaxStacks + 5; ++i) add(stacks, "worker 0", {i});
  add(stacks, "worker 0", {7});
  EXPECT_EQ(stacks.samples(), FoldedStacks::kMaxStacks + 1);
  EXPECT_EQ(stacks.lost(), 5U);
}

TEST(SampleRing, GivesBackWhatWasPut) {
  SampleRing ring(16);
  std::array<uintptr_t, SampleRing::kMaxFrames> frames{};
  uint64_t weight = 0;
  EXPECT_EQ(ring.take(frames, weight), 0U);
  const std::array<uintptr_t, 3> first{1, 2, 3};
  for (uint64_t round = 0; round < 20; ++round) {  // It wraps around.
    ring.put(first, round);
    ring.put(std::span(first).first(1), round + 100);
    ASSERT_EQ(ring.take(frames, weight), 3U);
    EXPECT_EQ(weight, round);
    EXPECT_EQ(frames[2], 3U);
    ASSERT_EQ(ring.take(frames, weight), 1U);
    EXPECT_EQ(weight, round + 100);
    EXPECT_EQ(ring.take(frames, weight), 0U);
  }
  EXPECT_EQ(ring.lost(), 0U);
}

TEST(SampleRing, CountsWhatDoesNotFit) {
  SampleRing ring(16);
  const std::array<uintptr_t, 6> frames{1, 2, 3, 4, 5, 6};
  for (int i = 0; i < 5; ++i) ring.put(frames, 1);
  EXPECT_EQ(ring.lost(), 3U);
  FoldedStacks stacks;
  stacks.add_all("worker 0", ring);
  EXPECT_EQ(stacks.samples(), 2U);
  ring.put(frames, 1);  // There is room again.
  stacks.add_all("worker 0", ring);
  EXPECT_EQ(stacks.samples(), 3U);
}

}  // namespace
}  // namespace sluice
