// A body between memory and the file: its order whichever part is written when, when it is full, and what happens when
// the file takes no more, or when the body ends during a write.

#include "proxy/http/proxy/body_buffer.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <utility>

#include "sluice/copied.h"
#include "test/net/loop.h"

namespace sluice {
namespace {

constexpr size_t kKiB = 1024, kMiB = kKiB * kKiB;

class BodyBufferTest : public testing::Test {
 protected:
  ChunkPool& pool() { return loop_.worker().pool(); }
  void begin(size_t limit = kMiB, uint64_t max_bytes = 64 * kMiB) {
    file_.emplace(config::BodyFile{.limit = {limit}});
    ASSERT_TRUE(file_->pool.ok()) << file_->pool.error().message;
    body_.emplace(
        loop_.worker(), *file_, max_bytes, counters_, [](void* moves) { ++*static_cast<int*>(moves); }, &moves_);
  }
  void add(size_t bytes) {
    body_->add(test::buffer_of(pool(), test::stream_bytes(1, added_, bytes)));
    added_ += bytes;
  }
  // Takes up to `bytes`, and checks that they are the next ones.
  size_t take(size_t bytes) {
    const std::string taken = body_->take(bytes).to_string();
    EXPECT_LE(taken.size(), bytes);
    EXPECT_TRUE(test::is_stream(1, taken_, taken));
    taken_ += taken.size();
    return taken.size();
  }
  void take_all() {
    while (take(100 * kKiB) > 0) {
    }
    EXPECT_EQ(taken_, added_);
    EXPECT_TRUE(body_->empty());
  }
  // Uses memory, so that little is left for bodies.
  void use_memory() { other_ = test::buffer_of(pool(), std::string(BodyBuffer::kWorkerBytes, 'x')); }

  test::Loop loop_;
  std::optional<BodyFile> file_;
  BodyFileCounters counters_;
  std::optional<BodyBuffer> body_;
  Buffer other_;
  int moves_ = 0;
  uint64_t added_ = 0, taken_ = 0;
};

TEST_F(BodyBufferTest, LittleStaysInMemory) {
  begin();
  add(10 * kKiB);
  body_->store();
  EXPECT_FALSE(body_->full());
  EXPECT_EQ(counters_.written_bytes.value(), 0u);
  take_all();
  add(10 * kKiB);
  body_->store(/*all=*/true);
  EXPECT_EQ(counters_.written_bytes.value(), 10 * kKiB);
  take_all();
}

// Defect: if a body was written by its own thread, its bytes were counted as copied twice.
TEST_F(BodyBufferTest, WrittenBytesAreCountedOnce) {
  for (const bool elsewhere : {false, true}) {
    begin();
    std::optional<HelperThreads::Desk> desk;
    if (elsewhere) desk.emplace(loop_.worker());
    const uint64_t written = counters_.written_bytes.value();
    add(10 * kKiB);
    const uint64_t before = copied_bytes;
    body_->store(/*all=*/true);
    loop_.until([&] { return counters_.written_bytes.value() == written + 10 * kKiB; });
    EXPECT_EQ(copied_bytes - before, 10 * kKiB);
    take_all();
    body_.reset();
  }
}

TEST_F(BodyBufferTest, AllIsStoredWhenMemoryIsShort) {
  begin();
  use_memory();
  EXPECT_EQ(BodyBuffer::share(loop_.worker()), BodyBuffer::kMinShare);
  add(10);
  EXPECT_TRUE(body_->full());
  body_->store();
  EXPECT_FALSE(body_->full());
  EXPECT_EQ(file_->pool.stats().out_chunks, 1u);
  take_all();
  EXPECT_EQ(file_->pool.stats().out_chunks, 0u);
}

TEST_F(BodyBufferTest, WaitingBytesAreBounded) {
  begin(kMiB, 100 * kKiB);
  add(99 * kKiB);
  EXPECT_FALSE(body_->full());
  add(kKiB);
  EXPECT_TRUE(body_->full() && body_->stays_full());
  take(1);
  EXPECT_FALSE(body_->full());
}

TEST_F(BodyBufferTest, FileTakesNoMore) {
  begin(kMiB);
  const size_t share = BodyBuffer::share(loop_.worker());
  size_t stored = 0;
  for (; !body_->full(); stored += share) {
    add(share);
    body_->store();
  }
  EXPECT_TRUE(body_->stays_full());
  EXPECT_GT(counters_.refused.value(), 0u);
  EXPECT_GE(stored, kMiB);
  EXPECT_LE(stored, kMiB + 3 * share);
  take(kMiB + share);
  EXPECT_FALSE(body_->full()) << "what was in memory is gone";
  add(share);
  body_->store();
  EXPECT_FALSE(body_->full()) << "the file has room again";
  take_all();
}

TEST_F(BodyBufferTest, TakenBytesMayBeReturned) {
  begin();
  add(200 * kKiB);
  body_->store(/*all=*/true);
  Buffer first = body_->take(150 * kKiB);
  body_->put_back(std::move(first));
  EXPECT_EQ(body_->size(), added_);
  take_all();
}

// Random steps, with writes in progress on other threads, compared with the known bytes of a stream.
TEST_F(BodyBufferTest, KeepsTheOrder) {
  for (const bool pressed : {false, true}) {
    begin(pressed ? 64 * kMiB : kMiB);
    const HelperThreads::Desk desk(loop_.worker());
    if (pressed) use_memory();
    std::mt19937 random(7);
    added_ = taken_ = 0;
    for (int step = 0; step < 400; ++step) {
      if (!body_->full()) add(random() % (64 * kKiB) + 1);
      if (random() % 2) body_->store(random() % 4 == 0);
      if (random() % 3 == 0) take(random() % (128 * kKiB));
      if (random() % 4 == 0) loop_.settle(1);
    }
    loop_.until([&] {
      take(kMiB);
      return body_->empty();
    });
    EXPECT_EQ(taken_, added_);
    EXPECT_GT(moves_, 0);
    EXPECT_EQ(file_->pool.stats().out_chunks, 0u);
    body_.reset();
    other_.clear();
  }
}

TEST_F(BodyBufferTest, EndsDuringAWrite) {
  begin(64 * kMiB);
  const HelperThreads::Desk desk(loop_.worker());
  for (int i = 0; i < 20; ++i) {
    add(BodyBuffer::kMaxShare);
    body_->store(/*all=*/true);
    body_.reset();
    begin(64 * kMiB);
  }
  EXPECT_EQ(moves_, 0);
}

}  // namespace
}  // namespace sluice
