// Buffers that travel between threads, each with a pool of its own. Run under ThreadSanitizer too.

#include <gtest/gtest.h>

#include <array>
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

// A buffer with what it must contain. An empty one is the end.
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

  // Sends messages and takes what arrives apart, until both are done.
  void run() {
    ChunkPool::Use use(&pool_);
    for (int i = 0; i < kMessages; ++i) {
      out_.put(compose());
      if (i >= 100) receive();  // About a hundred are on their way in each direction.
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
    // Parts of what came from the other side, of which a part stays here, travel back and forth.
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
    // Writing where writing is allowed disturbs nobody: the other side checks its own.
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

TEST(Handoff, BuffersTravelBetweenThreads) {
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
  pool_a.take_inbox();
  pool_b.take_inbox();
  EXPECT_EQ(pool_a.leaked(), 0u);
  EXPECT_EQ(pool_b.leaked(), 0u);
  EXPECT_GT(pool_a.stats().came_home, 0u);
  EXPECT_GT(pool_b.stats().came_home, 0u);
}

}  // namespace
}  // namespace sluice
