// Each error with which a submission may complete, injected by Ring::inject: what the owner is notified of, that
// nothing is lost or left over, and that data continues where possible.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "test/net/loop.h"

namespace sluice {
namespace {

using test::Client;
using test::is_stream;
using test::Loop;
using test::Pair;
using test::Peer;
using test::stream_bytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kErrors[] = {ECONNRESET, EPIPE,     ETIMEDOUT, ENOBUFS, ENOMEM,       EAGAIN,
                           EINTR,      ECANCELED, EMFILE,    ENFILE,  ECONNABORTED, EINVAL};

bool is_one_of(int error, std::initializer_list<int> errors) {
  return std::find(errors.begin(), errors.end(), error) != errors.end();
}

class FaultTest : public ::testing::TestWithParam<int> {
 protected:
  int error() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Errors, FaultTest, ::testing::ValuesIn(kErrors),
                         [](const auto& error) { return std::string(strerrorname_np(error.param)); });

/// After an error no more calls are made, and the socket closes as usual.
void expect_closes(Client& client) {
  client.close();
  client.wait_closed();
  EXPECT_EQ(client.recorder.closed, 1);
}

// ---- Receiving ----

void expect_received_after(int error, Client& client, Loop& loop, size_t bytes) {
  if (is_one_of(error, {ENOBUFS, EAGAIN, EINTR, ECANCELED})) {
    loop.until([&] { return client.recorder.received.size() == bytes || !client.recorder.errors.empty(); });
    EXPECT_EQ(client.recorder.received.size(), bytes);
    EXPECT_THAT(client.recorder.errors, IsEmpty());
  } else {
    loop.until([&] { return !client.recorder.errors.empty(); });
    EXPECT_THAT(client.recorder.errors, ElementsAre(error));
    loop.settle();
    EXPECT_THAT(client.recorder.errors, ElementsAre(error));
  }
  EXPECT_EQ(client.recorder.ends, 0);
}

TEST_P(FaultTest, MultishotReceiveWhenItIsArmed) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  loop.ring().inject(Op::kRecv, -error());
  client.socket.start_reading();
  peer.send("data");
  expect_received_after(error(), client, loop, 4);
  EXPECT_EQ(loop->counters().no_buffers, error() == ENOBUFS ? 1u : 0u);
  expect_closes(client);
}

// Armed again, after data.
TEST_P(FaultTest, MultishotReceiveLater) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  peer.send("one ");
  loop.until([&] { return client.recorder.received == "one "; });
  client.socket.stop_reading();
  loop.settle();
  loop.ring().inject(Op::kRecv, -error());
  client.socket.start_reading();
  peer.send("two");
  expect_received_after(error(), client, loop, 7);
  expect_closes(client);
}

TEST_P(FaultTest, SingleReceive) {
  Loop loop;
  const Pair p = test::unix_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  loop.ring().inject(Op::kRecv, -error(), 0, /*skip=*/1);
  client.socket.start_reading();
  peer.send("one ");
  loop.until([&] { return client.recorder.received == "one "; });
  peer.send("two");
  expect_received_after(error(), client, loop, 7);
  expect_closes(client);
}

TEST_P(FaultTest, BulkReceive) {
  for (const bool bundles : {true, false}) {
    Worker::Options options = Loop::with_features();
    options.features.bundles &= bundles;
    Loop loop(options);
    const Pair p = test::tcp_pair();
    Peer peer(p.theirs);
    Client client(loop, p.ours);
    client.socket.start_reading();
    uint64_t sent = 0;
    loop.until([&] {
      sent += peer.send_some(stream_bytes(0, sent, 200'000));
      return client.recorder.received.size() > (2 << 20);
    });
    loop.ring().inject(Op::kRecv, -error());
    // Enough to use up any credit, so that it is armed again.
    bool seen = false;
    loop.until([&] {
      if (sent < (8 << 20))
        sent += peer.send_some(stream_bytes(0, sent, std::min<uint64_t>((8 << 20) - sent, 200'000)));
      seen = client.recorder.received.size() == (8 << 20) || !client.recorder.errors.empty();
      return seen;
    });
    expect_received_after(error(), client, loop, 8 << 20);
    EXPECT_TRUE(is_stream(0, 0, client.recorder.received));
    expect_closes(client);
  }
}

// The owner wants no more data when the receive ends.
TEST_P(FaultTest, ReceiveWhileStopped) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  loop.ring().inject(Op::kRecv, -error());
  client.socket.start_reading();
  loop->turn(0);  // Prepared, not yet submitted.
  client.socket.stop_reading();
  loop.settle();
  EXPECT_EQ(client.recorder.received, "");
  client.socket.start_reading();
  peer.send("data");
  if (client.recorder.errors.empty()) {
    loop.until([&] { return client.recorder.received == "data"; });
  }
  EXPECT_EQ(client.recorder.errors.empty(), is_one_of(error(), {ENOBUFS, EAGAIN, EINTR, ECANCELED}));
  expect_closes(client);
}

TEST(SocketFaultTest, ReceiveEndsDuringData) {
  // As when the completion queue overflows: a result, without F_MORE and without a buffer.
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  for (int i = 0; i < 5; ++i) loop.ring().inject(Op::kRecv, 100);
  peer.send("still there");
  loop.until([&] { return client.recorder.received == "still there"; });
  EXPECT_THAT(client.recorder.errors, IsEmpty());
  EXPECT_EQ(client.recorder.ends, 0);
}

TEST(SocketFaultTest, ReceiveOfNothingIsTheEnd) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  loop.ring().inject(Op::kRecv, 0);
  client.socket.start_reading();
  loop.until([&] { return client.recorder.ends == 1; });
  peer.send("after the end");
  client.socket.stop_reading();
  client.socket.start_reading();
  loop.settle();
  EXPECT_EQ(client.recorder.ends, 1);
  EXPECT_EQ(client.recorder.received, "");
  expect_closes(client);
}

TEST(SocketFaultTest, StormOfReceiveFaults) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  for (int i = 0; i < 50; ++i) {
    for (const int e : {ENOBUFS, EAGAIN, EINTR, ECANCELED}) loop.ring().inject(Op::kRecv, -e);
  }
  peer.send("through the storm");
  loop.until([&] { return client.recorder.received == "through the storm"; });
  EXPECT_EQ(loop->counters().parked, 0u);
}

// ---- Sending ----

TEST_P(FaultTest, Send) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  loop.ring().inject(Op::kSend, -error());
  client.send("data");
  if (is_one_of(error(), {EAGAIN, EINTR})) {
    loop.until([&] { return peer.read() > 0; });
    EXPECT_EQ(peer.received, "data");
    loop.until([&] { return client.socket.queued() == 0; });
  } else {
    loop.until([&] { return !client.recorder.errors.empty(); });
    EXPECT_THAT(client.recorder.errors, ElementsAre(error()));
    EXPECT_EQ(client.socket.queued(), 4u);
  }
  expect_closes(client);
}

// The second of two, with a shutdown after it.
TEST_P(FaultTest, SendBeforeShutdown) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  loop.ring().inject(Op::kSend, -error(), 0, /*skip=*/1);
  client.send("one ");
  loop.until([&] { return client.socket.queued() == 0; });
  client.send("two");
  client.socket.shutdown_write();
  if (is_one_of(error(), {EAGAIN, EINTR})) {
    loop.until([&] {
      peer.read();
      return peer.ended;
    });
    EXPECT_EQ(peer.received, "one two");
  } else {
    loop.until([&] { return !client.recorder.errors.empty(); });
    // Not shut down: the queued data was not sent.
    EXPECT_FALSE(client.socket.write_shut());
    peer.read();
    EXPECT_FALSE(peer.ended);
  }
  expect_closes(client);
}

TEST_P(FaultTest, ZeroCopySend) {
  if (!test::kernel_features().zero_copy) GTEST_SKIP();
  Worker::Options options = Loop::with_features();
  options.zero_copy_bytes = 1;
  Loop loop(options);
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  loop.ring().inject(Op::kSendZeroCopy, -error());
  client.send("data");
  // Without memory to pin, the data is sent by copying instead.
  if (is_one_of(error(), {EAGAIN, EINTR, ENOMEM, ENOBUFS})) {
    loop.until([&] { return peer.read() > 0; });
    EXPECT_EQ(peer.received, "data");
    EXPECT_THAT(client.recorder.errors, IsEmpty());
  } else {
    loop.until([&] { return !client.recorder.errors.empty(); });
    EXPECT_THAT(client.recorder.errors, ElementsAre(error()));
  }
  loop.settle();
  expect_closes(client);
}

TEST(SocketFaultTest, ShortSendContinuesWithTheRest) {
  // The first bytes count as sent, though the no-op has sent nothing: the peer gets the others.
  for (const Op op : {Op::kSend, Op::kSendZeroCopy}) {
    Worker::Options options = Loop::with_features();
    options.zero_copy_bytes = op == Op::kSend ? 0 : 1;
    if (op == Op::kSendZeroCopy && !options.features.zero_copy) continue;
    Loop loop(options);
    const Pair p = test::tcp_pair();
    Peer peer(p.theirs);
    Client client(loop, p.ours);
    client.recorder.after_sent = [](Socket& socket) { EXPECT_LT(socket.queued(), 10u); };
    loop.ring().inject(op, 3);
    loop.ring().inject(op, 1);
    client.send("0123456789");
    loop.until([&] { return client.socket.queued() == 0; });
    loop.until([&] {
      peer.read();
      return peer.received.size() >= 6;
    });
    EXPECT_EQ(peer.received, "456789");
    EXPECT_GE(client.recorder.sent, 3);
  }
}

TEST(SocketFaultTest, EmptySendIsRetried) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  for (int i = 0; i < 3; ++i) loop.ring().inject(Op::kSend, 0);
  client.send("data");
  loop.until([&] { return peer.read() > 0; });
  EXPECT_EQ(peer.received, "data");
}

// ---- Connecting ----

TEST_P(FaultTest, Connect) {
  Loop loop;
  const int listener = test::tcp_listen();
  const sockaddr_in address = test::loopback(test::port_of(listener));
  Client client(loop);
  loop.ring().inject(Op::kConnect, -error());
  client.socket.connect(test::tcp_socket(), test::generic(address), sizeof address);
  loop.until([&] { return !client.recorder.connects.empty(); });
  EXPECT_THAT(client.recorder.connects, ElementsAre(error()));
  expect_closes(client);
  // The same object, the next time.
  client.recorder.closed = 0;
  client.socket.connect(test::tcp_socket(), test::generic(address), sizeof address);
  loop.until([&] { return client.recorder.connects.size() == 2; });
  EXPECT_THAT(client.recorder.connects, ElementsAre(error(), 0));
  ::close(listener);
}

TEST(SocketFaultTest, ConnectWithFalseSuccess) {
  Loop loop;
  const sockaddr_in address = test::loopback(1);
  Client client(loop);
  loop.ring().inject(Op::kConnect, 0);
  client.socket.connect(test::tcp_socket(), test::generic(address), sizeof address);
  loop.until([&] { return !client.recorder.connects.empty(); });
  EXPECT_THAT(client.recorder.connects, ElementsAre(0));
  client.socket.start_reading();
  loop.until([&] { return !client.recorder.errors.empty(); });
  EXPECT_THAT(client.recorder.errors, ElementsAre(ENOTCONN));
  expect_closes(client);
}

// ---- Canceling ----

// Results of a cancellation that did not cancel. 0 is the kernel's result when it found nothing.
class CancelFaultTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Results, CancelFaultTest,
                         ::testing::Values(0, ENOENT, EALREADY, ENOMEM, EINVAL, EINTR, EAGAIN, ECANCELED));

// Defect: one cancellation that missed its receive left the socket half-closed forever, when the peer sent nothing
// more.
TEST_P(CancelFaultTest, CloseEndsNevertheless) {
  for (const int misses : {1, 2, 5}) {
    for (const bool sending : {false, true}) {
      for (const bool abort : {false, true}) {
        Loop loop;
        const Pair p = test::tcp_pair();
        Peer peer(p.theirs);
        Client client(loop, p.ours);
        client.socket.start_reading();
        if (sending) client.send(stream_bytes(0, 0, 12 << 20));
        loop.settle();
        for (int i = 0; i < misses; ++i) loop.ring().inject(Op::kCancel, -GetParam());
        abort ? client.abort() : client.close();
        client.wait_closed();
        EXPECT_EQ(client.recorder.closed, 1);
        EXPECT_EQ(loop.chunks_out(), 0u);
      }
    }
  }
}

// Defect: a receive whose cancellation missed it continued to deliver, whatever its owner did.
TEST_P(CancelFaultTest, StopEndsNevertheless) {
  if (GetParam() == EINVAL) GTEST_SKIP() << "a kernel that cannot cancel so will not learn it";
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  loop.settle();
  loop.ring().inject(Op::kCancel, -GetParam());
  client.socket.stop_reading();
  loop.settle();
  peer.send("while stopped");
  loop.settle();
  EXPECT_EQ(client.recorder.received, "");
  client.socket.start_reading();
  loop.until([&] { return client.recorder.received == "while stopped"; });
}

// Stopped and restarted before it is known that the cancellation missed.
TEST_P(CancelFaultTest, StartAfterAMissedStop) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  loop.settle();
  loop.ring().inject(Op::kCancel, -GetParam());
  client.socket.stop_reading();
  client.socket.start_reading();
  std::string sent;  // Different pieces: repeated or reordered bytes would have the right count.
  for (int i = 0; i < 10; ++i) {
    const std::string piece = "piece " + std::to_string(i) + ";";
    peer.send(piece);
    sent += piece;
    loop.settle(2);
  }
  loop.until([&] { return client.recorder.received.size() >= sent.size(); });
  EXPECT_EQ(client.recorder.received, sent);
  peer.shutdown_write();
  loop.until([&] { return client.recorder.ends == 1; });
}

TEST_P(CancelFaultTest, BulkStreamContinues) {
  Loop loop;
  const Pair p = test::tcp_pair();
  Peer peer(p.theirs);
  Client client(loop, p.ours);
  client.socket.start_reading();
  for (int i = 0; i < 4; ++i) loop.ring().inject(Op::kCancel, -GetParam(), 0);
  uint64_t sent = 0;
  loop.until([&] {
    sent += peer.send_some(stream_bytes(2, sent, std::min<uint64_t>((4 << 20) - sent, 200'000)));
    return client.recorder.received.size() == (4 << 20);
  });
  EXPECT_TRUE(is_stream(2, 0, client.recorder.received));
}

// ---- Many at once ----

// Faults of all kinds over several sockets that echo: a socket with an error closes; the others lose nothing.
TEST(SocketFaultTest, RecoverableFaultsUnderLoad) {
  Loop loop;
  struct Echo {
    explicit Echo(Loop& l) : Echo(l, test::tcp_pair()) {}
    Echo(Loop& l, Pair p) : peer(p.theirs), client(l, p.ours) {
      client.recorder.data = [](Socket& socket, Buffer& data) { socket.send(std::move(data)); };
      client.socket.start_reading();
    }
    Peer peer;
    Client client;
    uint64_t sent = 0, back = 0;
  };
  std::vector<std::unique_ptr<Echo>> all;
  for (int i = 0; i < 8; ++i) all.push_back(std::make_unique<Echo>(loop));
  unsigned turn = 0;
  constexpr uint64_t kBytes = 400'000;
  loop.until([&] {
    if (++turn < 400) {
      if (turn % 3 == 0) loop.ring().inject(Op::kSend, turn % 2 ? -EAGAIN : -EINTR);
      if (turn % 7 == 0) loop.ring().inject(Op::kRecv, turn % 2 ? -ENOBUFS : -ECANCELED);
      if (turn % 11 == 0) loop.ring().inject(Op::kCancel, -ENOENT);
    }
    bool done = true;
    for (size_t i = 0; i < all.size(); ++i) {
      Echo& echo = *all[i];
      if (turn % 5 == 0) echo.client.socket.stop_reading();
      echo.client.socket.start_reading();
      echo.sent += echo.peer.send_some(stream_bytes(i, echo.sent, std::min<uint64_t>(kBytes - echo.sent, 5000)));
      echo.peer.read();
      EXPECT_TRUE(is_stream(i, echo.back, echo.peer.received));
      echo.back += echo.peer.received.size();
      echo.peer.received.clear();
      done &= echo.back == kBytes;
    }
    return done || HasFailure();
  });
}

}  // namespace
}  // namespace sluice
