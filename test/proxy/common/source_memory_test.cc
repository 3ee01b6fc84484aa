#include "proxy/common/source_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace sluice {
namespace {

constexpr size_t kKib = 1024;

Source source(uint32_t number) {
  const std::array<uint8_t, 4> address = {10, static_cast<uint8_t>(number >> 16), static_cast<uint8_t>(number >> 8),
                                          static_cast<uint8_t>(number)};
  Source result;
  EXPECT_TRUE(Source::from(address, result));
  return result;
}

TEST(SourceMemoryTest, ReportsTheLastCompleteRound) {
  SourceMemory memory;
  memory.begin_round();
  memory.add(source(1), 5 * kKib);
  memory.add(source(1), 7 * kKib);
  EXPECT_EQ(memory.held(source(1)), 0u) << "the round is under way";
  memory.begin_round();
  memory.add(source(1), 1 * kKib);
  EXPECT_EQ(memory.held(source(1)), 12 * kKib);
  memory.begin_round();
  EXPECT_EQ(memory.held(source(1)), 1 * kKib);
  memory.begin_round();
  EXPECT_EQ(memory.held(source(1)), 0u);
}

// Its size is fixed: with more sources than columns it reports too much for some, but never too little.
TEST(SourceMemoryTest, NeverReportsLess) {
  SourceMemory memory;
  memory.begin_round();
  constexpr uint32_t kSources = 10'000;
  for (uint32_t i = 0; i < kSources; ++i) memory.add(source(i), (1 + i % 16) * kKib);
  memory.begin_round();
  for (uint32_t i = 0; i < kSources; ++i) ASSERT_GE(memory.held(source(i)), (1 + i % 16) * kKib) << i;
}

TEST(SourceMemoryTest, AThousandSourcesRarelyCollide) {
  SourceMemory memory;
  memory.begin_round();
  for (uint32_t i = 0; i < 1000; ++i) memory.add(source(i), 1024 * kKib);
  memory.begin_round();
  size_t wrong = 0;
  for (uint32_t i = 1000; i < 2000; ++i) wrong += memory.held(source(i)) > 0;
  // Each row holds 1,000 sources in 2,048 columns: an idle source meets one in both rows with p = (1 - e^-0.49)^2 =
  // 0.15.
  EXPECT_LT(wrong, 300u);
}

TEST(SourceTest, TakesAddressesOf4And16BytesOnly) {
  Source result;
  const std::array<uint8_t, 16> bytes{};
  EXPECT_TRUE(Source::from(std::span(bytes).first(4), result));
  EXPECT_FALSE(result.ipv6);
  EXPECT_TRUE(Source::from(bytes, result));
  EXPECT_TRUE(result.ipv6);
  EXPECT_FALSE(Source::from(std::span(bytes).first(0), result)) << "as of a Unix socket";
  EXPECT_FALSE(Source::from(std::span(bytes).first(8), result));
}

}  // namespace
}  // namespace sluice
