#include "proxy/upstream/check_thresholds.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace sluice {
namespace {

// The states after the results `+` and `-`: `h` or `u` for each, in capitals where the state has just changed.
std::string after(std::string_view results, uint32_t healthy_after = 2, uint32_t unhealthy_after = 3) {
  CheckThresholds thresholds(healthy_after, unhealthy_after);
  EXPECT_TRUE(thresholds.healthy());
  std::string states;
  for (const char result : results) {
    const bool changed = thresholds.take(result == '+');
    states += thresholds.healthy() ? (changed ? 'H' : 'h') : (changed ? 'U' : 'u');
  }
  return states;
}

TEST(CheckThresholdsTest, FirstResultDecides) {
  EXPECT_EQ(after("-"), "U");
  EXPECT_EQ(after("+"), "h");
  EXPECT_EQ(after("-++"), "UuH");
}

TEST(CheckThresholdsTest, ThresholdsInARow) {
  EXPECT_EQ(after("+---"), "hhhU");
  EXPECT_EQ(after("+---++"), "hhhUuH");
  EXPECT_EQ(after("+-", 1, 1), "hU");
  EXPECT_EQ(after("+-+", 1, 1), "hUH");
  EXPECT_EQ(after("-++++", 4, 1), "UuuuH");
}

// Only results in a row count.
TEST(CheckThresholdsTest, Flapping) {
  EXPECT_EQ(after("+--+--+--+--"), "hhhhhhhhhhhh");
  EXPECT_EQ(after("-+-+-+-+-+-"), "Uuuuuuuuuuu");
  EXPECT_EQ(after("+---+--+-++---"), "hhhUuuuuuuHhhU");
}

}  // namespace
}  // namespace sluice
