// Defect: a cancel that found nothing was repeated as long as anything of the socket was in flight. Two cancels of one
// socket each saw the other, and chased each other for ever: a worker at 100 % CPU (found by the soak, with
// stop_reading and close in one batch).

#include <gtest/gtest.h>

#include "test/net/loop.h"

namespace sluice {
namespace {

TEST(Cancel, TwoThatFindNothingDoNotChaseEachOther) {
  test::Loop loop;
  test::Recorder recorder;
  const test::Pair pair = test::tcp_pair();
  test::Peer peer(pair.theirs);
  Socket socket(loop, recorder);
  socket.adopt(pair.ours);
  socket.start_reading();
  loop.settle(2);

  // None of the cancels finds anything, as if the kernel always looked at the wrong moment.
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

// Defect: a cancel that found something was taken to have found all. What it had missed (an armed multishot, say, while
// it found a send) stayed armed for as long as the peer kept still, and the socket never closed.
TEST(Cancel, OneThatFoundSomethingElseIsRepeated) {
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

// One cancel is enough where it found all that there was.
TEST(Cancel, OneThatFoundAllIsNotRepeated) {
  test::Loop loop;
  test::Recorder recorder;
  const test::Pair pair = test::tcp_pair();
  test::Peer peer(pair.theirs);
  Socket socket(loop, recorder);
  socket.adopt(pair.ours);
  socket.start_reading();
  loop.settle(2);

  const uint64_t before = loop->counters().completions;
  socket.close();
  loop.until([&] { return recorder.closed == 1; });
  EXPECT_EQ(loop->counters().completions - before, 2u);  // The cancel and what it ended.
}

}  // namespace
}  // namespace sluice
