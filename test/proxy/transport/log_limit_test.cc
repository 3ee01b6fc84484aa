#include "proxy/common/log_limit.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(LogLimit, LetsTheFirstOfEachSecondThrough) {
  LogLimit limit;
  for (uint64_t second : {0, 1, 7}) {
    for (uint32_t i = 0; i < LogLimit::kPerSecond; ++i) EXPECT_TRUE(limit.admits(second * 1000 + i));
    EXPECT_FALSE(limit.admits(second * 1000 + 500));
    EXPECT_FALSE(limit.admits(second * 1000 + 999));
  }
}

}  // namespace
}  // namespace sluice
