#include "sluice/buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

using test::text_of;
using test::windows_of;

class BufferTest : public test::PoolTest {};
using BufferDeathTest = BufferTest;
using Windows = std::vector<std::string>;

TEST_F(BufferTest, EmptyHoldsNothing) {
  Buffer buffer;
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_EQ(buffer.window_count(), 0u);
  EXPECT_EQ(buffer.pinned_bytes(), 0u);
  buffer.trim_front(0);
  buffer.truncate(0);
  buffer.clear();
  EXPECT_TRUE(buffer.split_front(0).empty());
  EXPECT_TRUE(buffer.clone().empty());
  EXPECT_FALSE(buffer.compact(pool_));
  EXPECT_TRUE(buffer.fetch(0, {}).empty());
  std::array<iovec, 1> iovecs;
  EXPECT_EQ(buffer.fill_iovecs(iovecs), 0u);
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(BufferTest, AppendsAndPrepends) {
  Buffer buffer;
  buffer.append(lease_of("c"));
  buffer.append(view_of("d"));
  buffer.prepend(lease_of("b"));
  buffer.prepend(view_of("a"));
  buffer.append(lease_of("e"));
  EXPECT_EQ(windows_of(buffer), (Windows{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(buffer.size(), 5u);
  EXPECT_FALSE(buffer.empty());
}

TEST_F(BufferTest, TakesTheGivenWindow) {
  Lease lease = lease_of("hello");
  const std::byte* data = lease.data();
  Buffer buffer;
  buffer.append(std::move(lease));
  EXPECT_EQ(buffer.window(0).data(), data);
  EXPECT_EQ(buffer.writable_window(0).data(), data);
  EXPECT_EQ(pool_.leaked(), 1u);
}

TEST_F(BufferTest, DropsEmptyWindows) {
  Buffer buffer;
  buffer.append(Lease());
  buffer.append(View());
  buffer.prepend(Lease());
  buffer.prepend(View());
  buffer.append(Lease::allocate(pool_, 64));
  buffer.prepend(Lease::allocate(pool_, 64).freeze());
  EXPECT_EQ(buffer.window_count(), 0u);
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(BufferTest, AppendsABuffer) {
  Buffer a = in_windows({"a", "b"}), b = in_windows({"c", "d", "e"});
  a.append(std::move(b));
  EXPECT_EQ(windows_of(a), (Windows{"a", "b", "c", "d", "e"}));
  EXPECT_TRUE(b.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(b.window_count(), 0u);
  a.append(std::move(b));  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(a.size(), 5u);
  b.append(std::move(a));  // To an empty one. NOLINT(bugprone-use-after-move)
  EXPECT_EQ(windows_of(b), (Windows{"a", "b", "c", "d", "e"}));
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(pool_.leaked(), 5u + 1u);
}

TEST_F(BufferTest, AppendToItselfChangesNothing) {
  Buffer buffer = in_windows({"a", "b"});
  Buffer& same = buffer;
  buffer.append(std::move(same));
  EXPECT_EQ(windows_of(buffer), (Windows{"a", "b"}));
  buffer = std::move(same);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(windows_of(buffer), (Windows{"a", "b"}));
}

TEST_F(BufferTest, Moves) {
  for (const Windows& texts : {Windows{}, Windows{"a"}, Windows{"a", "b", "c"}, Windows{"a", "b", "c", "d", "e"}}) {
    Buffer buffer = in_windows(texts);
    Buffer moved = std::move(buffer);
    EXPECT_EQ(windows_of(moved), texts);
    EXPECT_TRUE(buffer.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    EXPECT_EQ(buffer.window_count(), 0u);
    Buffer assigned = in_windows({"x", "y", "z", "0"});
    assigned = std::move(moved);
    EXPECT_EQ(windows_of(assigned), texts);
    EXPECT_TRUE(moved.empty());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    buffer.append(lease_of("again"));
    EXPECT_EQ(text_of(buffer), "again");
  }
}

TEST_F(BufferTest, TrimsTheFront) {
  for (size_t count = 0; count <= 10; ++count) {
    Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
    buffer.trim_front(count);
    EXPECT_EQ(text_of(buffer), std::string("abcdefghij").substr(count));
    EXPECT_EQ(buffer.size(), 10 - count);
  }
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(BufferTest, TrimmingReleasesChunks) {
  Buffer buffer = in_windows({"ab", "cd", "ef"});
  buffer.trim_front(2);
  EXPECT_EQ(pool_.leaked(), 2u);
  buffer.truncate(2);
  EXPECT_EQ(pool_.leaked(), 1u);
  buffer.truncate(1);
  EXPECT_EQ(pool_.leaked(), 1u);
  buffer.trim_front(1);
  EXPECT_EQ(pool_.leaked(), 0u);
}

TEST_F(BufferTest, Truncates) {
  for (size_t count = 0; count <= 10; ++count) {
    Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
    buffer.truncate(count);
    EXPECT_EQ(text_of(buffer), std::string("abcdefghij").substr(0, count));
    EXPECT_EQ(buffer.size(), count);
  }
}

TEST_F(BufferTest, SplitsAnywhere) {
  for (size_t count = 0; count <= 10; ++count) {
    Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
    const Buffer front = buffer.split_front(count);
    EXPECT_EQ(text_of(front), std::string("abcdefghij").substr(0, count));
    EXPECT_EQ(text_of(buffer), std::string("abcdefghij").substr(count));
    EXPECT_EQ(front.size(), count);
    EXPECT_EQ(buffer.size(), 10 - count);
  }
}

TEST_F(BufferTest, SplitAndAppendIsTheSame) {
  for (size_t count = 0; count <= 10; ++count) {
    Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
    Buffer front = buffer.split_front(count);
    front.append(std::move(buffer));
    EXPECT_EQ(windows_of(front), (Windows{"a", "bcd", "efghi", "j"}));  // A split window is whole again.
  }
}

TEST_F(BufferTest, Clones) {
  for (const Windows& texts : {Windows{"a"}, Windows{"a", "b", "c"}, Windows{"a", "b", "c", "d", "e"}}) {
    Buffer buffer = in_windows(texts);
    Buffer clone = buffer.clone();
    EXPECT_EQ(windows_of(clone), texts);
    EXPECT_EQ(windows_of(buffer), texts);
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(clone.window(i).data(), buffer.window(i).data());
    buffer.clear();
    EXPECT_EQ(windows_of(clone), texts);
  }
}

TEST_F(BufferTest, CopiesOut) {
  const std::string all = "abcdefghij";
  const Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
  for (size_t offset = 0; offset <= 12; ++offset) {
    for (size_t size = 0; size <= 12; ++size) {
      std::string to(size, '-');
      const size_t copied = buffer.copy_out(offset, std::as_writable_bytes(std::span(to)));
      const std::string expected = offset < all.size() ? all.substr(offset, size) : "";
      EXPECT_EQ(copied, expected.size());
      EXPECT_EQ(to, expected + std::string(size - expected.size(), '-'));
    }
  }
}

TEST_F(BufferTest, FetchesInPlaceIfPossible) {
  const Buffer buffer = in_windows({"abc", "de", "f"});
  std::array<std::byte, 6> scratch;
  for (size_t count = 1; count <= 3; ++count) {
    EXPECT_EQ(buffer.fetch(count, scratch).data(), buffer.window(0).data());
    EXPECT_EQ(text_of(buffer.fetch(count, scratch)), std::string("abcdef").substr(0, count));
  }
  for (size_t count = 4; count <= 6; ++count) {
    EXPECT_EQ(buffer.fetch(count, scratch).data(), scratch.data());
    EXPECT_EQ(text_of(buffer.fetch(count, scratch)), std::string("abcdef").substr(0, count));
  }
  EXPECT_TRUE(buffer.fetch(0, scratch).empty());
  EXPECT_EQ(text_of(buffer), "abcdef");
}

TEST_F(BufferTest, DescribesItsWindowsAsIovecs) {
  Buffer buffer = in_windows({"a", "bcd", "efghi", "j"});
  for (size_t room = 0; room <= 5; ++room) {
    std::vector<iovec> iovecs(room);
    const size_t filled = buffer.fill_iovecs(iovecs);
    ASSERT_EQ(filled, std::min<size_t>(room, 4));
    for (size_t i = 0; i < filled; ++i) {
      EXPECT_EQ(iovecs[i].iov_base, buffer.window(i).data());
      EXPECT_EQ(iovecs[i].iov_len, buffer.window(i).size());
    }
  }
}

TEST_F(BufferTest, ClearReleasesEverything) {
  Buffer buffer = in_windows({"a", "b", "c", "d", "e"});
  EXPECT_EQ(pool_.leaked(), 6u);
  buffer.clear();
  EXPECT_EQ(pool_.leaked(), 0u);
  EXPECT_TRUE(buffer.empty());
  buffer.append(lease_of("again"));
  EXPECT_EQ(text_of(buffer), "again");
}

TEST_F(BufferTest, HoldsHeapChunksToo) {
  Buffer buffer = test::heap_buffer_of("hello world", std::array<size_t, 1>{5});
  EXPECT_EQ(buffer.pinned_bytes(), 11u);
  buffer.append(lease_of("!"));
  EXPECT_EQ(text_of(buffer), "hello world!");
  EXPECT_EQ(text_of(buffer.split_front(3)), "hel");
}

TEST_F(BufferDeathTest, EnforcesItsPreconditions) {
  Buffer buffer = in_windows({"abc", "de"});
  std::array<std::byte, 4> scratch;
  EXPECT_DEATH(buffer.trim_front(6), "check failed");
  EXPECT_DEATH(buffer.truncate(6), "check failed");
  EXPECT_DEATH(buffer.split_front(6), "check failed");
  EXPECT_DEATH(buffer.window(2), "check failed");
  EXPECT_DEATH(buffer.writable_window(2), "check failed");
  EXPECT_DEATH(buffer.fetch(6, scratch), "check failed");
  EXPECT_DEATH(buffer.fetch(5, scratch), "check failed");
}

}  // namespace
}  // namespace sluice
