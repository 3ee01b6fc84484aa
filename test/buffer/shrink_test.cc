#include "test/buffer/shrink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice {
namespace {

using Bytes = std::vector<uint8_t>;

bool has(const Bytes& bytes, uint8_t byte) { return std::find(bytes.begin(), bytes.end(), byte) != bytes.end(); }

TEST(Shrink, LeavesWhatIsNeeded) {
  Bytes bytes(1000, 1);
  bytes[123] = 7;
  bytes[877] = 9;
  EXPECT_EQ(test::shrunk(bytes, [](const Bytes& b) { return has(b, 7) && has(b, 9); }), (Bytes{7, 9}));
}

TEST(Shrink, MakesTheRestZero) {
  Bytes bytes(100, 5);
  bytes[50] = 7;
  EXPECT_EQ(test::shrunk(bytes, [](const Bytes& b) { return b.size() >= 4 && has(b, 7); }), (Bytes{7, 0, 0, 0}));
}

TEST(Shrink, MayLeaveNothing) {
  EXPECT_EQ(test::shrunk(Bytes(100, 5), [](const Bytes&) { return true; }), Bytes{});
  EXPECT_EQ(test::shrunk(Bytes{}, [](const Bytes&) { return true; }), Bytes{});
}

TEST(Shrink, GivesUpInTime) {
  size_t calls = 0;
  const Bytes bytes(1000, 5);
  EXPECT_EQ(test::shrunk(bytes, [&](const Bytes& b) { return ++calls, b.size() == 1000; }, 50), bytes);
  EXPECT_EQ(calls, 50u);
}

}  // namespace
}  // namespace sluice
