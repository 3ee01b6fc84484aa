// Defect: a cancel that found nothing was repeated as long as anything of the socket was in flight. Two cancels of one
// socket each saw the other, and repeated each other forever: a worker at 100 % CPU (found by the soak, with
// stop_reading and close in one batch).

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "test/net/loop.h"

namespace sluice {
namespace {

TEST(Cancel, TwoThatFindNothingDoNotRepeatEachOther) {
  test::Loop loop;
  test::Recorder recorder;
  const test::Pair pair = test::tcp_pair();
  test::Peer peer(pair.theirs);
  Socket socket(loop, recorder);
  socket.adopt(pair.ours);
  socket.start_reading();
  loop.settle(2);

  // No cancel finds anything, as if the kernel always looked at the wrong moment.
  constexpr int kMisses = 200;
  for (int i = 0; i < kMisses; ++i) loop.ring().inject(Op::kCancel, 0);
  socket.stop_reading();
  socket.close();
  const uint64_t before = loop->counters().completions;
  loop.until([&] { return recorder.closed == 1; });
  EXPECT_LT(loop->counters().completions - before, 20u);
  loop.settle();
  EXPECT_EQ(recorder.closed, 1);
}

// Defect: a cancel that found something was assumed to have found everything. What it had missed (an armed multishot,
// for example, while it found a send) stayed armed as long as the peer was silent, and the socket never closed.
TEST(Cancel, OneThatMissedSomethingIsRepeated) {
  test::Loop loop;
  test::Recorder recorder;
  const test::Pair pair = test::tcp_pair();
  test::Peer peer(pair.theirs);
  Socket socket(loop, recorder);
  socket.adopt(pair.ours);
  socket.start_reading();
  loop.settle(2);

  loop.ring().inject(Op::kCancel, 1);
  socket.close();
  loop.until([&] { return recorder.closed == 1; });
  EXPECT_EQ(recorder.closed, 1);
  EXPECT_FALSE(socket.busy());
}

// One cancel is enough if it found everything.
TEST(Cancel, OneThatFoundEverythingIsNotRepeated) {
  test::Loop loop;
  test::Recorder recorder;
  const test::Pair pair = test::tcp_pair();
  test::Peer peer(pair.theirs);
  Socket socket(loop, recorder);
  socket.adopt(pair.ours);
  socket.start_reading();
  loop.settle(2);

  // For the second cancel. (A count of completions would include the timer of the loop.)
  loop.ring().inject(Op::kCancel, 0, 0, /*skip=*/1);
  socket.close();
  loop.until([&] { return recorder.closed == 1; });
  EXPECT_TRUE(loop.ring().injecting());
}

// Both kinds of cancel end a receive and a send: by key, and by descriptor where the kernel has no such key. (The time
// that a search by descriptor takes is in docs/internals/decisions/fair-turns.md.)
TEST(Cancel, WithAndWithoutKeys) {
  for (const bool keyed : {true, false}) {
    SCOPED_TRACE(keyed);
    Worker::Options options;
    options.features = test::kernel_features();
    options.features.keyed_cancel = keyed;
    test::Loop loop(options);
    test::Recorder recorder;
    const test::Pair pair = test::tcp_pair();
    test::Peer peer(pair.theirs);
    Socket socket(loop, recorder);
    socket.adopt(pair.ours);
    socket.start_reading();
    loop.settle(2);
    socket.stop_reading();
    loop.settle(2);
    peer.send("while stopped");
    loop.settle(2);
    EXPECT_EQ(recorder.received, "");
    // A send that cannot complete is canceled, too.
    socket.start_reading();
    socket.send(test::buffer_of(loop->pool(), test::stream_bytes(0, 0, 12 << 20)));
    loop.settle(2);
    socket.close();
    loop.until([&] { return recorder.closed == 1; });
    EXPECT_FALSE(socket.busy());
  }
}

// Defect: one call to the kernel posts about 20 completions since Linux 6.14. Under load the others waited for many
// turns of the loop, behind everything that these turns submitted.
TEST(Completions, AllReadyOnesComeInOneTurn) {
  test::Loop loop;
  constexpr size_t kPairs = 100;
  std::vector<std::unique_ptr<test::Recorder>> recorders;
  std::vector<std::unique_ptr<Socket>> sockets;
  std::vector<std::unique_ptr<test::Peer>> peers;
  for (size_t i = 0; i < kPairs; ++i) {
    const test::Pair pair = test::tcp_pair();
    peers.push_back(std::make_unique<test::Peer>(pair.theirs));
    recorders.push_back(std::make_unique<test::Recorder>());
    sockets.push_back(std::make_unique<Socket>(loop, *recorders.back()));
    sockets.back()->adopt(pair.ours);
    sockets.back()->start_reading();
  }
  loop.settle(4);
  for (auto& peer : peers) peer->send("x");
  loop->turn(0);
  EXPECT_EQ(std::count_if(recorders.begin(), recorders.end(), [](const auto& each) { return each->received == "x"; }),
            static_cast<std::ptrdiff_t>(kPairs));
  for (auto& socket : sockets) socket->close();
  loop.until(
      [&] { return std::all_of(recorders.begin(), recorders.end(), [](const auto& e) { return e->closed == 1; }); });
}

}  // namespace
}  // namespace sluice
