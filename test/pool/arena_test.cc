#include "pool/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "test/pool/resident.h"

namespace sluice {
namespace {

constexpr size_t kSlab = Arena::kSlabBytes;

TEST(Arena, HandsOutEachSlabOnceUntilTheReservationIsUsedUp) {
  Arena arena({.reserve_bytes = 3 * kSlab});
  EXPECT_EQ(arena.slab_limit(), 3u);
  EXPECT_EQ(arena.slabs_taken(), 0u);
  for (uint16_t i = 0; i < 3; ++i) {
    const uint16_t slab = arena.take();
    ASSERT_EQ(slab, i);
    EXPECT_EQ(arena.slab_data(slab), arena.slab_data(0) + i * kSlab);
    std::memset(arena.slab_data(slab), 0xaa, kSlab);
  }
  EXPECT_EQ(arena.slabs_taken(), 3u);
  EXPECT_EQ(arena.take(), Arena::kNoSlab);
  EXPECT_EQ(arena.slabs_taken(), 3u);
}

TEST(Arena, RoundsTheReservationUpToWholeSlabs) {
  EXPECT_EQ(Arena({.reserve_bytes = 0}).slab_limit(), 1u);
  EXPECT_EQ(Arena({.reserve_bytes = 1}).slab_limit(), 1u);
  EXPECT_EQ(Arena({.reserve_bytes = kSlab}).slab_limit(), 1u);
  EXPECT_EQ(Arena({.reserve_bytes = kSlab + 1}).slab_limit(), 2u);
  EXPECT_EQ(Arena({.reserve_bytes = 100'000 * kSlab}).slab_limit(), 65'534u);
}

TEST(Arena, ReservesAddressesNotMemory) {
  Arena arena({.reserve_bytes = 64 * kSlab});
  EXPECT_EQ(test::resident_bytes(arena.slab_data(0), 64 * kSlab), 0u);
  std::memset(arena.slab_data(arena.take()), 1, test::page_bytes());
  EXPECT_EQ(test::resident_bytes(arena.slab_data(0), 64 * kSlab), test::page_bytes());
}

TEST(Arena, ReusesTheSlabReturnedLast) {
  Arena arena({.reserve_bytes = 4 * kSlab});
  const uint16_t a = arena.take(), b = arena.take();
  arena.give_back(a);
  arena.give_back(b);
  EXPECT_EQ(arena.slabs_taken(), 0u);
  EXPECT_EQ(arena.take(), b);
  EXPECT_EQ(arena.take(), a);
  EXPECT_EQ(arena.take(), 2);
}

TEST(Arena, ReturnFreesThePagesAndKeepsTheAddresses) {
  Arena arena({.reserve_bytes = 2 * kSlab});
  const uint16_t a = arena.take(), b = arena.take();
  std::memset(arena.slab_data(a), 1, kSlab);
  std::memset(arena.slab_data(b), 2, kSlab);
  EXPECT_EQ(test::resident_bytes(arena.slab_data(a), kSlab), kSlab);
  arena.give_back(a);
  EXPECT_EQ(test::resident_bytes(arena.slab_data(a), kSlab), 0u);
  EXPECT_EQ(test::resident_bytes(arena.slab_data(b), kSlab), kSlab);
  ASSERT_EQ(arena.take(), a);
  EXPECT_EQ(arena.slab_data(a)[kSlab - 1], std::byte{0});
  EXPECT_EQ(arena.slab_data(b)[0], std::byte{2});
}

TEST(Arena, DiscardsAPartOfASlab) {
  Arena arena({.reserve_bytes = kSlab});
  std::byte* data = arena.slab_data(arena.take());
  std::memset(data, 7, kSlab);
  const size_t page = test::page_bytes();
  arena.discard(data + page, page);
  EXPECT_EQ(test::resident_bytes(data, kSlab), kSlab - page);
  EXPECT_EQ(data[page - 1], std::byte{7});
  EXPECT_EQ(data[page], std::byte{0});
  EXPECT_EQ(data[2 * page], std::byte{7});
}

TEST(Arena, UnmapsAtTheEndUnlessAbandoned) {
  std::byte* data = nullptr;
  {
    Arena arena({.reserve_bytes = kSlab});
    data = arena.slab_data(arena.take());
    EXPECT_TRUE(test::is_mapped(data));
  }
  EXPECT_FALSE(test::is_mapped(data));
  {
    Arena arena({.reserve_bytes = kSlab});
    data = arena.slab_data(arena.take());
    std::memset(data, 9, kSlab);
    arena.abandon();
  }
  ASSERT_TRUE(test::is_mapped(data));
  EXPECT_EQ(data[kSlab - 1], std::byte{9});
  munmap(data, kSlab);
}

TEST(ArenaDeathTest, AcceptsOnlyItsOwnSlabs) {
  Arena arena({.reserve_bytes = 2 * kSlab});
  arena.take();
  EXPECT_DEATH(arena.give_back(1), "check failed");
}

}  // namespace
}  // namespace sluice
