// More completions at once than the completion queue holds. The kernel keeps them aside and ends multishots; nothing
// may be lost.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "test/net/loop.h"

namespace sluice {
namespace {

using test::Client;
using test::Loop;
using test::Pair;
using test::Peer;

// The smallest completion queue of a worker has 1,024 entries.
constexpr size_t kLinks = 1700;

TEST(OverflowTest, RingKeepsOverflowedCompletions) {
  auto ring = Ring::open({.submission_entries = 64, .completion_entries = 64});
  ASSERT_TRUE(ring.ok());
  struct alignas(kTargetAlignment) Target {
    int recorder = 0;
  };
  std::vector<Target> targets(1000);
  const Pair p = test::unix_pair();
  Peer peer(p.theirs), ours(p.ours);
  char byte = 'x';
  const iovec window{&byte, 1};
  for (Target& target : targets) (*ring)->send(&target, ours.fd(), {&window, 1});
  size_t reaped = 0;
  for (int i = 0; i < 1000 && reaped < targets.size(); ++i) {
    peer.read();
    (*ring)->wait(1'000'000);
    reaped += (*ring)->reap([](Op op, void* target, Completion completion) {
      EXPECT_EQ(op, Op::kSend);
      EXPECT_EQ(completion.res, 1);
      ++static_cast<Target*>(target)->recorder;
    });
  }
  EXPECT_EQ(reaped, targets.size());
  for (const Target& target : targets) ASSERT_EQ(target.recorder, 1);
  EXPECT_GE((*ring)->overflows(), 1u);
}

// Defect: the list of a send's windows was written before its entry was taken. If the submission queue was full just
// then, it was submitted, the memory of all lists became free, and the next send wrote its list over that of this one:
// the peer got the bytes of another connection.
TEST(OverflowTest, SendsKeepTheirWindowsWhenTheSubmissionQueueIsFull) {
  constexpr unsigned kEntries = 8;
  for (unsigned before = 0; before <= kEntries; ++before) {
    auto ring = Ring::open({.submission_entries = kEntries, .completion_entries = 64});
    ASSERT_TRUE(ring.ok());
    const Pair one = test::unix_pair(), two = test::unix_pair();
    Peer peer_one(one.theirs), ours_one(one.ours), peer_two(two.theirs), ours_two(two.ours);
    std::string a = "aa", b = "bb", c = "cc", d = "dd";
    const iovec first[] = {{a.data(), a.size()}, {b.data(), b.size()}};
    const iovec second[] = {{c.data(), c.size()}, {d.data(), d.size()}};
    for (unsigned i = 0; i < before; ++i) (*ring)->cancel_op(nullptr, Op::kRecv);
    (*ring)->send(nullptr, ours_one.fd(), first);
    (*ring)->send(nullptr, ours_two.fd(), second);
    (*ring)->submit();
    peer_one.read();
    peer_two.read();
    EXPECT_EQ(peer_one.received, "aabb") << before;
    EXPECT_EQ(peer_two.received, "ccdd") << before;
  }
}

TEST(OverflowTest, SocketsLoseNothing) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2 * kLinks + 100) GTEST_SKIP() << "needs more file descriptors";
  for (const bool incremental : {true, false}) {
    Worker::Options options = Loop::with_features();
    if (!incremental) options.features = test::plain_features();
    Loop loop(options);
    struct Link {
      Link(Loop& l, Pair p) : peer(p.theirs), client(l, p.ours) {}
      Peer peer;
      Client client;
    };
    std::vector<std::unique_ptr<Link>> links;
    for (size_t i = 0; i < kLinks; ++i) {
      links.push_back(std::make_unique<Link>(loop, i % 2 ? test::unix_pair() : test::tcp_pair()));
      links.back()->client.socket.start_reading();
    }
    loop.settle(3);
    for (int round = 0; round < 3; ++round) {
      // Data arrives on all of them, and is sent on all of them, in one batch.
      for (auto& link : links) link->peer.send("in" + std::to_string(round));
      for (auto& link : links) link->client.send("out" + std::to_string(round));
      const size_t in = 3 * static_cast<size_t>(round + 1), out = 4 * static_cast<size_t>(round + 1);
      loop.until([&] {
        bool all = true;
        for (auto& link : links) {
          link->peer.read();
          all &= link->client.recorder.received.size() == in && link->peer.received.size() == out;
        }
        return all;
      });
    }
    EXPECT_GE(loop.ring().overflows(), 1u) << "the test did not do what it is for";
    for (auto& link : links) {
      EXPECT_EQ(link->client.recorder.received, "in0in1in2");
      EXPECT_EQ(link->peer.received, "out0out1out2");
      EXPECT_TRUE(link->client.recorder.errors.empty());
      EXPECT_EQ(link->client.recorder.ends, 0);
    }
    // All close in one batch: more cancellations and ends than fit.
    for (auto& link : links) link->client.close();
    loop.until([&] {
      bool all = true;
      for (auto& link : links) all &= !link->client.socket.busy();
      return all;
    });
    for (auto& link : links) EXPECT_EQ(link->client.recorder.closed, 1);
  }
}

}  // namespace
}  // namespace sluice
