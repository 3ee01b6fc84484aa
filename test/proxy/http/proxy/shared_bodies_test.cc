#include "proxy/http/proxy/shared_bodies.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

// Defect: each response that waited for its client had a copy of its body.
TEST(SharedBodies, AreInMemoryOnce) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  SharedBodies bodies;
  const std::string config(100'000, 'c'), page(10'000, 'p');
  std::vector<Buffer> waiting;
  waiting.push_back(bodies.of_config(pool, config));
  waiting.push_back(bodies.of_page(pool, page));
  EXPECT_EQ(waiting[0].to_string(), config);
  EXPECT_EQ(waiting[1].to_string(), page);
  const size_t once = pool.out_bytes();
  for (int i = 0; i < 100; ++i) {
    waiting.push_back(bodies.of_config(pool, config));
    waiting.push_back(bodies.of_page(pool, std::string(page)));
  }
  EXPECT_EQ(waiting.back().to_string(), page);
  EXPECT_LE(pool.out_bytes(), once + 200 * 512);  // The memory of a clone for the names of its chunks.
}

TEST(SharedBodies, DifferentPages) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  SharedBodies bodies;
  for (int i = 0; i < 1000; ++i) {
    const std::string page = "request " + std::to_string(i);
    EXPECT_EQ(bodies.of_page(pool, page).to_string(), page);
  }
  EXPECT_LT(pool.out_bytes(), 20'000u);  // The last few.
  bodies.drop();
  EXPECT_EQ(pool.out_bytes(), 0u);
  EXPECT_EQ(bodies.of_page(pool, "x").to_string(), "x");
  EXPECT_EQ(bodies.of_config(pool, "y").to_string(), "y");
  EXPECT_EQ(pool.out_bytes(), 0u);
}

}  // namespace
}  // namespace sluice
