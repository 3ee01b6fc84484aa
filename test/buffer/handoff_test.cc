// Buffers that move between threads, each with a pool of its own. Run under ThreadSanitizer too.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "test/support/buffers.h"

namespace sluice {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kMessages = 1'000;
#else
constexpr int kMessages = 10'000;
#endif

// A buffer with its expected content. An empty one is the end.
struct Message {
  Buffer buffer;
  std::string expected;
};

class Mailbox {
 public:
  void put(Message message) {
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    changed_.notify_one();
  }
  Message take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !messages_.empty(); });
    Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
};

class Station {
 public:
  Station(uint32_t seed, Mailbox& in, Mailbox& out, ChunkPool& pool) : random_(seed), in_(in), out_(out), pool_(pool) {}

  // Sends messages and processes received ones, until both are done.
  void run() {
    ChunkPool::Use use(&pool_);
    for (int i = 0; i < kMessages; ++i) {
      out_.put(compose());
      if (i >= 100) receive();  // About a hundred are in flight in each direction.
    }
    while (receive()) {
      if (++drained_ == 100) out_.put({});
    }
    kept_ = {};
  }
  int damaged() const { return damaged_; }

 private:
  Message compose() {
    Message message;
    for (size_t windows = 1 + random_() % 6; windows > 0; --windows) {
      const std::string text(1 + random_() % 3000, static_cast<char>('a' + random_() % 26));
      if (!message.buffer.append_copy(pool_, std::as_bytes(std::span(text)))) break;
      message.expected += text;
    }
    // Parts of what came from the other side, of which a part stays here, go back and forth.
    if (!kept_.buffer.empty()) {
      const size_t part = random_() % kept_.buffer.size();
      Buffer clone = kept_.buffer.clone();
      clone.truncate(part);
      message.buffer.append(std::move(clone));
      message.expected += kept_.expected.substr(0, part);
      if (random_() % 2) kept_ = {};
    }
    if (message.buffer.empty()) {
      Lease lease(ChunkRef::take(heap_chunk(1)), 0, 1);
      lease.data()[0] = std::byte{'!'};
      message.buffer.append(std::move(lease));
      message.expected = "!";
    }
    return message;
  }

  bool receive() {
    Message message = in_.take();
    if (message.expected.empty()) return false;
    if (test::text_of(message.buffer) != message.expected) ++damaged_;
    // A permitted write affects nobody else: the other side checks its own data.
    for (size_t i = 0; i < message.buffer.window_count(); ++i) {
      for (std::byte& byte : message.buffer.writable_window(i)) byte ^= std::byte{0x20};
    }
    message.expected = test::text_of(message.buffer);
    const size_t cut = random_() % message.expected.size();
    Buffer front = message.buffer.split_front(cut);
    if (test::text_of(front) != message.expected.substr(0, cut)) ++damaged_;
    if (random_() % 2) kept_ = {std::move(message.buffer), message.expected.substr(cut)};
    return true;
  }

  std::mt19937 random_;
  Mailbox& in_;
  Mailbox& out_;
  ChunkPool& pool_;
  Message kept_;
  int damaged_ = 0;
  int drained_ = 0;
};

void expect_all_home(ChunkPool& pool) {
  pool.take_remote_frees();
  EXPECT_EQ(pool.leaked(), 0u);
}

TEST(Handoff, BuffersMoveBetweenThreads) {
  ChunkPool pool_a({.budget_bytes = 4 << 20}), pool_b({.budget_bytes = 4 << 20});
  {
    Mailbox to_a, to_b;
    Station a(1, to_a, to_b, pool_a), b(2, to_b, to_a, pool_b);
    std::thread thread_a([&] { a.run(); }), thread_b([&] { b.run(); });
    thread_a.join();
    thread_b.join();
    EXPECT_EQ(a.damaged(), 0);
    EXPECT_EQ(b.damaged(), 0);
  }
  expect_all_home(pool_a);
  expect_all_home(pool_b);
  EXPECT_GT(pool_a.stats().freed_remotely, 0u);
  EXPECT_GT(pool_b.stats().freed_remotely, 0u);
}

// Each thread has a view of one chunk, and all of them clone, cut, append to buffers and drop theirs at once.
TEST(Handoff, ViewsOfOneChunkOnSeveralThreads) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  std::string text(4096, 0);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
  for (int round = 0; round < kMessages / 100; ++round) {
    Lease lease = Lease::allocate(pool, text.size());
    ASSERT_TRUE(lease);
    View first = test::filled(std::move(lease), text).freeze();
    std::array<std::thread, 4> threads;
    std::atomic<int> damaged = 0;
    for (size_t t = 0; t < threads.size(); ++t) {
      threads[t] = std::thread([&text, &damaged, view = first.clone(), t]() mutable {
        std::mt19937 random(static_cast<uint32_t>(t));
        for (int i = 0; i < 20; ++i) {
          const size_t at = random() % text.size(), size = random() % (text.size() - at);
          View part = view.clone();
          part.trim_front(at);
          part.truncate(size);
          Buffer buffer;
          buffer.append(std::move(part));
          Buffer clone = buffer.clone();
          buffer.append(view.clone());
          if (!(clone == std::string_view(text).substr(at, size))) ++damaged;
          if (buffer.size() != size + text.size()) ++damaged;
          if (buffer.tailroom() != 0 || !buffer.writable_window(0).empty()) ++damaged;
        }
      });
    }
    first = View();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(damaged, 0);
  }
  expect_all_home(pool);
}

// The last holder may write: all reads of the others have happened before.
TEST(Handoff, LastHolderWrites) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  ChunkPool::Use use(&pool);
  const std::string text(1000, 'a');
  for (int round = 0; round < kMessages / 20; ++round) {
    Buffer buffer;
    ASSERT_TRUE(buffer.append_copy(pool, text));
    std::thread reader([clone = buffer.clone(), &text] { EXPECT_TRUE(clone == text); });
    // As soon as the reader has dropped its clone the bytes are ours, without other communication between the threads.
    while (buffer.writable_window(0).empty()) std::this_thread::yield();
    for (std::byte& byte : buffer.writable_window(0)) byte = std::byte{'b'};
    ASSERT_TRUE(buffer.append_copy(pool, "tail"));
    EXPECT_EQ(buffer.window_count(), 1u);
    reader.join();
  }
}

// Const operations change nothing, not even a reference count: several threads may read one buffer.
TEST(Handoff, SeveralThreadsReadOneBuffer) {
  ChunkPool pool({.budget_bytes = 1 << 20});
  {
    ChunkPool::Use use(&pool);
    std::string text(2000, 0);
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31);
    const Buffer buffer = test::buffer_of(pool, text, test::splits_every(70, text.size()));
    std::array<std::thread, 3> threads;
    for (std::thread& thread : threads) {
      thread = std::thread([&] {
        for (int i = 0; i < 20; ++i) {
          EXPECT_EQ(buffer.to_string(), text);
          EXPECT_EQ(buffer.find("\x1f\x3e"), 1u);
          EXPECT_TRUE(buffer == buffer && buffer == text);
          EXPECT_EQ(buffer.pinned().bytes, buffer.pinned_bytes());
          EXPECT_EQ(buffer.checksum(), buffer.checksum());
          std::array<std::byte, 100> scratch;
          EXPECT_EQ(buffer.fetch(50, 100, scratch).size(), 100u);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  expect_all_home(pool);
}

// Long buffers move with their blocks of windows, are cut and joined there, and everything returns to its pool.
TEST(Handoff, LongBuffersAreSplitOnOtherThreads) {
  ChunkPool pool_a({.budget_bytes = 8 << 20}), pool_b({.budget_bytes = 8 << 20});
  {
    ChunkPool::Use use(&pool_a);
    for (int round = 0; round < 20; ++round) {
      Buffer buffer;
      std::string expected;
      for (int i = 0; i < 100; ++i) {
        const std::string text(static_cast<size_t>(1 + i), static_cast<char>('a' + i % 26));
        Lease lease = Lease::allocate(pool_a, text.size());
        ASSERT_TRUE(lease);
        buffer.append(test::filled(std::move(lease), text));
        expected += text;
      }
      Buffer kept = buffer.clone(100, 1000);
      std::thread([&pool_b, &expected, moved = std::move(buffer)]() mutable {
        ChunkPool::Use use_b(&pool_b);
        Buffer front = moved.split_front(2000);
        ASSERT_TRUE(moved.make_writable(pool_b, 0, moved.size()));
        ASSERT_TRUE(front.prepend_copy(pool_b, std::as_bytes(std::span("head", 4))));
        front.append(std::move(moved));
        EXPECT_TRUE(front == "head" + expected);
      }).join();
      EXPECT_TRUE(kept == std::string_view(expected).substr(100, 1000));
    }
  }
  expect_all_home(pool_a);
  expect_all_home(pool_b);
}

// The release function of adopted memory runs once, on some thread, after all others are done with it.
TEST(Handoff, AdoptedMemoryIsReleasedOnce) {
  for (int round = 0; round < kMessages / 20; ++round) {
    std::string memory(100, 'a');
    std::atomic<int> released = 0;
    struct Owner {
      std::string& memory;
      std::atomic<int>& released;
    } owner{memory, released};
    View view = View::adopt(
        memory.data(), memory.size(),
        [](void* context, std::byte*, size_t) {
          Owner& of = *static_cast<Owner*>(context);
          of.memory.assign(of.memory.size(), 'z');  // Its own again.
          ++of.released;
        },
        &owner);
    const auto read = [](const View& part) { return part.bytes()[99]; };
    std::thread first([clone = view.clone(), &read] { EXPECT_EQ(read(clone), std::byte{'a'}); });
    std::thread second([clone = view.clone(), &read] { EXPECT_EQ(read(clone), std::byte{'a'}); });
    EXPECT_EQ(read(view), std::byte{'a'});
    view = View();
    first.join();
    second.join();
    EXPECT_EQ(released, 1);
    EXPECT_EQ(memory[99], 'z');
  }
}

}  // namespace
}  // namespace sluice
