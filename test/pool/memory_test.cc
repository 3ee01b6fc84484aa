// Pools over memory that their caller provides.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "pool/arena.h"
#include "pool/sanitizer.h"
#include "sluice/budget.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"
#include "test/pool/resident.h"

namespace sluice {
namespace {

constexpr size_t kSlab = Arena::kSlabBytes;

class MemoryTest : public testing::Test {
 protected:
  struct Released {
    int times = 0;
    std::byte* data = nullptr;
    size_t bytes = 0;
  };

  ~MemoryTest() override { munmap(data_, kBytes); }

  ChunkPool::Options options(size_t budget_bytes = size_t{1} << 30) {
    return {.budget_bytes = budget_bytes,
            .memory = {.data = data_, .bytes = kBytes - 1, .release = &note, .context = &released_}};
  }
  bool inside(const std::byte* data, size_t bytes) const { return data >= data_ && data + bytes <= data_ + 4 * kSlab; }
  static void note(void* context, std::byte* data, size_t bytes) {
    Released& released = *static_cast<Released*>(context);
    released = {released.times + 1, data, bytes};
  }

  static constexpr size_t kBytes = 5 * kSlab;  // The pool is given one byte less, and so uses four slabs.
  std::byte* const data_ =
      static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Released released_;
};

TEST_F(MemoryTest, AllChunksLieInIt) {
  ChunkPool pool(options());
  ChunkPool::Use use(&pool);
  EXPECT_EQ(pool.budget_bytes(), 4 * kSlab);
  EXPECT_EQ(pool.source(), ChunkPool::Source::kArena);
  std::vector<ChunkRef> chunks;
  while (ChunkRef chunk = ChunkRef::take(pool.get(16 << 10))) {
    ASSERT_TRUE(inside(chunk.data(), chunk.capacity()));
    std::memset(chunk.data(), 1, chunk.capacity());
    chunks.push_back(std::move(chunk));
  }
  EXPECT_EQ(chunks.size(), 4 * kSlab / (16 << 10)) << "all of it is used";
  std::sort(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) { return a.data() < b.data(); });
  for (size_t i = 1; i < chunks.size(); ++i) EXPECT_EQ(chunks[i].data(), chunks[i - 1].data() + (16 << 10));
  EXPECT_EQ(pool.headroom_bytes(), 0u);
  chunks.pop_back();
  EXPECT_EQ(pool.headroom_bytes(), size_t{16} << 10);
}

TEST_F(MemoryTest, SmallerBudgetHolds) {
  ChunkPool pool(options(kSlab));
  EXPECT_EQ(pool.budget_bytes(), kSlab);
}

TEST_F(MemoryTest, IsReleasedOnceWhenThePoolEnds) {
  {
    ChunkPool pool(options());
    ChunkPool::Use use(&pool);
    EXPECT_TRUE(ChunkRef::take(pool.get(100)));
    pool.trim_all();
    EXPECT_EQ(released_.times, 0);
  }
  EXPECT_EQ(released_.times, 1);
  EXPECT_EQ(released_.data, data_);
  EXPECT_EQ(released_.bytes, kBytes - 1);
  std::memset(data_, 1, kBytes);  // Usable by its owner, also under AddressSanitizer.
}

TEST_F(MemoryTest, IsNotReleasedWhileChunksAreInUse) {
  ChunkRef chunk;
  testing::internal::CaptureStderr();
  {
    ChunkPool pool(options());
    chunk = ChunkRef::take(pool.get(100));
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("leak"), std::string::npos);
  EXPECT_EQ(released_.times, 0);
  std::memset(chunk.data(), 1, 100);
}

TEST_F(MemoryTest, WithoutReleaseFunctionIsLeftAlone) {
  {
    ChunkPool::Options without = options();
    without.memory.release = nullptr;
    ChunkPool pool(without);
    ChunkPool::Use use(&pool);
    EXPECT_TRUE(ChunkRef::take(pool.get(100)));
  }
  std::memset(data_, 1, kBytes);
}

TEST_F(MemoryTest, PagesAreNeverReturnedToTheSystem) {
  ChunkPool pool(options());
  ChunkPool::Use use(&pool);
  {
    std::vector<ChunkRef> chunks;
    while (ChunkRef chunk = ChunkRef::take(pool.get(kMaxChunkBytes))) {
      std::memset(chunk.data(), 1, chunk.capacity());
      chunks.push_back(std::move(chunk));
    }
  }
  const size_t before = test::resident_bytes(data_, 4 * kSlab);
  ASSERT_EQ(before, 4 * kSlab);
  pool.trim_all();
  EXPECT_EQ(test::resident_bytes(data_, 4 * kSlab), before);
  EXPECT_EQ(pool.stats().discarded_bytes, 0u);
  EXPECT_EQ(pool.stats().mapped_bytes, 0u) << "but other tiers may use them";
  std::vector<ChunkRef> small;
  while (ChunkRef chunk = ChunkRef::take(pool.get(64))) small.push_back(std::move(chunk));
  EXPECT_EQ(small.size(), 4 * kSlab / 64);
}

TEST_F(MemoryTest, MetadataGoesToTheHeapWhenItIsUsedUp) {
  ChunkPool pool(options());
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  while (ChunkRef chunk = ChunkRef::take(pool.get(kMaxChunkBytes))) chunks.push_back(std::move(chunk));
  const ChunkRef more = ChunkRef::take(pool.get_metadata(256));
  ASSERT_TRUE(more);
  EXPECT_FALSE(inside(more.data(), 256));
}

TEST_F(MemoryTest, SharedBudgetCountsItsSlabs) {
  Budget all(2 * kSlab);
  ChunkPool::Options both = options();
  both.shared = &all;
  ChunkPool pool(both);
  ChunkPool::Use use(&pool);
  std::vector<ChunkRef> chunks;
  while (ChunkRef chunk = ChunkRef::take(pool.get(kMaxChunkBytes))) chunks.push_back(std::move(chunk));
  EXPECT_EQ(chunks.size(), 2 * kSlab / kMaxChunkBytes);
}

using MemoryDeathTest = MemoryTest;

TEST_F(MemoryDeathTest, MisuseIsRefused) {
  const auto make = [](ChunkPool::Options with) { ChunkPool pool(with); };
  ChunkPool::Options with = options();
  with.memory.data += 64;
  EXPECT_DEATH(make(with), "4096");
  with = options();
  with.memory.bytes = kSlab - 1;
  EXPECT_DEATH(make(with), "memory.bytes");
  with = options();
  with.source = ChunkPool::Source::kHeap;
  EXPECT_DEATH(make(with), "kArena");
  Budget all(64 * kSlab);
  with = options();
  with.common = &all;
  EXPECT_DEATH(make(with), "common");
}

}  // namespace
}  // namespace sluice
