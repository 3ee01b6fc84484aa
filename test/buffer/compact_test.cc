// The memory that a buffer pins, and how it releases most of it before a connection waits.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sluice/copied.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class CompactTest : public test::PoolTest {};

TEST_F(CompactTest, WindowPinsItsWholeChunk) {
  Buffer buffer = buffer_of("a", 4000);
  EXPECT_EQ(buffer.pinned_bytes(), 4096u);
  buffer.append(lease_of("b"));
  EXPECT_EQ(buffer.pinned_bytes(), 4096u + 64u);
}

TEST_F(CompactTest, HoldersShareWhatTheyPin) {
  Buffer buffer = buffer_of(std::string(4000, 'x'));
  Buffer front = buffer.split_front(1);
  EXPECT_EQ(front.pinned_bytes(), 2048u);
  EXPECT_EQ(buffer.pinned_bytes(), 3999u) << "at least what it holds";
  Buffer second = front.clone(), third = front.clone();
  EXPECT_EQ(front.pinned_bytes(), 1024u);
  buffer.clear();
  second.clear();
  third.clear();
  EXPECT_EQ(front.pinned_bytes(), 4096u);
}

TEST_F(CompactTest, ReportsWastedBytes) {
  Buffer buffer;
  EXPECT_EQ(buffer.pinned().bytes, 0u);
  EXPECT_EQ(buffer.pinned().wasted, 0u);
  buffer.append(lease_of(std::string(1000, 'x')));
  EXPECT_EQ(buffer.pinned().wasted, 24u);
  buffer.trim_front(900);
  EXPECT_EQ(buffer.pinned().bytes, 1024u);
  EXPECT_EQ(buffer.pinned().wasted, 924u);
  Buffer clone = buffer.clone();
  EXPECT_EQ(buffer.pinned().wasted, 412u) << "half of the chunk is the other's";
  EXPECT_EQ(clone.pinned().wasted, 412u);
  clone.clear();
  buffer.append(lease_of(std::string(64, 'x')));
  EXPECT_EQ(buffer.pinned().wasted, 924u) << "a full chunk wastes nothing";
  for (int i = 0; i < 2; ++i) buffer.append(lease_of(std::string(64, 'x')));
  EXPECT_EQ(buffer.pinned().wasted, 924u + 256u) << "a block of windows holds no byte";
  EXPECT_EQ(buffer.pinned().bytes, buffer.pinned_bytes());
}

TEST_F(CompactTest, MovesLeftoversToTheSmallestTier) {
  Buffer buffer = buffer_of(std::string(16384, 'x'));
  buffer.trim_front(16384 - 100);
  EXPECT_EQ(buffer.pinned_bytes(), 16384u);
  const uint64_t before = copied_bytes;
  EXPECT_TRUE(buffer.compact(pool_));
  EXPECT_EQ(copied_bytes - before, 100u);
  EXPECT_EQ(text_of(buffer), std::string(100, 'x'));
  EXPECT_EQ(buffer.pinned_bytes(), 128u);
  EXPECT_EQ(pool_.out_bytes(), 128u);
  EXPECT_TRUE(test::overwrite(buffer, 0, 'y'));
  EXPECT_FALSE(buffer.compact(pool_)) << "there is no better place";
}

// Defect: the decision to move bytes was based on the share that a buffer had of its chunks at that moment. A thousand
// connections that each had a byte of one chunk moved nothing; when all but one had closed, that one pinned the whole
// chunk.
TEST_F(CompactTest, ManyHoldersOfOneChunkMoveTheirBytes) {
  Buffer rest = buffer_of(std::string(16384, 'x'));
  std::vector<Buffer> buffers;
  for (int i = 0; i < 1000; ++i) buffers.push_back(rest.split_front(1));
  rest.clear();
  for (Buffer& buffer : buffers) EXPECT_TRUE(buffer.compact(pool_));
  buffers.resize(1);
  EXPECT_EQ(pool_.out_bytes(), 64u);
  EXPECT_EQ(text_of(buffers[0]), "x");
}

TEST_F(CompactTest, JoinsWindowsAndDropsTheBlocks) {
  Buffer buffer;
  for (int i = 0; i < 10; ++i) buffer.append(lease_of(std::string(10, static_cast<char>('0' + i)), 1000));
  EXPECT_EQ(buffer.pinned_bytes(), 10 * 1024u + 256u);
  EXPECT_TRUE(buffer.compact(pool_));
  EXPECT_EQ(buffer.window_count(), 1u);
  EXPECT_EQ(buffer.pinned_bytes(), 128u);
  EXPECT_EQ(pool_.leaked(), 1u);
  EXPECT_EQ(text_of(buffer).substr(0, 20), "00000000001111111111");
}

// Defect: a chunk was counted once for each window onto it, so that bytes with a gap were copied to a chunk of the same
// size.
TEST_F(CompactTest, ChunkWithAGapCountsOnce) {
  Buffer buffer = buffer_of(std::string(60'000, 'x'));
  Buffer front = buffer.split_front(30'000);
  buffer.trim_front(100);
  front.append(std::move(buffer));
  ASSERT_EQ(front.window_count(), 2u);
  EXPECT_EQ(front.pinned_bytes(), kMaxChunkBytes);
  EXPECT_EQ(front.pinned().wasted, kMaxChunkBytes - 59'900);
  const uint64_t before = copied_bytes;
  EXPECT_FALSE(front.compact(pool_));
  EXPECT_EQ(copied_bytes, before);
}

TEST_F(CompactTest, RepeatedChunkCountsOnce) {
  // a b a b ..., each with a gap, and many windows.
  for (const size_t pieces : {2u, 5u, 50u, 500u}) {
    Buffer a = buffer_of(std::string(16'000, 'a')), b = buffer_of(std::string(16'000, 'b'));
    Buffer buffer;
    const size_t each = 16'000 / pieces;
    for (size_t i = 0; i < pieces; ++i) {
      for (Buffer* from : {&a, &b}) {
        buffer.append(from->split_front(each - 1));
        from->trim_front(1);
      }
    }
    a.clear();
    b.clear();
    ASSERT_EQ(buffer.window_count(), 2 * pieces);
    const size_t blocks = buffer.pinned_bytes() - 2 * 16'384;
    EXPECT_EQ(blocks, 2 * pieces > 3 ? (2 * pieces + 12) / 13 * 256 : 0);
    // All but a block's bytes would go to one chunk of 32 KiB.
    EXPECT_EQ(buffer.compact(pool_), 2 * pieces >= 500 && 2 * 16'384 + blocks >= 65'536) << pieces;
  }
}

TEST_F(CompactTest, OnlyWhenItFreesHalf) {
  const struct {
    size_t chunk, used;
    bool settles;
  } cases[] = {
      {64, 1, false},      {128, 64, true},  {128, 65, false},     {4096, 2048, true},
      {4096, 2049, false}, {65536, 1, true}, {65536, 32768, true}, {65536, 32769, false},
  };
  for (const auto& c : cases) {
    Buffer buffer = buffer_of(std::string(c.chunk, 'x'));
    buffer.truncate(c.used);
    EXPECT_EQ(buffer.compact(pool_), c.settles) << c.used << " of " << c.chunk;
    EXPECT_EQ(buffer.size(), c.used);
  }
}

TEST_F(CompactTest, FullChunksStay) {
  Buffer buffer;
  for (int i = 0; i < 3; ++i) buffer.append(lease_of(std::string(4096, 'x')));
  EXPECT_FALSE(buffer.compact(pool_));
  EXPECT_EQ(buffer.window_count(), 3u);
}

TEST_F(CompactTest, MoreThanTheLargestTierStays) {
  Buffer buffer;
  for (int i = 0; i < 5; ++i) buffer.append(lease_of(std::string(14000, 'x'), 50000));
  EXPECT_GT(buffer.pinned_bytes(), 4 * kMaxChunkBytes);
  EXPECT_FALSE(buffer.compact(pool_));
  EXPECT_EQ(buffer.window_count(), 5u);
  buffer.truncate(kMaxChunkBytes);
  EXPECT_TRUE(buffer.compact(pool_));
  EXPECT_EQ(buffer.pinned_bytes(), kMaxChunkBytes);
}

TEST_F(CompactTest, ExhaustedBudgetChangesNothing) {
  ChunkPool small({.budget_bytes = 4096});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 4096), "hello"));
  EXPECT_FALSE(buffer.compact(small));
  EXPECT_EQ(text_of(buffer), "hello");
  EXPECT_EQ(buffer.pinned_bytes(), 4096u);
}

TEST_F(CompactTest, ClonePinsItsShare) {
  Buffer buffer = buffer_of(std::string(100, 'x'), 150);
  Buffer clone = buffer.clone();
  clone.truncate(10);
  EXPECT_EQ(clone.pinned_bytes(), 128u);
  EXPECT_TRUE(clone.compact(pool_));
  EXPECT_EQ(text_of(buffer), std::string(100, 'x'));
  EXPECT_TRUE(test::overwrite(buffer, 0, 'y')) << "the other has left";
  EXPECT_EQ(text_of(clone), std::string(10, 'x'));
}

}  // namespace
}  // namespace sluice
