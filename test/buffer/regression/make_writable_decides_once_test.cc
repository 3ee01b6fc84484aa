// Defect: Buffer::make_writable determined twice which windows are shared: when it copied, and when it replaced them
// with the copies. If another thread dropped its reference between the two, the copy of one window replaced another,
// and the buffer's bytes were wrong.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;
using test::windows_of;

class MakeWritableDecidesOnce : public test::PoolTest {
 protected:
  // Calls back from within the next get, which is where actions of another thread are visible at the latest.
  template <typename Function>
  void at_next_get(Function& function) {
    pool_.set_pressure(
        pool_.out_bytes(), 0, [](void* context, bool high) { high ? (*static_cast<Function*>(context))() : void(); },
        &function);
  }
};

TEST_F(MakeWritableDecidesOnce, WindowBecomesExclusiveMeanwhile) {
  const std::string all = "abcdefghi";
  for (size_t offset = 0; offset <= 9; ++offset) {
    for (size_t count = 0; offset + count <= 9; ++count) {
      Buffer buffer = in_windows({"abc", "def", "ghi"});
      std::optional<Buffer> dropped = buffer.clone(0, 6);
      const Buffer kept = buffer.clone(3, 6);
      auto drop = [&] { dropped.reset(); };
      at_next_get(drop);
      ASSERT_TRUE(buffer.make_writable(pool_, offset, count));
      pool_.set_pressure(0, 0, nullptr, nullptr);
      EXPECT_EQ(text_of(buffer), all) << offset << "+" << count;
      const std::string text(count, 'x');
      ASSERT_TRUE(buffer.write_at(pool_, offset, std::as_bytes(std::span(text))));
      EXPECT_EQ(text_of(buffer), std::string(all).replace(offset, count, text));
      EXPECT_EQ(text_of(kept), "defghi");
    }
  }
}

// Both cuts of a range are in one window, and this one becomes exclusive.
TEST_F(MakeWritableDecidesOnce, WindowThatIsCut) {
  Buffer buffer = in_windows({"abc", "def"});
  std::optional<Buffer> dropped = buffer.clone(0, 3);
  const Buffer kept = buffer.clone(3, 3);
  auto drop = [&] { dropped.reset(); };
  at_next_get(drop);
  ASSERT_TRUE(buffer.make_writable(pool_, 1, 4));
  pool_.set_pressure(0, 0, nullptr, nullptr);
  EXPECT_EQ(windows_of(buffer), (std::vector<std::string>{"a", "bc", "de", "f"}));
  EXPECT_EQ(copied(), 4u) << "what was shared when it began";
  EXPECT_TRUE(test::overwrite(buffer, 0, 'x')) << "the rest is ours meanwhile";
}

TEST_F(MakeWritableDecidesOnce, WhileAnotherThreadDropsItsClones) {
  std::vector<std::string> texts;
  std::string all;
  for (char letter = 'a'; letter <= 'z'; ++letter) all += texts.emplace_back(8, letter);
  for (int round = 0; round < 300; ++round) {
    Buffer buffer = in_windows(texts);
    // Every second window becomes exclusive before, during, or after.
    std::vector<Buffer> clones;
    for (size_t i = 0; i < texts.size(); i += 2) clones.push_back(buffer.clone(8 * i, 8));
    Buffer kept;
    for (size_t i = 1; i < texts.size(); i += 2) kept.append(buffer.clone(8 * i, 8));
    std::atomic<bool> go = false;
    std::thread other([&go, mine = std::move(clones)]() mutable {
      while (!go.load()) std::this_thread::yield();
      for (Buffer& clone : mine) clone.clear();
    });
    go.store(true);
    ASSERT_TRUE(buffer.make_writable(pool_, 3, all.size() - 6));
    other.join();
    ASSERT_EQ(text_of(buffer), all);
    const std::string text(all.size() - 6, static_cast<char>('A' + round % 26));
    ASSERT_TRUE(buffer.write_at(pool_, 3, std::as_bytes(std::span(text))));
    ASSERT_EQ(text_of(buffer), "aaa" + text + "zzz");
    ASSERT_EQ(kept.to_string().substr(0, 16), "bbbbbbbbdddddddd");
  }
}

}  // namespace
}  // namespace sluice
