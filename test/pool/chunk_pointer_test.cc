#include "sluice/chunk_pointer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

struct Counted {
  Counted(int& count, std::string words) : alive(count), text(std::move(words)) { ++alive; }
  Counted(const Counted&) = delete;
  ~Counted() { --alive; }
  int& alive;
  std::string text;
};

TEST(ChunkPointer, ObjectsLiveInChunksOfThePool) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  const size_t before = pool.stats().out_bytes;
  int alive = 0;
  {
    ChunkPointer<Counted> object = make_in_chunk<Counted>(pool, alive, std::string(100, 'x'));
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(object.get()) % alignof(Counted), 0u);
    EXPECT_GE(pool.stats().out_bytes, before + sizeof(Counted));
    const ChunkPointer<Counted> moved = std::move(object);
    EXPECT_EQ(moved->text, std::string(100, 'x'));
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(pool.stats().out_bytes, before);
}

TEST(ChunkPointer, ExhaustedBudgetDoesNotMatter) {
  ChunkPool pool({.budget_bytes = 0});
  ChunkPool::Use use(&pool);
  int alive = 0;
  const ChunkPointer<Counted> object = make_in_chunk<Counted>(pool, alive, "text");
  ASSERT_TRUE(object);
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace sluice
