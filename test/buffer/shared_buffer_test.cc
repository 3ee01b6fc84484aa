// Immutable bytes that several threads clone, read and drop at once. Run under ThreadSanitizer too.

#include "sluice/shared_buffer.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/cursor.h"
#include "sluice/thread_pool.h"
#include "test/buffer/pool_fixture.h"

namespace sluice {
namespace {

static_assert(!std::is_copy_constructible_v<SharedBuffer> && std::is_nothrow_move_constructible_v<SharedBuffer>);
static_assert(std::is_same_v<decltype(std::declval<const SharedBuffer&>().buffer()), const Buffer&>);

class SharedBufferTest : public test::PoolTest {
 protected:
  // Five windows: more than fit into a Buffer's object.
  const std::vector<std::string> texts_{"GET", " /index", ".html ", "HTTP/1.1", "\r\n"};
  const std::string text_ = "GET /index.html HTTP/1.1\r\n";
  SharedBuffer shared() { return SharedBuffer::from(in_windows(texts_)); }
};

TEST_F(SharedBufferTest, TakesOverWithoutCopying) {
  Buffer buffer = in_windows(texts_);
  const std::byte* const first = buffer.window(0).data();
  const SharedBuffer shared = SharedBuffer::from(std::move(buffer));
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(shared.buffer().window(0).data(), first);
  EXPECT_EQ(test::windows_of(shared.buffer()), texts_);
  EXPECT_EQ(shared.size(), text_.size());
  EXPECT_EQ(copied(), 0u);
  EXPECT_EQ(shared.to_string(), text_);
  EXPECT_EQ(Cursor(shared.buffer()).u8(), 'G');
}

TEST_F(SharedBufferTest, EmptyHoldsNothing) {
  const SharedBuffer shared, clone = shared.clone(), from = SharedBuffer::from(Buffer());
  EXPECT_TRUE(shared.empty() && clone.empty() && from.empty());
  EXPECT_TRUE(shared == from && shared == "" && shared.to_buffer().empty() && shared.slice(0, 0).empty());
  EXPECT_EQ(shared.windows().begin(), shared.windows().end());
  EXPECT_TRUE(SharedBuffer::copy_of(Buffer())->empty());
}

TEST_F(SharedBufferTest, ClonesOutliveTheFirst) {
  std::optional<SharedBuffer> first = shared();
  const SharedBuffer clone = first->clone();
  EXPECT_EQ(&clone.buffer(), &first->buffer());
  first.reset();
  EXPECT_TRUE(clone == text_);
}

TEST_F(SharedBufferTest, BuffersOfItShareTheBytesAndAreReadOnly) {
  const SharedBuffer shared = this->shared();
  Buffer whole = shared.to_buffer(), part = shared.to_buffer(4, 11);
  EXPECT_EQ(whole.window(0).data(), shared.buffer().window(0).data());
  EXPECT_EQ(part.window(0).data(), shared.buffer().window(1).data() + 1);
  EXPECT_EQ(copied(), 0u);
  for (size_t i = 0; i < whole.window_count(); ++i) EXPECT_TRUE(whole.writable_window(i).empty());
  EXPECT_EQ(whole.tailroom() + whole.headroom() + part.tailroom(), 0u);
  ASSERT_TRUE(whole.write_at(pool_, 0, std::as_bytes(std::span("PUT", 3))));
  ASSERT_TRUE(part.append_copy(pool_, "?"));
  EXPECT_TRUE(whole.starts_with("PUT /index"));
  EXPECT_TRUE(part == "/index.html?");
  EXPECT_TRUE(shared == text_);
}

// A buffer that is left alone with the chunk has it as if it had never been shared.
TEST_F(SharedBufferTest, LastBufferMayWrite) {
  std::optional<SharedBuffer> shared = SharedBuffer::from(buffer_of("hello", 20));
  Buffer buffer = shared->to_buffer();
  EXPECT_FALSE(test::overwrite(buffer, 0, 'x'));
  shared.reset();
  EXPECT_TRUE(test::overwrite(buffer, 0, 'x'));
  EXPECT_GE(buffer.tailroom(), 20u);
}

TEST_F(SharedBufferTest, SliceKeepsItsChunksOnly) {
  SharedBuffer shared = SharedBuffer::from(in_windows({std::string(4096, 'a'), std::string(64, 'b')}));
  SharedBuffer slice = shared.slice(4000, 100);
  const SharedBuffer inner = slice.slice(96, 4);
  EXPECT_TRUE(slice == std::string(96, 'a') + "bbbb" && inner == "bbbb");
  shared = SharedBuffer();
  EXPECT_EQ(pool_.stats().out_bytes, 4096u + 64u);
  slice = SharedBuffer();
  EXPECT_EQ(pool_.stats().out_bytes, 64u);
  EXPECT_TRUE(inner == "bbbb");
  EXPECT_DEATH(static_cast<void>(inner.to_buffer(1, 4)), "check failed");
  EXPECT_DEATH(static_cast<void>(inner.slice(5, 0)), "check failed");
}

TEST_F(SharedBufferTest, ComparesBytes) {
  const SharedBuffer windows = shared(), one = SharedBuffer::from(buffer_of(text_)), part = one.slice(0, 5);
  EXPECT_TRUE(windows == one && windows == windows.clone() && !(windows == part));
  EXPECT_TRUE(part < one && windows <=> one == 0 && one > part);
}

TEST_F(SharedBufferTest, FillsIovecs) {
  const SharedBuffer shared = this->shared();
  std::array<iovec, 8> to;
  ASSERT_EQ(shared.fill_iovecs(to), 5u);
  std::string joined;
  for (size_t i = 0; i < 5; ++i) joined.append(static_cast<const char*>(to[i].iov_base), to[i].iov_len);
  EXPECT_EQ(joined, text_);
}

TEST_F(SharedBufferTest, CopyHoldsNoChunkOfAPool) {
  Buffer buffer = in_windows(texts_);
  const std::optional<SharedBuffer> copy = SharedBuffer::copy_of(buffer);
  buffer.clear();
  ASSERT_TRUE(copy);
  EXPECT_EQ(pool_.stats().out_bytes, 0u);
  EXPECT_EQ(copied(), text_.size());
  EXPECT_TRUE(*copy == text_);
  EXPECT_EQ(copy->buffer().window_count(), 1u);
}

TEST_F(SharedBufferTest, AdoptedMemoryIsReleasedOnceByTheLast) {
  int released = 0;
  Buffer buffer;
  buffer.append(
      View::adopt("hello", 5, [](void* context, std::byte*, size_t) { ++*static_cast<int*>(context); }, &released));
  SharedBuffer shared = SharedBuffer::from(std::move(buffer));
  std::thread([taken = shared.clone()] { EXPECT_TRUE(taken == "hello"); }).join();
  Buffer of_it = shared.to_buffer();
  shared = SharedBuffer();
  EXPECT_EQ(released, 0);
  of_it.clear();
  EXPECT_EQ(released, 1);
}

// The chunks' home is the pool of a thread that is gone, and other threads drop them.
TEST(SharedBufferThreads, OutlivesTheThreadThatMadeIt) {
  const size_t waiting = thread_pools().waiting;
  SharedBuffer shared;
  std::thread([&shared] {
    Buffer buffer;
    ASSERT_TRUE(buffer.append_copy(thread_pool(), std::string(200'000, 'x')));
    shared = SharedBuffer::from(std::move(buffer));
  }).join();
  EXPECT_EQ(thread_pools().waiting, waiting + 1);
  EXPECT_TRUE(shared == std::string(200'000, 'x'));
  std::thread([last = std::move(shared)] { EXPECT_EQ(last.buffer().find("y"), Buffer::npos); }).join();
  EXPECT_EQ(thread_pools().waiting, waiting);
}

// All threads use one handle, and change what they made of it, while the thread that made it drops its own.
TEST(SharedBufferThreads, CloneReadAndDropAtOnce) {
  std::string text(5000, 0);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  ChunkPool pool({.budget_bytes = 4 << 20});
  ChunkPool::Use use(&pool);
  for (const size_t every : {5000u, 2000u, 300u}) {  // 1, 3 and 17 windows.
    for (int round = 0; round < 20; ++round) {
      const SharedBuffer shared =
          SharedBuffer::from(test::buffer_of(pool, text, test::splits_every(every, text.size())));
      std::optional<SharedBuffer> first = shared.clone();
      std::atomic<int> damaged = 0;
      std::array<std::thread, 4> threads;
      for (std::thread& thread : threads) {
        thread = std::thread([&shared, &text, &damaged] {
          ChunkPool own({.budget_bytes = 1 << 20});
          ChunkPool::Use use_own(&own);
          std::vector<SharedBuffer> kept;
          for (size_t i = 1; i <= 30; ++i) {
            kept.push_back(i % 3 ? shared.clone() : shared.slice(i, 4000));
            Buffer output = shared.to_buffer();
            output.append(kept.back().to_buffer(i, 100));
            const bool wrote = output.write_at(own, 7, std::as_bytes(std::span("changed", 7)));
            if (!wrote || output.size() != text.size() + 100) ++damaged;
            if (!(shared == text) || kept.back().buffer().find("\x1f\x3e") == Buffer::npos) ++damaged;
            if (i % 7 == 0) kept.clear();
          }
        });
      }
      first.reset();
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(damaged, 0);
    }
  }
  pool.take_remote_frees();
  EXPECT_EQ(pool.leaked(), 0u);
}

// What the last buffer writes happens after all reads of the others, with no other communication between them.
TEST(SharedBufferThreads, LastHolderWrites) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  const std::string text(1000, 'a');
  for (int round = 0; round < 100; ++round) {
    Buffer buffer;
    ASSERT_TRUE(buffer.append_copy(pool, text));
    SharedBuffer shared = SharedBuffer::from(std::move(buffer));
    buffer = shared.to_buffer();
    std::thread reader([taken = shared.clone(), &text] { EXPECT_TRUE(taken == text); });
    shared = SharedBuffer();
    while (!test::overwrite(buffer, 0, 'b')) std::this_thread::yield();
    reader.join();
  }
}

}  // namespace
}  // namespace sluice
