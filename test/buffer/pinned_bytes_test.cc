// The bytes that several buffers of one holder pin together.

#include "sluice/pinned_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class PinnedSumTest : public test::PoolTest {
 protected:
  static Buffer::Pinned of(std::initializer_list<const Buffer*> buffers) {
    PinnedBytes sum;
    for (const Buffer* buffer : buffers) sum.add(*buffer);
    return sum.total();
  }
};

TEST_F(PinnedSumTest, EmptyIsZero) {
  const Buffer empty{};
  EXPECT_EQ(of({&empty}).bytes, 0u);
  EXPECT_EQ(of({&empty}).wasted, 0u);
}

TEST_F(PinnedSumTest, ChunkInSeveralBuffersCountsOnce) {
  Buffer input = buffer_of(std::string(4000, 'x'));
  const Buffer output = input.split_front(1000);
  const Buffer::Pinned both = of({&input, &output});
  EXPECT_EQ(both.bytes, 4096u);
  EXPECT_EQ(both.wasted, 96u);
  EXPECT_GT(input.pinned_bytes() + output.pinned_bytes(), both.bytes) << "one by one each has at least what it holds";
}

TEST_F(PinnedSumTest, SharedChunksAreDivided) {
  Buffer input = buffer_of(std::string(100, 'x'), 300);
  const Buffer output = input.clone(), others = input.clone(), third = input.clone();
  EXPECT_EQ(of({&input, &output}).bytes, 256u) << "two windows of four";
  EXPECT_EQ(of({&input, &output}).wasted, 56u);
  EXPECT_EQ(of({&input, &output, &others, &third}).bytes, 512u);
}

TEST_F(PinnedSumTest, OverlapsAreNotMoreThanTheChunk) {
  Buffer buffer = buffer_of(std::string(60'000, 'x'));
  buffer.append(buffer.clone());
  EXPECT_EQ(buffer.pinned().bytes, kMaxChunkBytes);
  EXPECT_EQ(buffer.pinned().wasted, 0u);
}

TEST_F(PinnedSumTest, ManyChunks) {
  for (const size_t chunks : {8u, 9u, 16u, 17u, 100u, 3000u}) {
    std::vector<Buffer> buffers(3);
    for (size_t i = 0; i < chunks; ++i) {
      Buffer piece = buffer_of("ab");
      buffers[(i + 1) % 3].append(piece.split_front(1));
      buffers[i % 3].append(std::move(piece));
    }
    const Buffer::Pinned sum = of({&buffers[0], &buffers[1], &buffers[2]});
    EXPECT_EQ(sum.bytes - sum.wasted, 2 * chunks);
    size_t blocks = pool_.out_bytes() - 64 * chunks;
    EXPECT_EQ(sum.bytes, 64 * chunks + blocks) << chunks;
  }
}

}  // namespace
}  // namespace sluice
