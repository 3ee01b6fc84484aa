#include "net/buffer_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test/net/loop.h"

namespace sluice {
namespace {

using test::is_stream;
using test::Peer;
using test::stream_bytes;
using test::text_of;

constexpr uint32_t kBundleBytes = 64 << 10;

/// The receiving end of a socket pair, armed by the test.
struct alignas(kTargetAlignment) Conn {
  Conn() {
    const test::Pair pair = test::unix_pair();
    fd = pair.ours;
    peer = Peer(pair.theirs);
  }
  ~Conn() { ::close(fd); }

  int fd;
  Peer peer;
  std::vector<Completion> completions;
  std::vector<Buffer> pieces;  ///< One for each completion with a buffer.
  bool armed = false;
};

class BufferRingTest : public ::testing::Test {
 protected:
  void open(BufferRing::Options options, size_t budget_bytes = size_t{64} << 20) {
    auto ring = Ring::open({.submission_entries = 64, .completion_entries = 256});
    ASSERT_TRUE(ring.ok()) << ring.status();
    ring_ = std::move(*ring);
    pool_ = std::make_unique<ChunkPool>(ChunkPool::Options{.budget_bytes = budget_bytes});
    use_ = std::make_unique<ChunkPool::Use>(pool_.get());
    auto group = BufferRing::open(*ring_, *pool_, options);
    ASSERT_TRUE(group.ok()) << group.status();
    group_ = std::move(*group);
    for (int i = 0; i < 2; ++i) conns_.push_back(std::make_unique<Conn>());
    EXPECT_EQ(group_->filled_slots(), 0u);
    EXPECT_EQ(group_->empty_slots(), options.entries);
  }
  void TearDown() override {
    conns_.clear();
    group_.reset();
    ASSERT_TRUE(pool_);
    EXPECT_EQ(pool_->leaked(), 0u);
  }

  Conn& conn(size_t i) { return *conns_[i]; }

  void arm(Conn& c, bool bundle = false) {
    if (bundle) {
      ring_->recv_bundles(&c, c.fd, group_->group(), kBundleBytes, kBundleBytes, /*poll_first=*/true);
    } else {
      ring_->recv_multishot(&c, c.fd, group_->group());
    }
    c.armed = true;
  }

  /// Processes the completions, in the order of the queue.
  void reap() {
    // Several passes: the kernel runs a bounded amount of deferred work in each.
    for (int pass = 0; pass < 4; ++pass) {
      ring_->wait(0);
      ring_->reap([this](Op op, void* target, Completion completion) {
        if (op != Op::kRecv) return;
        auto& c = *static_cast<Conn*>(target);
        c.completions.push_back(completion);
        c.armed = completion.more();
        if (!completion.has_buffer()) return;
        c.pieces.emplace_back();
        group_->take(completion, c.pieces.back());
        EXPECT_EQ(c.pieces.back().size(), completion.res > 0 ? static_cast<size_t>(completion.res) : 0u);
      });
    }
  }

  std::string take_text(Conn& c) {
    std::string text;
    for (Buffer& piece : c.pieces) text += text_of(piece);
    c.pieces.clear();
    return text;
  }

  std::unique_ptr<Ring> ring_;
  std::unique_ptr<ChunkPool> pool_;
  std::unique_ptr<ChunkPool::Use> use_;
  std::unique_ptr<BufferRing> group_;
  std::vector<std::unique_ptr<Conn>> conns_;
};

TEST_F(BufferRingTest, PlainTakesOneChunkPerReceive) {
  open({.group = 3, .entries = 4, .chunk_bytes = 1024});
  ASSERT_TRUE(group_->refill());
  EXPECT_EQ(group_->filled_slots(), 4u);
  EXPECT_EQ(group_->posted_bytes(), 4096u);
  EXPECT_EQ(pool_->leaked(), 4u);
  arm(conn(0));
  reap();
  // Three times around the ring.
  for (int i = 0; i < 12; ++i) {
    conn(0).peer.send("message " + std::to_string(i));
    reap();
    ASSERT_EQ(conn(0).pieces.size(), 1u);
    EXPECT_EQ(group_->filled_slots(), 3u);
    EXPECT_EQ(conn(0).pieces[0].pinned_bytes(), 1024u);
    // The chunk has no other holder: it may be written.
    EXPECT_FALSE(conn(0).pieces[0].writable_window(0).empty());
    EXPECT_EQ(take_text(conn(0)), "message " + std::to_string(i));
    EXPECT_TRUE(group_->refill());
    EXPECT_EQ(pool_->leaked(), 4u);
  }
}

TEST_F(BufferRingTest, GrowsAndShrinks) {
  open({.group = 0, .entries = 2, .max_entries = 8, .chunk_bytes = 512});
  ASSERT_TRUE(group_->refill());
  EXPECT_EQ(group_->filled_slots(), 2u);
  group_->grow();
  EXPECT_EQ(group_->empty_slots(), 2u);
  EXPECT_TRUE(group_->refill());
  EXPECT_EQ(group_->filled_slots(), 4u);
  for (int i = 0; i < 5; ++i) group_->grow();
  EXPECT_TRUE(group_->refill());
  EXPECT_EQ(group_->filled_slots(), 8u);
  arm(conn(0));
  std::string bytes = stream_bytes(0, 0, 8 * 512);
  conn(0).peer.send(bytes);
  reap();
  EXPECT_EQ(take_text(conn(0)), bytes);
  EXPECT_TRUE(group_->refill());
  if (!conn(0).armed) arm(conn(0));
  conn(0).peer.send("a");
  reap();
  group_->shrink();
  EXPECT_EQ(group_->wanted_slots(), 2u);
  EXPECT_EQ(group_->filled_slots(), 2u);
  EXPECT_EQ(pool_->leaked(), 3u);  // With the piece that was received.
  // The receive is still armed, and completes from the new buffers.
  ASSERT_TRUE(conn(0).armed);
  conn(0).peer.send("bc");
  reap();
  EXPECT_EQ(take_text(conn(0)), "abc");
}

// A chunk of which pieces were received is withdrawn too: the pieces stay valid.
TEST_F(BufferRingTest, ShrinksWithPartlyFilledChunks) {
  if (!test::kernel_features().incremental) GTEST_SKIP();
  open({.group = 0, .entries = 1, .max_entries = 4, .chunk_bytes = 4096, .incremental = true});
  group_->grow();
  ASSERT_TRUE(group_->refill());
  arm(conn(0));
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string bytes = stream_bytes(3, expected.size(), 100);
    expected += bytes;
    conn(0).peer.send(bytes);
    reap();
    if (i % 5 == 2) {
      group_->shrink();
      EXPECT_EQ(group_->filled_slots(), 1u);
      group_->grow();
      EXPECT_TRUE(group_->refill());
    }
    ASSERT_TRUE(conn(0).armed);
  }
  EXPECT_EQ(take_text(conn(0)), expected);
}

TEST_F(BufferRingTest, DoesNotShrinkWhileCompletionsWait) {
  open({.group = 0, .entries = 1, .max_entries = 4, .chunk_bytes = 512});
  group_->grow();
  ASSERT_TRUE(group_->refill());
  arm(conn(0));
  reap();
  conn(0).peer.send("waits");
  ring_->wait(0);
  group_->shrink();
  EXPECT_GT(group_->filled_slots(), 1u);
  reap();
  EXPECT_EQ(take_text(conn(0)), "waits");
  group_->shrink();
  EXPECT_EQ(group_->filled_slots(), 1u);
}

TEST_F(BufferRingTest, PlainSplitsDataLongerThanAChunk) {
  open({.group = 0, .entries = 8, .chunk_bytes = 512});
  group_->refill();
  arm(conn(0));
  const std::string bytes = stream_bytes(0, 0, 5 * 512 + 100);
  conn(0).peer.send(bytes);
  reap();
  EXPECT_EQ(conn(0).pieces.size(), 6u);
  EXPECT_EQ(take_text(conn(0)), bytes);
}

// Defect: an offset counted per socket. In an incremental chunk it is common to all sockets of the group.
TEST_F(BufferRingTest, IncrementalPiecesOfTwoSocketsShareAChunk) {
  if (!test::kernel_features().incremental) GTEST_SKIP();
  open({.group = 0, .entries = 2, .chunk_bytes = 4096, .incremental = true});
  group_->refill();
  arm(conn(0));
  arm(conn(1));
  reap();
  const std::byte* next = nullptr;
  std::vector<Buffer> held;
  for (const char* text : {"AAAA", "bb", "CCCCCC", "d", "EEE", "ffff"}) {
    Conn& c = conn(static_cast<size_t>(islower(text[0]) != 0));
    c.peer.send(text);
    reap();
    ASSERT_EQ(c.pieces.size(), 1u);
    ASSERT_EQ(c.pieces[0].window_count(), 1u);
    EXPECT_TRUE(c.completions.back().buffer_more());
    const auto window = c.pieces[0].window(0);
    EXPECT_TRUE(next == nullptr || window.data() == next);
    next = window.data() + window.size();
    EXPECT_EQ(text_of(c.pieces[0]), text);
    // Each piece is exclusive, though the chunk is shared and still posted.
    EXPECT_EQ(c.pieces[0].writable_window(0).size(), window.size());
    held.push_back(std::move(c.pieces[0]));
    c.pieces.clear();
  }
  EXPECT_EQ(group_->filled_slots(), 2u);
  EXPECT_EQ(pool_->leaked(), 2u);
  std::string all;
  for (const Buffer& piece : held) all += text_of(piece);
  EXPECT_EQ(all, "AAAAbbCCCCCCdEEEffff");
}

TEST_F(BufferRingTest, IncrementalChunkIsReplacedWhenFull) {
  if (!test::kernel_features().incremental) GTEST_SKIP();
  open({.group = 0, .entries = 2, .chunk_bytes = 1024, .incremental = true});
  group_->refill();
  arm(conn(0));
  std::string expected, got;
  for (int i = 0; i < 40; ++i) {
    const std::string bytes = stream_bytes(7, expected.size(), 100);
    expected += bytes;
    conn(0).peer.send(bytes);
    reap();
    got += take_text(conn(0));
    group_->refill();
    ASSERT_EQ(got, expected);
    ASSERT_EQ(pool_->leaked(), 2u);
  }
}

TEST_F(BufferRingTest, IncrementalRetiresAChunkWithLittleLeft) {
  if (!test::kernel_features().min_left) GTEST_SKIP();
  open({.group = 0, .entries = 2, .chunk_bytes = 4096, .incremental = true, .min_left = 512});
  group_->refill();
  arm(conn(0));
  conn(0).peer.send(std::string(4096 - 512, 'a'));
  reap();
  EXPECT_TRUE(conn(0).completions.back().buffer_more());
  EXPECT_EQ(group_->empty_slots(), 0u);
  conn(0).peer.send("b");
  reap();
  EXPECT_FALSE(conn(0).completions.back().buffer_more());
  EXPECT_EQ(group_->empty_slots(), 1u);
  // The chunk is no longer in the ring, but lives on in the received data.
  EXPECT_EQ(pool_->leaked(), 2u);
  EXPECT_EQ(take_text(conn(0)), std::string(4096 - 512, 'a') + "b");
  EXPECT_EQ(pool_->leaked(), 1u);
}

// A connection that ends may leave a partly used chunk; the next one continues in it.
TEST_F(BufferRingTest, IncrementalChunkOutlivesAConnection) {
  if (!test::kernel_features().incremental) GTEST_SKIP();
  open({.group = 0, .entries = 1, .chunk_bytes = 4096, .incremental = true});
  group_->refill();
  arm(conn(0));
  arm(conn(1));
  conn(0).peer.send("first");
  reap();
  ASSERT_EQ(conn(0).pieces.size(), 1u);
  const std::byte* begin = conn(0).pieces[0].window(0).data();
  conn(0).peer.close();
  reap();
  ASSERT_EQ(conn(0).completions.size(), 2u);
  EXPECT_EQ(conn(0).completions[1].res, 0);
  EXPECT_FALSE(conn(0).armed);
  conn(1).peer.send("second");
  reap();
  ASSERT_EQ(conn(1).pieces.size(), 1u);
  EXPECT_EQ(text_of(conn(1).pieces[0]), "second");
  EXPECT_EQ(conn(1).pieces[0].window(0).data(), begin + 5);
  EXPECT_EQ(text_of(conn(0).pieces[0]), "first");
}

// A bundle names only its first buffer; the others follow in the order in which they were posted, around the ring.
TEST_F(BufferRingTest, BundlesKeepTheirOrderAroundTheRing) {
  if (!test::kernel_features().bundles) GTEST_SKIP();
  open({.group = 0, .entries = 8, .chunk_bytes = 256});
  group_->refill();
  size_t position = 0;
  uint64_t at = 0;
  std::vector<Buffer> held;
  for (int round = 0; round < 60; ++round) {
    const size_t bytes = 1 + static_cast<size_t>(round) * 97 % (5 * 256);
    conn(0).peer.send(stream_bytes(1, at, bytes));
    for (const uint64_t end = at + bytes; at < end;) {
      if (!conn(0).armed) arm(conn(0), true);
      reap();
      ASSERT_GT(conn(0).completions.back().res, 0);
      std::string text;
      for (const Buffer& piece : conn(0).pieces) text += text_of(piece);
      ASSERT_TRUE(is_stream(1, at, text)) << "round " << round << " at ring position " << position % 8;
      at += text.size();
      position += (text.size() + 255) / 256;
      // Held for a while, so that ids return in another order than they were used.
      for (Buffer& piece : conn(0).pieces) held.push_back(std::move(piece));
      conn(0).pieces.clear();
      while (held.size() > 3) held.erase(held.begin() + round % 3);
      ASSERT_TRUE(group_->refill());
    }
  }
  EXPECT_GT(position, 100u);
}

// The completion that takes the last buffer of a group ends a multishot receive without -ENOBUFS; more data follows.
TEST_F(BufferRingTest, BundleTakesAllThatIsPosted) {
  if (!test::kernel_features().bundles) GTEST_SKIP();
  open({.group = 0, .entries = 4, .chunk_bytes = 256});
  group_->refill();
  conn(0).peer.send(stream_bytes(2, 0, 10 * 256));
  std::string got;
  for (int i = 0; i < 20 && got.size() < size_t{10} * 256; ++i) {
    if (!conn(0).armed) arm(conn(0), true);
    reap();
    got += take_text(conn(0));
    group_->refill();
  }
  EXPECT_EQ(got, stream_bytes(2, 0, 10 * 256));
}

// A bounded receive ends by itself near its bound; the rest waits in the socket.
TEST_F(BufferRingTest, BundlesAreBounded) {
  if (!test::kernel_features().bundles) GTEST_SKIP();
  open({.group = 0, .entries = 16, .chunk_bytes = 256});
  group_->refill();
  conn(0).peer.send(stream_bytes(3, 0, 12 * 256));
  ring_->recv_bundles(&conn(0), conn(0).fd, 0, /*shot_bytes=*/512, /*total_bytes=*/1024, /*poll_first=*/true);
  reap();
  for (const Completion& completion : conn(0).completions) EXPECT_LE(completion.res, 512);
  EXPECT_FALSE(conn(0).completions.back().more());
  EXPECT_EQ(take_text(conn(0)), stream_bytes(3, 0, 1024));
}

TEST_F(BufferRingTest, RefillStopsAtTheBudgetAndResumes) {
  open({.group = 0, .entries = 8, .chunk_bytes = 4096}, /*budget_bytes=*/3 * 4096);
  EXPECT_FALSE(group_->refill());
  EXPECT_EQ(group_->filled_slots(), 3u);
  EXPECT_EQ(group_->empty_slots(), 5u);
  EXPECT_EQ(group_->posted_bytes(), 3u * 4096);
  arm(conn(0));
  reap();
  for (int i = 0; i < 3; ++i) {
    conn(0).peer.send(std::string(1, static_cast<char>('a' + i)));
    reap();
  }
  EXPECT_TRUE(conn(0).armed);
  EXPECT_EQ(group_->filled_slots(), 0u);
  EXPECT_FALSE(group_->refill());
  // Nothing is posted: the next data finds no buffer, and nothing is lost.
  conn(0).peer.send("d");
  reap();
  EXPECT_FALSE(conn(0).armed);
  EXPECT_EQ(conn(0).completions.back().res, -ENOBUFS);
  EXPECT_EQ(take_text(conn(0)), "abc");
  EXPECT_FALSE(group_->refill());
  EXPECT_EQ(group_->filled_slots(), 3u);
  arm(conn(0));
  reap();
  EXPECT_EQ(take_text(conn(0)), "d");
}

TEST_F(BufferRingTest, RefillAfterChunksReturnedFromAnotherThread) {
  open({.group = 0, .entries = 2, .chunk_bytes = 4096}, /*budget_bytes=*/2 * 4096);
  EXPECT_TRUE(group_->refill());
  arm(conn(0));
  for (const char* text : {"a", "b"}) {
    conn(0).peer.send(text);
    reap();
  }
  ASSERT_EQ(conn(0).pieces.size(), 2u);
  EXPECT_FALSE(group_->refill());
  std::thread elsewhere([pieces = std::move(conn(0).pieces)]() mutable { pieces.clear(); });
  elsewhere.join();
  conn(0).pieces.clear();
  EXPECT_TRUE(group_->refill());
  EXPECT_EQ(pool_->stats().freed_remotely, 2u);
}

TEST_F(BufferRingTest, ClosesWithDataHeld) {
  open({.group = 0, .entries = 4, .chunk_bytes = 4096, .incremental = test::kernel_features().incremental});
  group_->refill();
  arm(conn(0));
  conn(0).peer.send("kept beyond the ring");
  reap();
  ASSERT_EQ(conn(0).pieces.size(), 1u);
  group_.reset();
  EXPECT_EQ(pool_->leaked(), 1u);
  EXPECT_EQ(take_text(conn(0)), "kept beyond the ring");
  EXPECT_EQ(pool_->leaked(), 0u);
}

TEST_F(BufferRingTest, DuplicateGroupIsAnError) {
  open({.group = 5, .entries = 2, .chunk_bytes = 256});
  const auto second = BufferRing::open(*ring_, *pool_, {.group = 5, .entries = 2, .chunk_bytes = 256});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

// ---- Random use ----

enum class Mode { kPlain, kIncremental, kMinLeft, kBundles };
constexpr const char* kModeNames[] = {"Plain", "Incremental", "MinLeft", "Bundles"};

/// Several sockets with one group and an exhausted budget, with random sizes, and received data that is held for random
/// times. A chunk that were posted while it is held, or under two ids, would be overwritten while it is held: contents
/// are verified when data arrives and again when it is released.
class RandomUse {
 public:
  RandomUse(Mode mode, uint64_t seed) : mode_(mode), random_(seed) {
    auto ring = Ring::open({.submission_entries = 64, .completion_entries = 1024});
    SLUICE_CHECK(ring.ok());
    ring_ = std::move(*ring);
    const uint16_t entries = static_cast<uint16_t>(1u << (random_() % 5));
    chunk_bytes_ = size_t{256} << (random_() % 5);
    // Between little more than one chunk and more than can be used.
    pool_ = std::make_unique<ChunkPool>(ChunkPool::Options{.budget_bytes = chunk_bytes_ * (1 + random_() % 40)});
    use_ = std::make_unique<ChunkPool::Use>(pool_.get());
    const bool incremental = mode == Mode::kIncremental || mode == Mode::kMinLeft;
    auto group = BufferRing::open(*ring_, *pool_,
                                  {.group = 1,
                                   .entries = entries,
                                   .chunk_bytes = chunk_bytes_,
                                   .incremental = incremental,
                                   .min_left = mode == Mode::kMinLeft ? static_cast<uint32_t>(chunk_bytes_ / 8) : 0});
    SLUICE_CHECK(group.ok());
    group_ = std::move(*group);
    for (size_t i = 0; i < 1 + random_() % 6; ++i) conns_.push_back(std::make_unique<Stream>());
  }

  void run(int steps) {
    group_->refill();
    for (int step = 0; step < steps && !failed_; ++step) {
      arm();
      Stream& stream = *conns_[random_() % conns_.size()];
      if (random_() % 4 != 0 && stream.sent - stream.got < (64 << 10)) {
        const size_t bytes = 1 + random_() % (random_() % 2 ? 100 : 3 * chunk_bytes_);
        stream.sent += stream.conn.peer.send_some(stream_bytes(id(stream), stream.sent, bytes));
      }
      reap();
      while (!held_.empty() && (random_() % 3 == 0 || (held_.size() > 30 && group_->filled_slots() == 0))) release();
      group_->refill();
      check();
    }
    finish();
  }

 private:
  struct Stream {
    Conn conn;
    uint64_t sent = 0, got = 0;
  };
  struct Held {
    Buffer data;
    uint64_t stream, from;
  };
  uint64_t id(const Stream& stream) const {
    for (size_t i = 0; i < conns_.size(); ++i) {
      if (conns_[i].get() == &stream) return i;
    }
    return conns_.size();
  }
  Stream& owner(const Conn& conn) {
    for (auto& stream : conns_) {
      if (&stream->conn == &conn) return *stream;
    }
    SLUICE_CHECK(false);
    return *conns_[0];
  }

  void arm() {
    for (auto& stream : conns_) {
      Conn& c = stream->conn;
      if (c.armed || group_->filled_slots() == 0) continue;
      if (mode_ == Mode::kBundles) {
        const auto total = static_cast<uint32_t>(1 + random_() % (8 * chunk_bytes_));
        ring_->recv_bundles(&c, c.fd, 1, static_cast<uint32_t>(1 + random_() % total), total, random_() % 2 != 0);
      } else if (random_() % 8 == 0) {
        ring_->recv_once(&c, c.fd, 1, random_() % 2 != 0);
      } else {
        ring_->recv_multishot(&c, c.fd, 1);
      }
      c.armed = true;
    }
  }

  void reap() {
    ring_->wait(0);
    ring_->reap([this](Op, void* target, Completion completion) {
      auto& conn = *static_cast<Conn*>(target);
      Stream& stream = owner(conn);
      conn.armed = completion.more();
      if (!completion.has_buffer()) {
        expect(completion.res == -ENOBUFS, "an unexpected result");
        return;
      }
      Held held{{}, id(stream), stream.got};
      group_->take(completion, held.data);
      stream.got += held.data.size();
      verify(held);
      held_.push_back(std::move(held));
    });
  }

  void verify(const Held& held) {
    expect(is_stream(held.stream, held.from, text_of(held.data)), "contents of a stream");
  }
  void release() {
    const size_t at = random_() % held_.size();
    verify(held_[at]);
    std::swap(held_[at], held_.back());
    held_.pop_back();
  }
  void check() {
    // Lists of windows may exceed the budget; a list is shorter than a chunk of the smallest size here.
    expect(pool_->out_bytes() <= pool_->budget_bytes() + held_.size() * chunk_bytes_, "the budget");
    expect(pool_->leaked() >= group_->filled_slots(), "chunks that are out");
  }
  // All sent data arrives once nothing is held any more.
  void finish() {
    const auto deadline = std::chrono::steady_clock::now() + test::kPatience;
    while (!failed_) {
      while (!held_.empty()) release();
      group_->refill();
      bool all = true;
      for (auto& stream : conns_) all &= stream->got == stream->sent;
      if (all) break;
      arm();
      ring_->wait(1'000'000);
      reap();
      expect(std::chrono::steady_clock::now() < deadline, "an end");
    }
    while (!held_.empty()) release();
    expect(pool_->leaked() == group_->filled_slots(), "all chunks home or posted");
    conns_.clear();
    group_.reset();
    expect(pool_->leaked() == 0, "all chunks home");
  }
  void expect(bool fine, const char* what) {
    if (fine || failed_) return;
    ADD_FAILURE() << "expected " << what;
    failed_ = true;
  }

  const Mode mode_;
  std::mt19937_64 random_;
  size_t chunk_bytes_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<ChunkPool> pool_;
  std::unique_ptr<ChunkPool::Use> use_;
  std::unique_ptr<BufferRing> group_;
  std::vector<std::unique_ptr<Stream>> conns_;
  std::vector<Held> held_;
  bool failed_ = false;
};

class BufferRingRandomTest : public ::testing::TestWithParam<Mode> {};

TEST_P(BufferRingRandomTest, PostedIdsNameOneChunkEach) {
  const Features& features = test::kernel_features();
  if ((GetParam() == Mode::kIncremental && !features.incremental) ||
      (GetParam() == Mode::kMinLeft && !features.min_left) || (GetParam() == Mode::kBundles && !features.bundles)) {
    GTEST_SKIP();
  }
  for (uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomUse(GetParam(), seed).run(600);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, BufferRingRandomTest,
                         ::testing::Values(Mode::kPlain, Mode::kIncremental, Mode::kMinLeft, Mode::kBundles),
                         [](const auto& mode) { return kModeNames[static_cast<size_t>(mode.param)]; });

}  // namespace
}  // namespace sluice
