#include "net/wait_coalescing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "net/ring.h"
#include "test/net/loop.h"

namespace sluice {
namespace {

class WaitCoalescingTest : public testing::Test {
 protected:
  // 64 turns, each with so many completions, the first of which is a receive.
  void turns(uint64_t turn_us, size_t completions, bool one_socket) {
    for (int i = 0; i < 64; ++i) {
      now_us_ += turn_us;
      coalescing_.note_receive(&sockets_[one_socket ? 0 : i % 2]);
      coalescing_.note_turn(now_us_, completions);
    }
  }

  WaitCoalescing coalescing_;
  uint64_t now_us_ = 1;
  int sockets_[2];
};

TEST_F(WaitCoalescingTest, OnWhileOneSocketGetsPieceAfterPiece) {
  turns(17, 2, true);
  EXPECT_TRUE(coalescing_.on());
  turns(30, 7, false);
  EXPECT_TRUE(coalescing_.on()) << "which sockets get something says nothing about coalesced waits";
}

TEST_F(WaitCoalescingTest, OffOtherwise) {
  turns(17, 2, false);
  EXPECT_FALSE(coalescing_.on()) << "different sockets";
  turns(17, 4, true);
  EXPECT_FALSE(coalescing_.on()) << "enough completions in each turn";
  turns(100, 2, true);
  EXPECT_FALSE(coalescing_.on()) << "little to do";
}

TEST_F(WaitCoalescingTest, WaitsThatBringNothingEndItForASecond) {
  turns(17, 2, true);
  turns(30, 3, true);
  EXPECT_FALSE(coalescing_.on());
  turns(17, 2, true);
  EXPECT_FALSE(coalescing_.on());
  now_us_ += 1'000'000;
  turns(17, 2, true);  // In which the second has passed.
  turns(17, 2, true);
  EXPECT_TRUE(coalescing_.on());
}

TEST_F(WaitCoalescingTest, TriesAgainWithoutIt) {
  turns(17, 2, true);
  for (int i = 0; i < 31; ++i) {
    turns(30, 7, false);
    EXPECT_TRUE(coalescing_.on());
  }
  turns(30, 7, false);
  EXPECT_FALSE(coalescing_.on());
  turns(10, 2, false);
  EXPECT_FALSE(coalescing_.on());
  turns(10, 2, true);
  EXPECT_TRUE(coalescing_.on());
}

TEST_F(WaitCoalescingTest, WorkerReportsReceivesAndTurns) {
  test::Loop loop;
  const test::Pair pair = test::tcp_pair();
  test::Client client(loop, pair.ours);
  test::Peer peer(pair.theirs);
  client.socket.start_reading();
  size_t sent = 0;
  const auto send = [&] {
    peer.send("x");
    ++sent;
  };
  EXPECT_TRUE(loop.until([&] {
    send();
    return loop->counters().coalesced_batches > 0;
  }));
  // One piece is enough, though the wait is for several.
  send();
  EXPECT_TRUE(loop.until([&] { return client.recorder.received.size() == sent; }));
}

// ---- By the kernel ----

class CoalescedWaitTest : public testing::Test {
 protected:
  void SetUp() override { ring_ = Ring::open({}).value(); }
  unsigned reap() {
    return ring_->reap([](Op, void*, Completion) {});
  }

  std::unique_ptr<Ring> ring_;
};

// Defect: without a timeout, Linux 6.18 waits for all completions, however long after the shorter time.
TEST_F(CoalescedWaitTest, OneCompletionIsEnoughWithoutTimeout) {
  const test::Pair pair = test::unix_pair();
  test::Peer ours(pair.ours), theirs(pair.theirs);
  ring_->wait_readable(nullptr, ours.fd());
  std::thread sender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    theirs.send("x");
  });
  ring_->wait(-1, /*coalesced=*/true);
  EXPECT_EQ(reap(), 1u);
  sender.join();
}

TEST_F(CoalescedWaitTest, TimeoutHolds) {
  const auto begin = std::chrono::steady_clock::now();
  ring_->wait(20'000'000, /*coalesced=*/true);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(19));
  EXPECT_EQ(reap(), 0u);
}

}  // namespace
}  // namespace sluice
