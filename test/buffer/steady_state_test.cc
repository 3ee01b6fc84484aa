// No heap allocation per event once everything was used before: not for chunks, windows, blocks or remote frees.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "sluice/cursor.h"
#include "test/buffer/allocations.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

class SteadyStateTest : public test::PoolTest {
 protected:
  // Allocations of the thousand rounds after a first one.
  template <typename Round>
  static uint64_t allocations_of(Round round) {
    round();
    const uint64_t before = test::allocations();
    for (int i = 0; i < 1000; ++i) round();
    return test::allocations() - before;
  }
};

TEST_F(SteadyStateTest, CounterCounts) {
  EXPECT_GE(allocations_of([] { ::operator delete(::operator new(8)); }), 1000u);
  EXPECT_GE(allocations_of([] { chunk_unref(heap_chunk(100)); }), 1000u);
}

TEST_F(SteadyStateTest, ChunksOfEveryTier) {
  EXPECT_EQ(allocations_of([this] {
              std::array<ChunkRef, 4 * kTierCount> chunks;
              for (size_t i = 0; i < chunks.size(); ++i) {
                chunks[i] = ChunkRef::take(pool_.get_tier(static_cast<int>(i) % kTierCount));
              }
            }),
            0u);
}

TEST_F(SteadyStateTest, ChunksThatAgeInBetween) {
  EXPECT_EQ(allocations_of([this] {
              const ChunkRef a = ChunkRef::take(pool_.get(64)), b = ChunkRef::take(pool_.get(4096));
              pool_.age();
              pool_.trim(1 << 20);
            }),
            0u);
}

TEST_F(SteadyStateTest, ChunksThatReturn) {
  EXPECT_EQ(allocations_of([this] {
              std::array<ChunkRef, 16> chunks;
              for (ChunkRef& chunk : chunks) chunk = ChunkRef::take(pool_.get(4096));
              ChunkPool::Use elsewhere(nullptr);
              for (ChunkRef& chunk : chunks) chunk = ChunkRef();
              pool_.take_remote_frees();
            }),
            0u);
}

// What a forwarded connection does, with inline windows and with blocks.
TEST_F(SteadyStateTest, Forwarding) {
  for (const size_t windows : {1u, 3u, 20u}) {
    EXPECT_EQ(allocations_of([&] {
                Buffer input, output;
                for (size_t i = 0; i < windows; ++i) {
                  Lease lease = Lease::allocate(pool_, 4096, 32);
                  lease.grow_back(1000);
                  input.append(std::move(lease));
                }
                input.prepend(Lease::allocate(pool_, 64));
                Cursor cursor(input);
                cursor.skip(cursor.u8());
                Buffer copy = input.clone();
                while (!input.empty()) output.append(input.split_front(std::min<size_t>(input.size(), 700)));
                copy.truncate(100);
                if (!output.append_copy(pool_, copy.window(0))) std::abort();
                copy.compact(pool_);
                std::array<iovec, 8> iovecs;
                while (!output.empty()) {
                  output.fill_iovecs(iovecs);
                  output.trim_front(std::min<size_t>(output.size(), 999));
                }
              }),
              0u)
        << windows << " windows";
  }
}

}  // namespace
}  // namespace sluice
