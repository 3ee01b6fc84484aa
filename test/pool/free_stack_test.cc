#include "sluice/internal/free_stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// Chunks of four slabs.
std::unique_ptr<Chunk[]> make_chunks(size_t count) {
  auto chunks = std::make_unique<Chunk[]>(count);
  for (size_t i = 0; i < count; ++i) chunks[i].slab = static_cast<uint16_t>(i % 4);
  return chunks;
}

// A model of the stack, in which each chunk has the period in which it was pushed and whether it was discarded since.
struct Model {
  struct Entry {
    Chunk* chunk;
    int pushed;
    bool discarded;
  };
  std::vector<Entry> entries;
  int period = 0;

  // It was unused for two whole periods, besides the rest of the one in which it was pushed.
  bool is_old(const Entry& entry) const { return entry.pushed <= period - 3; }
  size_t old_count() const {
    return static_cast<size_t>(
        std::count_if(entries.begin(), entries.end(), [this](const Entry& entry) { return is_old(entry); }));
  }
  Chunk* next_to_discard() {
    for (Entry& entry : entries) {
      if (!is_old(entry)) return nullptr;
      if (!std::exchange(entry.discarded, true)) return entry.chunk;
    }
    return nullptr;
  }
};

TEST(FreeStack, IsLastInFirstOut) {
  Chunk a{}, b{};
  FreeStack stack;
  stack.reserve(2);
  stack.push(&a);
  stack.push(&b);
  EXPECT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack.pop(), &b);
  EXPECT_EQ(stack.pop(), &a);
  EXPECT_TRUE(stack.empty());
}

TEST(FreeStack, ChunkIsOldAfterTwoPeriodsWithoutUse) {
  Chunk chunk{};
  FreeStack stack;
  stack.reserve(1);
  stack.push(&chunk);
  stack.age();  // Ends the period in which it was used.
  stack.age();
  EXPECT_EQ(stack.next_to_discard(), nullptr);
  stack.age();
  EXPECT_EQ(stack.old_count(), 1u);
  EXPECT_EQ(stack.next_to_discard(), &chunk);
  EXPECT_EQ(stack.next_to_discard(), nullptr);
  EXPECT_EQ(stack.pop(), &chunk);  // Still there.
}

TEST(FreeStack, UseMakesItYoungAgain) {
  Chunk chunk{};
  FreeStack stack;
  stack.reserve(1);
  stack.push(&chunk);
  for (int i = 0; i < 10; ++i) {
    stack.age();
    stack.age();
    EXPECT_EQ(stack.next_to_discard(), nullptr);
    stack.push(stack.pop());
  }
}

TEST(FreeStack, RandomPositionIsAmongRecentlyUsed) {
  constexpr size_t kStill = 8, kMoving = 8;
  const auto chunks = make_chunks(kStill + kMoving);
  FreeStack stack;
  stack.reserve(kStill + kMoving);
  for (size_t i = 0; i < kStill + kMoving; ++i) stack.push(&chunks[i]);
  stack.age();
  size_t moved = 0;
  for (size_t round = 0; round < 100; ++round) {
    std::vector<Chunk*> taken;
    for (size_t i = 0; i < kMoving; ++i) taken.push_back(stack.pop());
    for (Chunk* chunk : taken) stack.push_anywhere(chunk, round * kMoving + static_cast<size_t>(chunk - chunks.get()));
    for (size_t i = 0; i < kStill; ++i) ASSERT_EQ(stack.at(i), &chunks[i]);
    moved += stack.at(kStill + kMoving - 1) != taken.back();
  }
  EXPECT_GT(moved, 50u);
}

TEST(FreeStack, ReturnsItsMemory) {
  constexpr size_t kChunks = 100'000;
  const auto chunks = make_chunks(kChunks);
  FreeStack stack;
  stack.reserve(kChunks);
  for (size_t i = 0; i < kChunks; ++i) stack.push(&chunks[i]);
  for (int i = 0; i < 3; ++i) stack.age();
  while (stack.next_to_discard()) {
  }
  stack.shrink(kChunks);
  ASSERT_EQ(stack.size(), kChunks);
  for (size_t i = 100; i < kChunks; ++i) stack.set_aside(&chunks[i]);
  stack.drop_aside();
  stack.shrink(200);
  EXPECT_EQ(stack.discarded_count(), 100u);
  for (size_t i = 100; i < 200; ++i) stack.push(&chunks[i]);
  for (size_t i = 200; i-- > 100;) EXPECT_EQ(stack.pop(), &chunks[i]);
  EXPECT_EQ(stack.old_count(), 100u);
}

TEST(FreeStack, BehavesLikeTheModel) {
  constexpr size_t kChunks = 40;
  const auto chunks = make_chunks(kChunks);
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    FreeStack stack;
    stack.reserve(kChunks);
    Model model;
    std::vector<Chunk*> outside;
    outside.reserve(kChunks);
    std::array<int, 4> discarded{};  // By slab, as reported.
    const auto forget_taken = [&] {
      while (!stack.forget_taken([&](uint16_t slab) { return --discarded[slab], random() % 4 > 0; })) {
      }
    };
    for (size_t i = 0; i < kChunks; ++i) outside.push_back(&chunks[i]);
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      const size_t what = random() % 18;
      if (what < 6) {
        for (size_t n = random() % 8; n > 0 && !outside.empty(); --n) {
          model.entries.push_back({outside.back(), model.period, false});
          stack.push(outside.back());
          outside.pop_back();
        }
      } else if (what < 10) {
        for (size_t n = random() % 8; n > 0 && !model.entries.empty(); --n) {
          ASSERT_EQ(stack.pop(), model.entries.back().chunk);
          outside.push_back(model.entries.back().chunk);
          model.entries.pop_back();
        }
      } else if (what < 13) {
        stack.age();
        ++model.period;
      } else if (what < 15) {
        forget_taken();
        for (size_t n = random() % 8; n > 0; --n) {
          const Chunk* chunk = stack.next_to_discard();
          ASSERT_EQ(chunk, model.next_to_discard());
          if (chunk) ++discarded[chunk->slab];
        }
      } else if (what < 17) {
        forget_taken();
        const auto gone = [slab = random() % 4](const Model::Entry& entry) {
          return entry.discarded && entry.chunk->slab == slab;
        };
        for (const Model::Entry& entry : model.entries) {
          if (!gone(entry)) continue;
          stack.set_aside(entry.chunk);
          --discarded[entry.chunk->slab];
          outside.push_back(entry.chunk);
        }
        stack.drop_aside();
        std::erase_if(model.entries, gone);
        // Discarded chunks change positions.
        ASSERT_LE(stack.discarded_count(), model.entries.size());
        for (size_t i = 0; i < stack.discarded_count(); ++i) {
          const auto at = [&](const Model::Entry& entry) { return entry.chunk == stack.at(i); };
          const auto entry = std::find_if(model.entries.begin(), model.entries.end(), at);
          ASSERT_NE(entry, model.entries.end());
          std::swap(*entry, model.entries[i]);
          ASSERT_TRUE(model.entries[i].discarded);
        }
      } else {
        forget_taken();
        const size_t modulus = 2 + random() % 5;
        const auto gone = [&](const Chunk* chunk) { return static_cast<size_t>(chunk - chunks.get()) % modulus == 0; };
        stack.remove_if(gone);
        for (const Model::Entry& entry : model.entries) {
          if (!gone(entry.chunk)) continue;
          outside.push_back(entry.chunk);
          discarded[entry.chunk->slab] -= entry.discarded;
        }
        std::erase_if(model.entries, [&](const Model::Entry& entry) { return gone(entry.chunk); });
      }
      ASSERT_EQ(stack.size(), model.entries.size());
      ASSERT_EQ(stack.empty(), model.entries.empty());
      ASSERT_EQ(stack.old_count(), model.old_count());
      for (size_t i = 0; i < stack.size(); ++i) ASSERT_EQ(stack.at(i), model.entries[i].chunk);
      if (random() % 2 == 0) continue;
      forget_taken();
      std::array<int, 4> expected{};
      for (const Model::Entry& entry : model.entries) expected[entry.chunk->slab] += entry.discarded;
      ASSERT_EQ(discarded, expected);
    }
  }
}

}  // namespace
}  // namespace sluice
