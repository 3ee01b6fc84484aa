#include "proxy/common/random_ids.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <set>
#include <string>

namespace sluice {
namespace {

// Of the next number that is not 0: an ID of zeros is invalid.
std::string next_digits(RandomIds& numbers) {
  uint64_t word = 0;
  while (word == 0) word = numbers.next();
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(word));
  return {text.rbegin() + 1, text.rend()};  // The lowest digit is the first.
}

TEST(RandomIds, DigitsOfTheNextNumbers) {
  constexpr std::array<uint64_t, 4> kState{1, 2, 3, 4};
  RandomIds ids(kState), numbers(kState);
  std::array<char, 32> digits;
  for (int i = 0; i < 1000; ++i) {
    ids.fill(digits);
    std::string expected = next_digits(numbers);
    expected += next_digits(numbers);
    ASSERT_EQ(std::string(digits.data(), digits.size()), expected);
  }
}

TEST(RandomIds, DifferByTheSeed) {
  std::set<std::string> all;
  for (int i = 0; i < 100; ++i) {
    std::array<char, 16> digits;
    RandomIds().fill(digits);
    all.emplace(digits.data(), digits.size());
  }
  EXPECT_EQ(all.size(), 100U);
}

}  // namespace
}  // namespace sluice
