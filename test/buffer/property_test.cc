// Random programs over many buffers, compared with a model (test/support/buffer_program.h).
//
//   SLUICE_PROPERTY_STEPS=10000000 build/release/test/buffer_test --gtest_filter='Property.*'     the long form
//   SLUICE_PROPERTY_SEED=<seed>    ...                                                            one program again

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "test/support/buffer_program.h"

namespace sluice {
namespace {

constexpr size_t kDefaultSteps = 20'000;

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::vector<uint8_t> random_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> program(200 + random() % 8000);
  for (uint8_t& byte : program) byte = static_cast<uint8_t>(random());
  return program;
}

// Names the program that runs, should it end the process: a sanitizer and a failed check do.
class Announce {
 public:
  explicit Announce(uint64_t seed) {
    std::fprintf(stderr, "SLUICE_PROPERTY_SEED=%llu", static_cast<unsigned long long>(seed));
  }
  ~Announce() { std::fprintf(stderr, "\r%40s\r", ""); }
};

TEST(Property, BuffersBehaveLikeStrings) {
  const uint64_t only = number_from_environment("SLUICE_PROPERTY_SEED", 0);
  const uint64_t wanted = number_from_environment("SLUICE_PROPERTY_STEPS", kDefaultSteps);
  size_t steps = 0;
  for (uint64_t seed = only ? only : 1; steps < wanted && (!only || seed == only); ++seed) {
    const Announce announce(seed);
    const std::vector<uint8_t> bytes = random_program(seed);
    test::BufferProgram program(bytes);
    const std::string problem = program.run();
    ASSERT_EQ(problem, "") << "again: SLUICE_PROPERTY_SEED=" << seed;
    steps += program.steps();
  }
  EXPECT_GT(steps, 0u);
  RecordProperty("steps", std::to_string(steps));
}

}  // namespace
}  // namespace sluice
