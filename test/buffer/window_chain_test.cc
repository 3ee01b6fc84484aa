// The storage of a buffer's windows: three inside the object, more in linked blocks, none when it is empty.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;

class WindowChainTest : public test::PoolTest {
 protected:
  // One letter in a chunk of its own, so that windows never merge.
  Lease letter(char c) { return lease_of(std::string(1, c)); }
  // The buffer's blocks: chunks that are neither of the smallest tier nor of anything else.
  size_t block_bytes() const { return pool_.out_bytes() - pool_.stats().tiers[0].out * tier_bytes(0); }
};

TEST_F(WindowChainTest, ThreeWindowsNeedNoBlock) {
  Buffer buffer;
  for (const char c : {'a', 'b', 'c'}) buffer.append(letter(c));
  EXPECT_EQ(block_bytes(), 0u);
  buffer.append(letter('d'));
  EXPECT_EQ(block_bytes(), 256u);  // Thirteen windows.
  EXPECT_EQ(text_of(buffer), "abcd");
}

TEST_F(WindowChainTest, PrependSpillsToo) {
  Buffer buffer;
  for (const char c : {'d', 'c', 'b', 'a'}) buffer.prepend(letter(c));
  EXPECT_EQ(block_bytes(), 256u);
  EXPECT_EQ(text_of(buffer), "abcd");
}

TEST_F(WindowChainTest, BlocksKeepTheOrder) {
  Buffer buffer;
  std::string expected;
  for (size_t i = 0; i < 1000; ++i) {
    const char c = static_cast<char>('a' + i % 26);
    if (i % 3 == 0) {
      buffer.prepend(letter(c));
      expected.insert(expected.begin(), c);
    } else {
      buffer.append(letter(c));
      expected.push_back(c);
    }
    // At both ends there may be a partly used block.
    ASSERT_LE(block_bytes(), i < 3 ? 0 : ((i + 1) / 13 + 3) * 256);
  }
  EXPECT_EQ(buffer.window_count(), 1000u);
  EXPECT_EQ(text_of(buffer), expected);
}

TEST_F(WindowChainTest, EmptyBufferHasNoBlock) {
  Buffer buffer;
  const auto fill = [&] {
    for (size_t i = 0; i < 9; ++i) buffer.append(letter('x'));
    EXPECT_GT(block_bytes(), 0u);
  };
  fill();
  buffer.trim_front(9);
  EXPECT_EQ(pool_.leaked(), 0u);
  fill();
  buffer.truncate(0);
  EXPECT_EQ(pool_.leaked(), 0u);
  fill();
  buffer.clear();
  EXPECT_EQ(pool_.leaked(), 0u);
  fill();
  const Buffer other = buffer.split_front(9);
  fill();
  Buffer third;
  third.append(letter('y'));
  third.append(std::move(buffer));
  EXPECT_TRUE(buffer.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(block_bytes(), 2 * 256u);
  // And back to the inside of the object.
  buffer.append(letter('z'));
  buffer.append(letter('z'));
  EXPECT_EQ(block_bytes(), 2 * 256u);
  EXPECT_EQ(text_of(buffer), "zz");
}

// A queue that advances forever does not grow.
TEST_F(WindowChainTest, AdvancesWithoutGrowing) {
  for (const size_t depth : {1u, 2u, 3u, 4u, 7u, 8u, 16u}) {
    Buffer buffer;
    std::string expected;
    for (size_t i = 0; i < 200; ++i) {
      const char c = static_cast<char>('a' + i % 26);
      buffer.append(letter(c));
      expected.push_back(c);
      if (expected.size() == depth) {
        ASSERT_EQ(text_of(buffer), expected);
        buffer.trim_front(1);
        expected.erase(0, 1);
      }
      ASSERT_LE(block_bytes(), depth <= 3 ? 0 : (depth / 13 + 2) * 256);
    }
  }
}

TEST_F(WindowChainTest, WrapsAroundBackwards) {
  for (const size_t depth : {1u, 2u, 3u, 4u, 7u, 8u, 16u}) {
    Buffer buffer;
    std::string expected;
    for (size_t i = 0; i < 200; ++i) {
      const char c = static_cast<char>('a' + i % 26);
      buffer.prepend(letter(c));
      expected.insert(expected.begin(), c);
      if (expected.size() == depth) {
        ASSERT_EQ(text_of(buffer), expected);
        buffer.truncate(depth - 1);
        expected.pop_back();
      }
    }
  }
}

// Every position of the first window at the moment when another block is needed.
TEST_F(WindowChainTest, GrowsAtAnyHeadPosition) {
  for (const size_t capacity : {3u, 13u, 26u}) {
    for (size_t head = 0; head < capacity; ++head) {
      for (const bool at_front : {false, true}) {
        Buffer buffer;
        std::string expected;
        for (size_t i = 0; i < capacity + head; ++i) {
          const char c = static_cast<char>('a' + i % 26);
          if (expected.size() == capacity) {
            buffer.trim_front(1);
            expected.erase(0, 1);
          }
          buffer.append(letter(c));
          expected.push_back(c);
        }
        if (at_front) {
          buffer.prepend(letter('!'));
          expected.insert(expected.begin(), '!');
        } else {
          buffer.append(letter('!'));
          expected.push_back('!');
        }
        ASSERT_EQ(text_of(buffer), expected) << "capacity " << capacity << " head " << head;
        EXPECT_EQ(buffer.window_count(), capacity + 1);
      }
    }
  }
}

TEST_F(WindowChainTest, MovesAndClonesWhileWrapped) {
  Buffer buffer;
  for (const char c : std::string("abcdefgh")) buffer.append(letter(c));
  buffer.trim_front(5);
  for (const char c : std::string("ijkl")) buffer.append(letter(c));
  EXPECT_EQ(text_of(buffer), "fghijkl");
  Buffer clone = buffer.clone();
  EXPECT_EQ(text_of(clone), "fghijkl");
  Buffer moved = std::move(buffer);
  EXPECT_EQ(text_of(moved), "fghijkl");
  EXPECT_EQ(text_of(moved.split_front(4)), "fghi");
  EXPECT_EQ(text_of(moved), "jkl");
  Buffer inside;
  inside.append(letter('1'));
  inside.append(std::move(clone));
  EXPECT_EQ(text_of(inside), "1fghijkl");
}

TEST_F(WindowChainTest, SpillsBeyondTheBudget) {
  ChunkPool small({.budget_bytes = 4 * 64});
  Buffer buffer;
  {
    ChunkPool::Use use(&small);
    for (int i = 0; i < 4; ++i) buffer.append(test::filled(Lease::allocate(small, 64), "x"));
    EXPECT_FALSE(Lease::allocate(small, 64));
    EXPECT_EQ(buffer.window_count(), 4u);
    EXPECT_EQ(small.out_bytes(), 4 * 64u + 256u);
    buffer.clear();
  }
  EXPECT_EQ(small.leaked(), 0u);
}

TEST_F(WindowChainTest, SpillsOnAThreadWithoutAPool) {
  Buffer buffer;
  for (int i = 0; i < 3; ++i) buffer.append(letter('x'));
  std::thread([&, fourth = letter('y'), fifth = letter('z')]() mutable {
    buffer.append(std::move(fourth));  // Into a block from the heap.
    buffer.prepend(std::move(fifth));
  }).join();
  EXPECT_EQ(block_bytes(), 0u);
  EXPECT_EQ(text_of(buffer), "zxxxy");
  for (int i = 0; i < 11; ++i) buffer.append(letter('w'));  // The next one comes from the pool again.
  EXPECT_EQ(block_bytes(), 256u);
}

TEST_F(WindowChainTest, BlocksReturnFromOtherThreads) {
  Buffer buffer;
  for (int i = 0; i < 5; ++i) buffer.append(letter('x'));
  std::thread([moved = std::move(buffer)] {}).join();
  EXPECT_EQ(pool_.leaked(), 6u);
  pool_.take_remote_frees();
  EXPECT_EQ(pool_.leaked(), 0u);
  EXPECT_EQ(pool_.stats().freed_remotely, 6u);
}

// Both sides with each size, so that inline windows, one block and several are combined, and each side built from
// either end, so that they begin at other positions.
TEST_F(WindowChainTest, SplicesAndCuts) {
  const size_t sizes[] = {0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 40};
  const auto build = [&](std::string_view letters, bool backwards) {
    Buffer buffer;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (backwards) {
        buffer.prepend(letter(letters[letters.size() - 1 - i]));
      } else {
        buffer.append(letter(letters[i]));
      }
    }
    return buffer;
  };
  for (const size_t left : sizes) {
    for (const size_t right : sizes) {
      for (const unsigned backwards : {0, 1, 2, 3}) {
        std::string expected;
        for (size_t i = 0; i < left + right; ++i) expected.push_back(static_cast<char>('a' + i % 26));
        Buffer buffer = build(expected.substr(0, left), backwards & 1);
        Buffer other = build(expected.substr(left), backwards & 2);
        buffer.append(std::move(other));
        ASSERT_EQ(text_of(buffer), expected);
        ASSERT_EQ(buffer.size(), expected.size());
        ASSERT_EQ(buffer.window_count(), expected.size());
        for (size_t cut = 0; cut <= left + right; ++cut) {
          Buffer front = buffer.split_front(cut);
          ASSERT_EQ(text_of(front), expected.substr(0, cut));
          ASSERT_EQ(text_of(buffer), expected.substr(cut));
          buffer.prepend(std::move(front));
          ASSERT_EQ(text_of(buffer), expected) << left << " and " << right << " cut at " << cut;
        }
        buffer.clear();
        ASSERT_EQ(block_bytes(), 0u);
      }
    }
  }
}

// With any number of windows: the blocks of the second buffer are linked, so nothing is taken from the pool.
TEST_F(WindowChainTest, SplicingLargeBuffersTakesNoMemory) {
  Buffer buffer, other;
  for (int i = 0; i < 1000; ++i) buffer.append(letter('x')), other.append(letter('y'));
  const size_t before = block_bytes();
  buffer.append(std::move(other));
  EXPECT_EQ(block_bytes(), before);
  EXPECT_EQ(buffer.window_count(), 2000u);
}

// Random appends, prepends, trims and truncations, between nothing and a few dozen windows.
TEST_F(WindowChainTest, BehavesLikeADeque) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    Buffer buffer;
    std::deque<char> model;
    for (int step = 0; step < 400; ++step) {
      const char c = static_cast<char>('a' + random() % 26);
      switch (random() % 6) {
        case 0:
        case 1:
          buffer.append(letter(c));
          model.push_back(c);
          break;
        case 2:
          buffer.prepend(letter(c));
          model.push_front(c);
          break;
        case 3:
        case 4:
          if (model.empty()) break;
          buffer.trim_front(1);
          model.pop_front();
          break;
        default: {
          const size_t keep = model.size() - std::min<size_t>(model.size(), random() % 12 == 0 ? 100 : 2);
          buffer.truncate(keep);
          model.resize(keep);
        }
      }
      ASSERT_EQ(text_of(buffer), std::string(model.begin(), model.end())) << "seed " << seed << " step " << step;
      ASSERT_EQ(buffer.window_count(), model.size());
    }
  }
}

}  // namespace
}  // namespace sluice
