// An L4 session whose submissions fail, one by one and at random: each stage must end with the right reason, and with
// nothing left over, which the rig checks at its end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "test/alts_like/hello_captures.h"
#include "test/proxy/l4/session_rig.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using test::is_stream;
using test::Origin;
using test::Peer;
using test::SessionRig;
using test::stream_bytes;

constexpr int kErrors[] = {ECONNRESET, EPIPE,     ETIMEDOUT, ENOBUFS, ENOMEM,       EAGAIN,
                           EINTR,      ECANCELED, EMFILE,    ENFILE,  ECONNABORTED, EINVAL};

bool receiving_continues(int error) {
  return error == ENOBUFS || error == EAGAIN || error == EINTR || error == ECANCELED;
}
bool sending_continues(int error) { return error == EAGAIN || error == EINTR; }

class SessionFaultTest : public ::testing::TestWithParam<int> {
 protected:
  int error() const { return GetParam(); }
  void expect_forwards(Peer& client, Peer& upstream) {
    client.send("ping");
    rig.until([&] {
      upstream.read();
      return upstream.received.ends_with("ping");
    });
    upstream.send("pong");
    rig.until([&] {
      client.read();
      return client.received.ends_with("pong");
    });
  }
  SessionRig rig;
};

INSTANTIATE_TEST_SUITE_P(Errors, SessionFaultTest, ::testing::ValuesIn(kErrors),
                         [](const auto& error) { return std::string(strerrorname_np(error.param)); });

/// Ends the armed accept, like an overflow of the completion queue, so that it is armed again.
void end_armed_accept(Ring& ring) {
  io_uring_sqe* sqe = io_uring_get_sqe(ring.raw());
  ASSERT_NE(sqe, nullptr);
  io_uring_prep_cancel(sqe, nullptr, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  io_uring_sqe_set_data64(sqe, static_cast<uint64_t>(Op::kIgnored));
}

TEST_P(SessionFaultTest, Accept) {
  Origin& origin = rig.add_origin();
  rig.start();
  for (int i = 0; i < 3; ++i) rig.loop().ring().inject(Op::kAccept, -error());
  end_armed_accept(rig.loop().ring());
  Peer client = rig.connect();
  client.send("served");
  rig.expect_received(rig.peer_of(origin), "served");
  const bool pauses = error() == EMFILE || error() == ENFILE || error() == ENOMEM || error() == ENOBUFS;
  EXPECT_EQ(rig.counters().accept_pauses.value(), pauses ? 3u : 0u);
}

TEST_P(SessionFaultTest, Connect) {
  rig.add_origin();
  rig.start();
  rig.loop().ring().inject(Op::kConnect, -error());
  Peer client = rig.connect();
  rig.expect_reset(client);
  rig.expect_only(SessionEnd::kNoEndpoint);
  EXPECT_EQ(rig.connect_errors(0, connect_error_of(error())), 1u);
  EXPECT_EQ(rig.endpoint(0).connected.value(), 0u);
  // Errors of the proxy do not count against the endpoint.
  const bool down = rig.upstream_state().endpoint(0).down(rig.loop()->now_ms());
  EXPECT_EQ(down, connect_error_of(error()) != ConnectError::kLocal);
}

TEST_P(SessionFaultTest, ConnectThenTheNextEndpoint) {
  Origin& one = rig.add_origin();
  Origin& two = rig.add_origin();
  rig.start();
  rig.loop().ring().inject(Op::kConnect, -error());
  Peer client = rig.connect();
  client.send("hello");
  rig.until([&] { return !one.peers.empty() || !two.peers.empty(); });
  Peer& upstream = one.peers.empty() ? two.peers[0] : one.peers[0];
  rig.expect_received(upstream, "hello");
  EXPECT_EQ(rig.connect_errors(0, connect_error_of(error())) + rig.connect_errors(1, connect_error_of(error())), 1u);
  client.close();
  upstream.close();
  rig.expect_only(SessionEnd::kFinished);
}

TEST_P(SessionFaultTest, ReceiveDuringTheHello) {
  rig.listener.tcp->forward.clear();
  rig.listener.tcp->routes = {
      {config::TcpMatch{.sni = {config::HostPattern::parse("a.example.com").value()}, .alpn = {}}, "origin"}};
  Origin& origin = rig.add_origin();
  rig.start();
  rig.loop().ring().inject(Op::kRecv, -error());
  Peer client = rig.connect();
  const std::string hello = test::from_hex(test::hello_captures().at(0).hex);
  client.send(hello);
  if (receiving_continues(error())) {
    rig.expect_received(rig.peer_of(origin), hello);
  } else {
    rig.expect_only(SessionEnd::kClientError);
    rig.expect_reset(client);
  }
}

// The client's receive is armed first, then the upstream's.
TEST_P(SessionFaultTest, ReceiveWhileForwarding) {
  for (const bool of_client : {true, false}) {
    SessionRig both;
    Origin& origin = both.add_origin();
    both.start();
    both.loop().ring().inject(Op::kRecv, -error(), 0, of_client ? 0 : 1);
    Peer client = both.connect();
    Peer& upstream = both.peer_of(origin);
    if (receiving_continues(error())) {
      client.send("up");
      both.expect_received(upstream, "up");
      upstream.send("down");
      both.expect_received(client, "down");
    } else {
      both.expect_only(of_client ? SessionEnd::kClientError : SessionEnd::kUpstreamError);
      both.expect_reset(client);
      both.expect_reset(upstream);
    }
  }
}

TEST_P(SessionFaultTest, Send) {
  for (const bool to_client : {true, false}) {
    SessionRig both;
    Origin& origin = both.add_origin();
    both.start();
    Peer client = both.connect();
    Peer& upstream = both.peer_of(origin);
    both.until([&] { return both.endpoint(0).connected.value() == 1; });
    both.loop().ring().inject(Op::kSend, -error());
    Peer& from = to_client ? upstream : client;
    Peer& to = to_client ? client : upstream;
    from.send("data");
    if (sending_continues(error())) {
      both.expect_received(to, "data");
    } else {
      both.expect_only(to_client ? SessionEnd::kClientError : SessionEnd::kUpstreamError);
      both.expect_reset(to);
    }
  }
}

// The held bytes and the PROXY header before them are the first send.
TEST_P(SessionFaultTest, FirstSend) {
  rig.upstreams[0].send_proxy_protocol = config::ProxyHeaderOut::kV1;
  Origin& origin = rig.add_origin();
  rig.start();
  rig.loop().ring().inject(Op::kSend, -error());
  Peer client = rig.connect();
  client.send("data");
  Peer& upstream = rig.peer_of(origin);
  if (sending_continues(error())) {
    rig.until([&] {
      upstream.read();
      return upstream.received.ends_with("\r\ndata");
    });
    EXPECT_TRUE(upstream.received.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "));
  } else {
    rig.expect_only(SessionEnd::kUpstreamError);
    EXPECT_EQ(upstream.received, "");
  }
}

// The cancellation of a connect that timed out misses it, as often as it is tried.
TEST_P(SessionFaultTest, CancelOfAConnect) {
  const int hole = test::tcp_listen(0);
  std::vector<Peer> fillers;
  for (int i = 0; i < 4; ++i) {
    fillers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in address = test::loopback(test::port_of(hole));
    connect(fillers.back().fd(), test::generic(address), sizeof address);
  }
  rig.add_endpoint(test::port_of(hole));
  Origin& origin = rig.add_origin();
  rig.upstreams[0].connect_timeout = milliseconds(20);
  rig.upstreams[0].max_fails = 0;
  rig.start();
  for (int misses = 0; misses < 3; ++misses) rig.loop().ring().inject(Op::kCancel, -error());
  Peer client = rig.connect();
  client.send("anybody");
  rig.expect_received(rig.peer_of(origin), "anybody");
  EXPECT_EQ(rig.connect_errors(0, ConnectError::kTimeout), 1u);
  ::close(hole);
}

TEST_P(SessionFaultTest, CancelAtTheEnd) {
  Origin& origin = rig.add_origin();
  rig.start();
  for (int round = 0; round < 3 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    Peer client = rig.connect();
    Peer& upstream = rig.peer_of(origin, static_cast<size_t>(round));
    expect_forwards(client, upstream);
    for (int misses = 0; misses <= round; ++misses) rig.loop().ring().inject(Op::kCancel, -error());
    client.reset();
    rig.until([&] {
      upstream.read();
      return upstream.ended || upstream.error != 0;
    });
  }
  rig.expect_only(SessionEnd::kClientError, 3);
}

// Paused accepting resumes as soon as a session ends, without waiting for its timer.
TEST(SessionAcceptTest, ResumesWhenASessionEnds) {
  SessionRig rig;
  Origin& origin = rig.add_origin();
  rig.start();
  Peer first = rig.connect();
  rig.peer_of(origin);
  for (int i = 0; i < 2; ++i) rig.loop().ring().inject(Op::kAccept, -EMFILE);
  end_armed_accept(rig.loop().ring());
  rig.until([&] { return rig.counters().accept_pauses.value() >= 1; });
  first.reset();
  Peer second = rig.connect();
  second.send("served");
  rig.expect_received(rig.peer_of(origin, 1), "served");
}

// The connection is refused because the proxy cannot open a socket.
TEST(SessionAcceptTest, NoDescriptorForTheUpstream) {
  SessionRig rig;
  Origin& origin = rig.add_origin();
  rig.upstreams[0].max_fails = 1;
  rig.start();
  Peer client(test::tcp_socket());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const int next = ::dup(0);
  ::close(next);
  // One for the accepted connection, which the kernel opens whatever the limit was when the accept was armed.
  const rlimit now{static_cast<rlim_t>(next), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &now);
  const sockaddr_in address = test::loopback(rig.port());
  EXPECT_EQ(connect(client.fd(), test::generic(address), sizeof address), 0);
  rig.loop().until([&] { return rig.sum_of_ends() == 1; });
  setrlimit(RLIMIT_NOFILE, &before);
  rig.expect_only(SessionEnd::kNoEndpoint);
  EXPECT_EQ(rig.connect_errors(0, ConnectError::kLocal), 1u);
  // It was not the endpoint's fault.
  Peer again = rig.connect();
  rig.peer_of(origin);
}

// ---- At random ----

/// Clients and origins that send, end, reset and stall at random, with few chunks, while submissions fail at random.
class Chaos {
 public:
  Chaos(uint64_t seed, bool faults) : random_(seed), faults_(faults) {
    rig_.options.budget_bytes = size_t{1} << (18 + random_() % 6);
    rig_.options.ring_entries = static_cast<uint16_t>(1u << (random_() % 5));
    if (random_() % 2) rig_.options.features = test::plain_features();
    if (random_() % 2) rig_.options.features.bundles = false;
    rig_.listener.max_connections_per_source = 0;
    rig_.listener.tcp->buffer_high = {64 * config::kKiB};
    rig_.listener.tcp->buffer_low = {32 * config::kKiB};
    if (random_() % 3 == 0) rig_.listener.tcp->idle_timeout = milliseconds(200);
    rig_.upstreams[0].max_fails = static_cast<uint32_t>(random_() % 3);
    rig_.upstreams[0].fail_timeout = milliseconds(20);
    if (random_() % 2) rig_.upstreams[0].send_proxy_protocol = config::ProxyHeaderOut::kV2;
    for (int i = 0; i < 2; ++i) origins_.push_back(&rig_.add_origin());
    if (random_() % 2) rig_.add_endpoint(closed_port_.port());
  }

  void run(int turns) {
    rig_.start();
    for (int turn = 0; turn < turns; ++turn) {
      if (clients_.size() < 12 && random_() % 4 == 0) clients_.push_back(rig_.connect());
      if (faults_ && random_() % 3 == 0) inject();
      for (Peer& client : clients_) act(client);
      std::erase_if(clients_, [](const Peer& client) { return !client.open(); });
      for (Origin* origin : origins_) {
        origin->accept();
        for (Peer& peer : origin->peers) act(peer);
        std::erase_if(origin->peers, [](const Peer& peer) { return !peer.open(); });
      }
      rig_.loop()->turn(0);
    }
    for (Peer& client : clients_) client.close();
  }

 private:
  void inject() {
    constexpr Op kOps[] = {Op::kAccept, Op::kRecv, Op::kSend, Op::kConnect, Op::kCancel};
    rig_.loop().ring().inject(kOps[random_() % std::size(kOps)], -kErrors[random_() % std::size(kErrors)]);
  }
  void act(Peer& peer) {
    if (!peer.open()) return;
    if (random_() % 2) peer.send_some(std::string(random_() % (random_() % 8 ? 3000 : 200'000), 'x'));
    if (random_() % 2) peer.read(random_() % 50'000);
    peer.received.clear();
    if (random_() % 60 == 0) peer.shutdown_write();
    if (random_() % 150 == 0) peer.reset();
    if (random_() % 150 == 0) peer.close();
    if ((peer.ended || peer.error != 0) && random_() % 10 == 0) peer.close();
  }

  std::mt19937_64 random_;
  const bool faults_;
  const test::ClosedPort closed_port_;
  SessionRig rig_;
  std::vector<Origin*> origins_;
  std::vector<Peer> clients_;
};

TEST(SessionChaosTest, NothingIsLeftOver) {
  for (uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos(seed, false).run(400);
  }
}

TEST(SessionChaosTest, NothingIsLeftOverAfterFaults) {
  for (uint64_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos(seed, true).run(400);
  }
}

}  // namespace
}  // namespace sluice
