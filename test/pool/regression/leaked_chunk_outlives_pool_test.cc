// Defect: the leak path of ~ChunkPool kept a leaked chunk's memory, but the chunk still referred to the destroyed pool
// as its home. A holder that outlived the pool (a Buffer declared before it, for example) wrote into the pool's
// remote_frees when it released the chunk.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <thread>

#include "sluice/chunk_pool.h"
#include "test/support/another_reference.h"

namespace sluice {
namespace {

TEST(RegressionDeathTest, LeakedChunkMayBeReleasedAfterItsPool) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        // The memory of the pool is then filled with bytes that make an invalid pool.
        alignas(ChunkPool) static std::byte place[sizeof(ChunkPool)];
        ChunkPool* const pool = new (place) ChunkPool({.budget_bytes = 1 << 20});
        ChunkRef here = ChunkRef::take(pool->get(64));
        ChunkRef there = ChunkRef::take(pool->get(4096));
        const ChunkRef shared = test::another_reference(here);
        pool->~ChunkPool();
        std::memset(place, 0xff, sizeof(place));
        std::memset(there.data(), 1, there.capacity());
        here = ChunkRef();
        std::thread([chunk = std::move(there)] {}).join();
        for (const std::byte byte : place) {
          if (byte != std::byte{0xff}) _exit(1);
        }
        _exit(shared.data() != nullptr ? 0 : 1);
      },
      testing::ExitedWithCode(0), "leak: 4160 bytes");
}

}  // namespace
}  // namespace sluice
