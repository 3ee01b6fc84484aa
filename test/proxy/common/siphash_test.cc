#include "proxy/common/siphash.h"

#include <gtest/gtest.h>
#include <openssl/siphash.h>

#include <random>
#include <vector>

namespace sluice {
namespace {

// The length is counted modulo 256 bytes: 32 words.
TEST(SipHash, IsThatOfBoringSsl) {
  std::mt19937_64 random(1);
  for (size_t count = 0; count < 70; ++count) {
    for (int i = 0; i < 20; ++i) {
      const uint64_t key[2] = {random(), random()};
      std::vector<uint64_t> words(count);
      for (uint64_t& word : words) word = random();
      EXPECT_EQ(siphash_24(key, words), SIPHASH_24(key, reinterpret_cast<const uint8_t*>(words.data()), count * 8));
    }
  }
}

}  // namespace
}  // namespace sluice
