#include "sluice/version.h"

#include <gtest/gtest.h>

#include <string>

#if SLUICE_VERSION < 100
#error "The preprocessor must be able to compare versions."
#endif

namespace sluice {
namespace {

TEST(Version, NumberAndTextAgree) {
  const std::string text = std::to_string(SLUICE_VERSION / 10000) + "." + std::to_string(SLUICE_VERSION / 100 % 100) +
                           "." + std::to_string(SLUICE_VERSION % 100);
  EXPECT_EQ(text, SLUICE_VERSION_STRING);
}

}  // namespace
}  // namespace sluice
