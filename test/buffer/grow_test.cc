// Growing by bytes of one value, and room for bytes that are written in place.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;
using test::windows_of;
using Windows = std::vector<std::string>;

class GrowTest : public test::PoolTest {};
using ReserveTest = GrowTest;
using ReserveDeathTest = GrowTest;

TEST_F(GrowTest, FillsWithTheValue) {
  Buffer buffer;
  ASSERT_TRUE(buffer.grow(pool_, 3));
  ASSERT_TRUE(buffer.grow(pool_, 2, std::byte{'x'}));
  ASSERT_TRUE(buffer.grow(pool_, 0));
  EXPECT_EQ(windows_of(buffer), Windows{std::string("\0\0\0xx", 5)});
  EXPECT_EQ(copied(), 0u) << "nothing is copied";
}

// A chunk from the pool still has its previous content.
TEST_F(GrowTest, NeverShowsOldBytes) {
  for (int i = 0; i < 3; ++i) lease_of(std::string(64, '!'));
  Buffer buffer;
  ASSERT_TRUE(buffer.grow(pool_, 64));
  EXPECT_EQ(text_of(buffer), std::string(64, '\0'));
  buffer = buffer_of("hello secret");
  buffer.truncate(6);
  ASSERT_TRUE(buffer.grow(pool_, 6));
  EXPECT_EQ(windows_of(buffer), Windows{std::string("hello \0\0\0\0\0\0", 12)});
}

TEST_F(GrowTest, FillsTheTailThenFreshChunks) {
  Buffer buffer = buffer_of("hello", 59);
  ASSERT_TRUE(buffer.grow(pool_, 59 + 2 * kMaxChunkBytes + 1, std::byte{'x'}));
  EXPECT_EQ(buffer.window_count(), 4u);
  EXPECT_EQ(buffer.window(0).size(), 64u);
  EXPECT_EQ(text_of(buffer), "hello" + std::string(59 + 2 * kMaxChunkBytes + 1, 'x'));
}

TEST_F(GrowTest, AllOrNothingWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 64 + kMaxChunkBytes});
  ChunkPool::Use use(&small);
  Buffer buffer;
  buffer.append(test::filled(Lease::allocate(small, 64), "hello"));
  EXPECT_FALSE(buffer.grow(small, 59 + kMaxChunkBytes + 1));
  EXPECT_EQ(windows_of(buffer), Windows{"hello"});
  EXPECT_EQ(small.out_bytes(), 64u);
  EXPECT_FALSE(buffer.grow(small, static_cast<size_t>(-1)));
  EXPECT_TRUE(buffer.grow(small, 59 + kMaxChunkBytes));
  EXPECT_EQ(buffer.size(), 64 + kMaxChunkBytes);
}

TEST_F(ReserveTest, ContinuesTheLastWindow) {
  Buffer buffer = buffer_of("hello", 20);
  EXPECT_EQ(buffer.tailroom(), 59u);
  Lease room = buffer.reserve(pool_, 10);
  ASSERT_TRUE(room);
  EXPECT_EQ(room.size(), 59u) << "all there is";
  std::memcpy(room.data(), " world", 6);
  room.truncate(6);
  buffer.append(std::move(room));
  EXPECT_EQ(windows_of(buffer), Windows{"hello world"});
  EXPECT_EQ(buffer.tailroom(), 53u);
  EXPECT_EQ(pool_.leaked(), 1u);
  EXPECT_EQ(copied(), 0u);
}

TEST_F(ReserveTest, TakesAFreshChunkIfTheTailIsTooSmall) {
  Buffer buffer = buffer_of("hello", 20);
  Lease room = buffer.reserve(pool_, 60);
  ASSERT_TRUE(room);
  EXPECT_EQ(room.size(), 64u);
  std::memset(room.data(), 'x', 64);
  buffer.append(std::move(room));
  EXPECT_EQ(windows_of(buffer), (Windows{"hello", std::string(64, 'x')}));
}

TEST_F(ReserveTest, DroppedReservationChangesNothing) {
  Buffer buffer = buffer_of("hello", 20);
  for (int i = 0; i < 3; ++i) {
    Lease room = buffer.reserve(pool_, 10);
    std::memset(room.data(), 'x', room.size());
  }
  EXPECT_EQ(windows_of(buffer), Windows{"hello"});
  EXPECT_EQ(buffer.tailroom(), 59u);
  EXPECT_TRUE(test::overwrite(buffer, 0, 'y'));
  Buffer empty;
  EXPECT_EQ(empty.reserve(pool_, 100).size(), 128u);
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(ReserveTest, RoomIsGivenOnce) {
  Buffer buffer = buffer_of("hello", 20);
  Lease first = buffer.reserve(pool_, 10);
  EXPECT_EQ(buffer.tailroom(), 0u);
  Lease second = buffer.reserve(pool_, 10);
  std::memset(first.data(), '1', first.size());
  std::memset(second.data(), '2', second.size());
  ASSERT_TRUE(append_copy(buffer, " world"));
  EXPECT_EQ(text_of(first), std::string(59, '1'));
  EXPECT_EQ(text_of(second), std::string(64, '2'));
  EXPECT_EQ(text_of(buffer), "hello world");
}

TEST_F(ReserveTest, ExclusiveViewIsContinued) {
  Buffer buffer;
  buffer.append(view_of("hello"));
  Lease room = buffer.reserve(pool_, 1);
  room.data()[0] = std::byte{'!'};
  room.truncate(1);
  buffer.append(std::move(room));
  EXPECT_EQ(windows_of(buffer), Windows{"hello!"});
}

TEST_F(ReserveTest, SharedChunkIsNotContinued) {
  Buffer buffer = buffer_of("hello", 20);
  const Buffer clone = buffer.clone();
  EXPECT_EQ(buffer.tailroom(), 0u);
  EXPECT_EQ(buffer.headroom(), 0u);
  Lease room = buffer.reserve(pool_, 10);
  std::memset(room.data(), 'x', room.size());
  EXPECT_EQ(text_of(clone), "hello");
  EXPECT_NE(room.data(), buffer.window(0).data() + 5);
}

TEST_F(ReserveTest, IsEmptyWhenTheBudgetIsExhausted) {
  ChunkPool small({.budget_bytes = 64});
  ChunkPool::Use use(&small);
  Buffer buffer;
  EXPECT_FALSE(buffer.reserve(small, 65));
  buffer.append(test::filled(Lease::allocate(small, 64), "hello"));
  EXPECT_FALSE(buffer.reserve(small, 60));
  EXPECT_TRUE(buffer.reserve(small, 59)) << "the tail needs no budget";
  EXPECT_EQ(text_of(buffer), "hello");
}

TEST_F(ReserveTest, RoomAtBothEnds) {
  Buffer buffer;
  EXPECT_EQ(buffer.headroom(), 0u);
  EXPECT_EQ(buffer.tailroom(), 0u);
  buffer.append(test::filled(Lease::allocate(pool_, 40, 10), "hello"));
  EXPECT_EQ(buffer.headroom(), 10u);
  EXPECT_EQ(buffer.tailroom(), 49u);
  buffer.trim_front(2);
  buffer.truncate(1);
  EXPECT_EQ(buffer.headroom(), 12u);
  EXPECT_EQ(buffer.tailroom(), 51u);
  buffer.append(lease_of("world"));
  EXPECT_EQ(buffer.headroom(), 12u);
  EXPECT_EQ(buffer.tailroom(), 59u) << "the last window's";
}

TEST_F(ReserveDeathTest, EnforcesItsPreconditions) {
  Buffer buffer;
  EXPECT_DEATH(static_cast<void>(buffer.reserve(pool_, 0)), "check failed");
  EXPECT_DEATH(static_cast<void>(buffer.reserve(pool_, kMaxChunkBytes + 1)), "check failed");
}

}  // namespace
}  // namespace sluice
