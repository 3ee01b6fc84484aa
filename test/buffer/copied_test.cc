// Which operations copy payload, and how many bytes: `copied_bytes` is the number that the proxy reports.

#include "sluice/copied.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <utility>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class CopiedTest : public test::PoolTest {
 protected:
  uint64_t copied_since_start() const { return copied_bytes - start_; }
  const uint64_t start_ = copied_bytes;
};

TEST_F(CopiedTest, MovingWindowsCopiesNothing) {
  Buffer input;
  for (int i = 0; i < 10; ++i) input.append(lease_of(std::string(1000, 'x')));
  Buffer output;
  while (!input.empty()) output.append(input.split_front(std::min<size_t>(input.size(), 333)));
  Buffer clone = output.clone();
  clone.trim_front(5000);
  clone.truncate(1000);
  output.prepend(view_of("header"));
  Lease lease = lease_of("hello");
  lease.trim_front(1);
  output.append(lease.split_off(2));
  output.append(std::move(lease).freeze());
  std::array<iovec, 4> iovecs;
  output.fill_iovecs(iovecs);
  Buffer moved = std::move(output);
  std::array<std::byte, 6> scratch;
  moved.fetch(6, scratch);  // In one window.
  EXPECT_EQ(copied_since_start(), 0u);
}

TEST_F(CopiedTest, CopiesAreCountedInBytes) {
  Buffer buffer = buffer_of("hello");
  buffer.append(lease_of("world"));
  std::array<std::byte, 8> to;
  EXPECT_EQ(buffer.copy_out(4, to), 6u);
  EXPECT_EQ(copied_since_start(), 6u);
  buffer.fetch(7, to);
  EXPECT_EQ(copied_since_start(), 6u + 7u);
  ASSERT_TRUE(append_copy(buffer, "12345"));
  EXPECT_EQ(copied_since_start(), 6u + 7u + 5u);
}

TEST_F(CopiedTest, EachThreadCountsSeparately) {
  std::array<char, 10> from{}, to;
  std::thread([&] {
    counted_copy(to.data(), from.data(), 10);
    EXPECT_EQ(copied_bytes, 10u);
  }).join();
  EXPECT_EQ(copied_since_start(), 0u);
}

}  // namespace
}  // namespace sluice
