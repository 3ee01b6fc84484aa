#include "pool/free_stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace sluice {
namespace {

// A stack of which each chunk says when it was pushed and whether it was discarded since.
struct Model {
  struct Entry {
    Chunk* chunk;
    int pushed;
    bool discarded;
  };
  std::vector<Entry> entries;
  int period = 0;

  // It lay still for two whole periods, whatever remains of the one in which it was pushed.
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

TEST(FreeStack, AChunkIsOldAfterTwoPeriodsWithoutUse) {
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

TEST(FreeStack, UseBetweenMakesItYoungAgain) {
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

TEST(FreeStack, BehavesLikeTheModel) {
  constexpr size_t kChunks = 40;
  const auto chunks = std::make_unique<Chunk[]>(kChunks);
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    FreeStack stack;
    stack.reserve(kChunks);
    Model model;
    std::vector<Chunk*> outside;
    outside.reserve(kChunks);
    for (size_t i = 0; i < kChunks; ++i) outside.push_back(&chunks[i]);
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      const size_t what = random() % 16;
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
        for (size_t n = random() % 8; n > 0; --n) ASSERT_EQ(stack.next_to_discard(), model.next_to_discard());
      } else {
        const size_t modulus = 2 + random() % 5;
        const auto gone = [&](const Chunk* chunk) { return static_cast<size_t>(chunk - chunks.get()) % modulus == 0; };
        stack.remove_if(gone);
        for (const Model::Entry& entry : model.entries) {
          if (gone(entry.chunk)) outside.push_back(entry.chunk);
        }
        std::erase_if(model.entries, [&](const Model::Entry& entry) { return gone(entry.chunk); });
      }
      ASSERT_EQ(stack.size(), model.entries.size());
      ASSERT_EQ(stack.empty(), model.entries.empty());
      ASSERT_EQ(stack.old_count(), model.old_count());
      for (size_t i = 0; i < stack.size(); ++i) ASSERT_EQ(stack.at(i), model.entries[i].chunk);
    }
  }
}

}  // namespace
}  // namespace sluice
