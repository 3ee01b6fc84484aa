// Design invariants 2 and 3: in the steady state plain forwarding copies nothing and allocates nothing.

#include <gtest/gtest.h>

#include "test/support/allocations.h"
#include "test/support/forwarding.h"

namespace sluice {
namespace {

class SteadyState : public testing::TestWithParam<std::tuple<RingsMode, size_t>> {};

TEST_P(SteadyState, AThousandRequestsAllocateAndCopyNothing) {
  const auto [rings, bytes] = GetParam();
  test::Forwarding forwarding(rings);
  for (int i = 0; i < 1000; ++i) forwarding.round_trip(bytes);
  const uint64_t copied = forwarding.gauges().copied_bytes.value();
  const uint64_t allocated = test::allocations.load();
  for (int i = 0; i < 1000; ++i) forwarding.round_trip(bytes);
  if (test::kAllocationsCounted) {
    EXPECT_EQ(test::allocations.load() - allocated, 0u);
  }
  EXPECT_EQ(forwarding.gauges().copied_bytes.value() - copied, 0u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SteadyState,
                         testing::Combine(testing::Values(RingsMode::kAuto, RingsMode::kPlain),
                                          testing::Values(size_t{120}, size_t{16384})));

}  // namespace
}  // namespace sluice
