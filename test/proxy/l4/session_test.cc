#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "proxy/l4/l4_session.h"
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

constexpr size_t kMiB = size_t{1} << 20;

/// The bytes of a captured hello for a.example.com that offers h2 and http/1.1.
std::string a_hello() { return test::from_hex(test::hello_captures().at(0).hex); }

config::TcpMatch sni(const std::string& name) {
  return {.sni = {config::HostPattern::parse(name).value()}, .alpn = {}};
}

class SessionTest : public ::testing::Test {
 protected:
  SessionRig rig;
};

// ---- Forwarding ----

TEST_F(SessionTest, ForwardsInBothDirectionsAndEnds) {
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  client.send("request");
  Peer& upstream = rig.peer_of(origin);
  rig.expect_received(upstream, "request");
  upstream.send("a longer response");
  rig.expect_received(client, "a longer response");
  client.shutdown_write();
  EXPECT_TRUE(rig.expect_end(upstream));
  upstream.send(", and more of it");
  rig.expect_received(client, "a longer response, and more of it");
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  upstream.close();
  EXPECT_TRUE(rig.expect_end(client));
  rig.expect_only(SessionEnd::kFinished);
  EXPECT_EQ(rig.counters().accepted.value(), 1u);
  EXPECT_EQ(rig.counters().bytes_in.value(), 7u);
  EXPECT_EQ(rig.counters().bytes_out.value(), 33u);
  EXPECT_EQ(rig.endpoint(0).connected.value(), 1u);
  EXPECT_EQ(rig.endpoint(0).bytes_out.value(), 7u);
  EXPECT_EQ(rig.endpoint(0).bytes_in.value(), 33u);
}

TEST_F(SessionTest, UpstreamEndsFirst) {
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  upstream.send("greeting");
  upstream.shutdown_write();
  EXPECT_TRUE(rig.expect_end(client));
  EXPECT_EQ(client.received, "greeting");
  client.send("an answer");
  rig.expect_received(upstream, "an answer");
  client.close();
  EXPECT_TRUE(rig.expect_end(upstream));
  rig.expect_only(SessionEnd::kFinished);
}

// All of it arrives, though both sides end as soon as they have sent.
TEST_F(SessionTest, LargeTransfersInBothDirections) {
  Origin& origin = rig.add_origin();
  rig.start();
  constexpr size_t kSessions = 6;
  const size_t bytes = 6 * kMiB + 17;
  std::vector<Peer> clients;
  struct Way {
    uint64_t sent = 0, got = 0;
    bool done = false;
  };
  std::vector<Way> up(kSessions), down(kSessions);
  for (size_t i = 0; i < kSessions; ++i) {
    clients.push_back(rig.connect());
    rig.peer_of(origin, i);
  }
  const auto go_on = [&](Peer& from, Peer& to, Way& way, uint64_t stream) {
    if (way.sent < bytes) {
      way.sent += from.send_some(stream_bytes(stream, way.sent, std::min<uint64_t>(bytes - way.sent, 100'000)));
      if (way.sent == bytes) from.shutdown_write();
    }
    to.read();
    EXPECT_TRUE(is_stream(stream, way.got, to.received));
    way.got += to.received.size();
    to.received.clear();
    way.done = to.ended && way.got == bytes;
  };
  rig.until([&] {
    bool all = true;
    for (size_t i = 0; i < kSessions; ++i) {
      go_on(clients[i], origin.peers[i], up[i], 2 * i);
      go_on(origin.peers[i], clients[i], down[i], 2 * i + 1);
      all &= up[i].done && down[i].done;
    }
    return all || HasFailure();
  });
  rig.expect_only(SessionEnd::kFinished, kSessions);
  EXPECT_EQ(rig.counters().bytes_in.value(), kSessions * bytes);
  EXPECT_EQ(rig.counters().bytes_out.value(), kSessions * bytes);
}

// The client has sent everything, and its end, before there is an upstream.
TEST_F(SessionTest, ClientIsDoneBeforeTheUpstreamConnects) {
  Origin& origin = rig.add_origin();
  rig.start();
  for (int round = 0; round < 5; ++round) {
    Peer client = rig.connect();
    client.send("all I have");
    client.shutdown_write();
    Peer& upstream = rig.peer_of(origin, static_cast<size_t>(round));
    EXPECT_TRUE(rig.expect_end(upstream));
    EXPECT_EQ(upstream.received, "all I have");
    upstream.send("ok");
    upstream.close();
    EXPECT_TRUE(rig.expect_end(client));
    EXPECT_EQ(client.received, "ok");
  }
  rig.expect_only(SessionEnd::kFinished, 5);
}

// A peer that does not read stops the other side near the mark; afterwards everything arrives.
TEST_F(SessionTest, SlowPeerStopsTheOther) {
  Origin& origin = rig.add_origin();
  rig.listener.tcp->buffer_high = {128 * config::kKiB};
  rig.listener.tcp->buffer_low = {64 * config::kKiB};
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  uint64_t sent = 0;
  for (int idle = 0; idle < 20; ++idle) {
    for (;;) {
      const size_t taken = client.send_some(stream_bytes(1, sent, 100'000));
      if (taken == 0) break;
      sent += taken;
      idle = 0;
    }
    rig.settle(2);
  }
  // The mark, and the data of a receive that was in flight.
  EXPECT_LE(rig.loop()->pool().out_bytes(),
            rig.loop()->small_group().posted_bytes() + rig.loop()->large_group().posted_bytes() + (128 << 10) + kMiB);
  uint64_t got = 0;
  rig.until([&] {
    upstream.read(30'000);
    EXPECT_TRUE(is_stream(1, got, upstream.received));
    got += upstream.received.size();
    upstream.received.clear();
    return got == sent || HasFailure();
  });
  client.close();
  upstream.close();
  rig.until([&] { return rig.sum_of_ends() == 1; });
}

TEST_F(SessionTest, UnixSocketsOnBothSides) {
  const std::string base = "@sluice-session-test-" + std::to_string(getpid());
  const auto address = [](const std::string& name) { return config::Address::parse("unix:" + name).value(); };
  const config::Address upstream_address = address(base + "-up");
  const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listening, upstream_address.data(), upstream_address.length()), 0);
  ASSERT_EQ(listen(listening, 8), 0);
  rig.listener.addresses = {address(base)};
  rig.listener.max_connections_per_source = 1;  // Does not apply.
  rig.upstreams[0].endpoints.push_back({.address = upstream_address});
  rig.start();
  std::vector<Peer> clients, upstreams;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(clients.back().fd(), rig.listener.addresses[0].data(), rig.listener.addresses[0].length()), 0);
    rig.until([&] { return rig.endpoint(0).connected.value() == upstreams.size() + 1; });
    upstreams.emplace_back(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
  }
  for (size_t i = 0; i < 3; ++i) {
    // The end arrives together with the data.
    clients[i].send("question");
    clients[i].shutdown_write();
    EXPECT_TRUE(rig.expect_end(upstreams[i]));
    EXPECT_EQ(upstreams[i].received, "question");
    upstreams[i].send("answer");
    upstreams[i].close();
    EXPECT_TRUE(rig.expect_end(clients[i]));
    EXPECT_EQ(clients[i].received, "answer");
  }
  rig.expect_only(SessionEnd::kFinished, 3);
  ::close(listening);
}

// ---- Resets ----

TEST_F(SessionTest, ClientResets) {
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  client.send("half a requ");
  rig.expect_received(upstream, "half a requ");
  client.reset();
  // Not an orderly end, which would make half a request look complete.
  rig.expect_reset(upstream);
  rig.expect_only(SessionEnd::kClientError);
}

TEST_F(SessionTest, UpstreamResets) {
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  upstream.send("half a respo");
  rig.expect_received(client, "half a respo");
  upstream.reset();
  rig.expect_reset(client);
  rig.expect_only(SessionEnd::kUpstreamError);
}

// The side that resets has already ended its own direction, or the other has.
TEST_F(SessionTest, ResetAfterAHalfClose) {
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  upstream.shutdown_write();
  EXPECT_TRUE(rig.expect_end(client));
  client.reset();
  rig.until([&] { return rig.sum_of_ends() == 1; });
  EXPECT_EQ(rig.ended(SessionEnd::kClientError), 1u);
}

// A client that is not read, because the upstream does not read, resets: no completion reports it. The upstream still
// gets the data once it reads.
TEST_F(SessionTest, ResetWhileNotReading) {
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  for (int idle = 0; idle < 20; ++idle) {
    while (client.send_some(std::string(100'000, 'x')) > 0) idle = 0;
    rig.settle(2);
  }
  client.reset();
  rig.settle();
  rig.expect_reset(upstream);
  rig.expect_only(SessionEnd::kClientError);
}

// ---- Timeouts ----

// Defect: stuck readers held the whole budget, and all data of others waited until idle_timeout.
TEST_F(SessionTest, StuckReadersEndWhenMemoryIsShort) {
  rig.options.budget_bytes = 2 * kMiB;
  rig.listener.tcp->stuck_timeout = milliseconds(300);
  Origin& origin = rig.add_origin();
  rig.start();
  const std::string block(100'000, 'x');
  // One stuck reader alone does no harm, and stays.
  std::vector<Peer> stuck;
  stuck.push_back(rig.connect());
  rig.peer_of(origin);
  const auto fill = [&] {
    for (Peer& peer : stuck) {
      while (peer.send_some(block) > 0) rig.settle(1);
    }
  };
  fill();
  rig.settle(500);
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  for (size_t i = 1; i < 60; ++i) {
    stuck.push_back(rig.connect());
    rig.peer_of(origin, i);
  }
  rig.until([&] {
    fill();
    return rig.loop().worker().short_of_memory() || rig.ended(SessionEnd::kStuck) > 0;
  });
  Peer client = rig.connect();
  Peer& server = rig.peer_of(origin, 60);
  // New connections are served; as the others want memory all the time, stuck ones have to return theirs.
  for (int i = 0; i < 20 || rig.ended(SessionEnd::kStuck) == 0; ++i) {
    ASSERT_LT(i, 10'000);
    fill();
    client.send(block);
    rig.expect_received(server, block);
    server.received.clear();
  }
  EXPECT_EQ(rig.sum_of_ends(), rig.ended(SessionEnd::kStuck));
}

TEST_F(SessionTest, IdleTimeout) {
  rig.listener.tcp->idle_timeout = milliseconds(60);
  Origin& origin = rig.add_origin();
  rig.start();
  using Clock = std::chrono::steady_clock;
  auto last = Clock::now();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  // Activity in either direction keeps it open.
  const auto start = Clock::now();
  Clock::duration longest_rest{0};
  for (size_t pings = 0; Clock::now() - start < milliseconds(300) && rig.sum_of_ends() == 0; ++pings) {
    (pings % 2 ? client : upstream).send_some("x");
    rig.settle(2);
    longest_rest = std::max(longest_rest, Clock::now() - last);
    last = Clock::now();
  }
  EXPECT_TRUE(rig.sum_of_ends() == 0 || longest_rest > milliseconds(50)) << "not idle, and ended";
  rig.expect_only(SessionEnd::kIdleTimeout);
  rig.expect_reset(client);
  rig.expect_reset(upstream);
}

TEST_F(SessionTest, MaxDuration) {
  rig.listener.tcp->max_duration = milliseconds(80);
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  // It ends busy sessions too.
  rig.until([&] {
    client.send_some("x");
    upstream.read();
    return rig.sum_of_ends() == 1;
  });
  rig.expect_only(SessionEnd::kMaxDuration);
  client.read();
  rig.expect_reset(client);
}

TEST_F(SessionTest, NoTimersNoEnd) {
  rig.listener.tcp->idle_timeout = milliseconds(0);
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  rig.settle(60);
  client.send("still there");
  rig.expect_received(upstream, "still there");
  EXPECT_EQ(rig.sum_of_ends(), 0u);
}

// ---- Limits ----

TEST_F(SessionTest, GlobalLimit) {
  rig.global_limit = 2;
  Origin& origin = rig.add_origin();
  rig.start();
  std::vector<Peer> clients;
  for (size_t i = 0; i < 2; ++i) {
    clients.push_back(rig.connect());
    rig.peer_of(origin, i);
  }
  Peer refused = rig.connect();
  rig.expect_reset(refused);
  EXPECT_EQ(rig.refused(Refusal::kGlobal), 1u);
  // One ends: there is room again.
  clients[0].reset();
  rig.until([&] { return rig.state().limits->connections.active() == 1; });
  Peer next = rig.connect();
  rig.peer_of(origin, 2);
}

TEST_F(SessionTest, ListenerLimit) {
  rig.listener.max_connections = 1;
  rig.global_limit = 10;
  Origin& origin = rig.add_origin();
  rig.start();
  Peer client = rig.connect();
  rig.peer_of(origin);
  for (uint64_t i = 1; i <= 15; ++i) {
    Peer refused = rig.connect();
    rig.expect_reset(refused);
    EXPECT_EQ(rig.refused(Refusal::kListener), i);
  }
  EXPECT_EQ(rig.counters().accepted.value(), 16u);
}

// A connection over the rate is closed before anything else is done with it.
TEST_F(SessionTest, ConnectionRateLimit) {
  rig.rate_limits = {{.name = "slow", .rate = config::Rate::parse("2/h").value()}};
  rig.listener.connection_rate_limits = {"slow"};
  Origin& origin = rig.add_origin();
  rig.start();
  std::vector<Peer> clients;
  for (size_t i = 0; i < 2; ++i) {
    clients.push_back(rig.connect());
    rig.peer_of(origin, i);
  }
  Peer refused = rig.connect();
  rig.expect_reset(refused);
  EXPECT_EQ(rig.refused(Refusal::kRate), 1u);
}

TEST_F(SessionTest, SourceLimit) {
  rig.listener.max_connections_per_source = 2;
  Origin& origin = rig.add_origin();
  rig.start();
  std::vector<Peer> clients;
  for (size_t i = 0; i < 2; ++i) {
    clients.push_back(rig.connect());
    rig.peer_of(origin, i);
  }
  Peer refused = rig.connect();
  rig.expect_reset(refused);
  EXPECT_EQ(rig.refused(Refusal::kSource), 1u);
  // For another address of the loopback network there is room.
  Peer other(test::tcp_socket());
  const sockaddr_in from{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(0x7f000002)}, .sin_zero = {}};
  ASSERT_EQ(bind(other.fd(), test::generic(from), sizeof from), 0);
  const sockaddr_in to = test::loopback(rig.port());
  ASSERT_EQ(connect(other.fd(), test::generic(to), sizeof to), 0);
  rig.peer_of(origin, 2);
}

TEST_F(SessionTest, EndpointLimit) {
  Origin& one = rig.add_origin();
  Origin& two = rig.add_origin();
  rig.upstreams[0].max_connections_per_endpoint = 1;
  rig.start();
  Peer a = rig.connect(), b = rig.connect();
  rig.until([&] { return one.peers.size() == 1 && two.peers.size() == 1; });
  Peer c = rig.connect();
  rig.expect_reset(c);
  EXPECT_EQ(rig.ended(SessionEnd::kNoEndpoint), 1u);
}

// Defect: the margin counted the backlog of one listener on one worker. Each of the others could accept as many at the
// same time, and then there was no descriptor for their upstream connections.
TEST_F(SessionTest, OtherAcceptorsCount) {
  rig.listener.backlog = 1;
  rig.descriptor_room = 100;
  rig.other_backlogs = 90;
  rig.start();
  const auto accepting = [&] { return static_cast<Listener::Owner&>(rig.acceptor()).accepting(); };
  EXPECT_EQ(accepting(), Listener::kAll);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(rig.global().enter());
  EXPECT_EQ(accepting(), 46u);  // Half of the room that is left.
  for (int i = 8; i < 99; ++i) EXPECT_TRUE(rig.global().enter());
  EXPECT_EQ(accepting(), 1u);
  EXPECT_TRUE(rig.global().enter());
  EXPECT_EQ(accepting(), 0u);
  for (int i = 0; i < 100; ++i) rig.global().leave();
}

// More connections wait than there are descriptors: they are not accepted, and so not refused, until others end.
TEST_F(SessionTest, WaitsForDescriptors) {
  rig.descriptor_room = 4;
  Origin& origin = rig.add_origin();
  rig.start();
  std::vector<Peer> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(rig.connect());
    clients.back().send("hello");
  }
  rig.until([&] { return origin.peers.size() == 4; });
  rig.settle(30);
  EXPECT_EQ(rig.counters().accepted.value(), 4u);
  EXPECT_GE(rig.counters().accept_pauses.value(), 1u);
  for (size_t i = 0; i < 10; ++i) {
    rig.expect_received(rig.peer_of(origin, i), "hello");
    EXPECT_LE(rig.state().limits->connections.active(), 4u);
    clients[i].close();
    origin.peers[i].close();
  }
  rig.expect_only(SessionEnd::kFinished, 10);
}

// ---- Endpoints ----

TEST_F(SessionTest, NextEndpointWhenOneRefuses) {
  const test::ClosedPort closed_port;
  rig.add_endpoint(closed_port.port());
  Origin& origin = rig.add_origin();
  rig.upstreams[0].max_fails = 0;  // Each connection tries again.
  rig.start();
  for (size_t i = 0; i < 10; ++i) {
    Peer client = rig.connect();
    client.send("find somebody");
    rig.expect_received(rig.peer_of(origin, i), "find somebody");
    client.close();
    origin.peers[i].close();
  }
  rig.expect_only(SessionEnd::kFinished, 10);
  EXPECT_GT(rig.connect_errors(0, ConnectError::kRefused), 0u);
  EXPECT_EQ(rig.endpoint(0).connected.value(), 0u);
  EXPECT_EQ(rig.endpoint(1).connected.value(), 10u);
}

TEST_F(SessionTest, FailingEndpointIsPassedOver) {
  const test::ClosedPort closed_port;
  rig.add_endpoint(closed_port.port());
  Origin& origin = rig.add_origin();
  rig.upstreams[0].max_fails = 1;
  rig.upstreams[0].fail_timeout = std::chrono::hours(1);
  rig.start();
  for (size_t i = 0; i < 10; ++i) {
    Peer client = rig.connect();
    rig.peer_of(origin, i);
  }
  EXPECT_EQ(rig.connect_errors(0, ConnectError::kRefused), 1u);
}

// Defect: the client saw a clean end after no bytes, which looks like an empty response.
TEST_F(SessionTest, NoEndpointConnects) {
  const test::ClosedPort a, b;
  rig.add_endpoint(a.port());
  rig.add_endpoint(b.port());
  rig.start();
  Peer client = rig.connect();
  rig.expect_reset(client);
  rig.expect_only(SessionEnd::kNoEndpoint);
  EXPECT_EQ(rig.connect_errors(0, ConnectError::kRefused), 1u);
  EXPECT_EQ(rig.connect_errors(1, ConnectError::kRefused), 1u);
}

TEST_F(SessionTest, AttemptsAreBounded) {
  const test::ClosedPort a, b, c;
  for (const auto* port : {&a, &b, &c}) rig.add_endpoint(port->port());
  rig.upstreams[0].connect_attempts = 2;
  rig.start();
  Peer client = rig.connect();
  rig.expect_reset(client);
  rig.expect_only(SessionEnd::kNoEndpoint);
  uint64_t attempts = 0;
  for (size_t i = 0; i < 3; ++i) attempts += rig.connect_errors(i, ConnectError::kRefused);
  EXPECT_EQ(attempts, 2u);
}

/// A listener whose queue is full: neither accepts nor refuses.
struct BlackHole {
  BlackHole() : listener(test::tcp_listen(0)), port(test::port_of(listener)) {
    for (int i = 0; i < 4; ++i) {
      fillers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const sockaddr_in address = test::loopback(port);
      connect(fillers.back().fd(), test::generic(address), sizeof address);
    }
  }
  ~BlackHole() { ::close(listener); }
  int listener;
  uint16_t port;
  std::vector<Peer> fillers;
};

TEST_F(SessionTest, NextEndpointAfterAConnectTimeout) {
  const BlackHole hole;
  rig.add_endpoint(hole.port);
  Origin& origin = rig.add_origin();
  rig.upstreams[0].connect_timeout = milliseconds(40);
  rig.upstreams[0].max_fails = 0;
  rig.start();
  for (size_t i = 0; i < 3; ++i) {
    Peer client = rig.connect();
    client.send("anybody");
    rig.expect_received(rig.peer_of(origin, i), "anybody");
  }
  EXPECT_GT(rig.connect_errors(0, ConnectError::kTimeout), 0u);
  EXPECT_EQ(rig.endpoint(1).connected.value(), 3u);
}

TEST_F(SessionTest, OnlyUnreachableEndpoints) {
  const BlackHole hole;
  rig.add_endpoint(hole.port);
  rig.upstreams[0].connect_timeout = milliseconds(30);
  rig.start();
  Peer client = rig.connect();
  client.send("never seen");
  rig.until([&] { return rig.sum_of_ends() == 1; });
  rig.expect_only(SessionEnd::kNoEndpoint);
  rig.expect_reset(client);
  EXPECT_EQ(rig.connect_errors(0, ConnectError::kTimeout), 1u);
}

// The time to drain is over while a session still connects.
TEST_F(SessionTest, ShutDownWhileConnecting) {
  const BlackHole hole;
  rig.add_endpoint(hole.port);
  rig.start();
  Peer client = rig.connect();
  rig.settle();
  rig.acceptor().shut_down();
  rig.expect_only(SessionEnd::kShutdown);
  rig.expect_reset(client);
}

TEST_F(SessionTest, ShutDownWhileForwarding) {
  Origin& origin = rig.add_origin();
  rig.start();
  std::vector<Peer> clients;
  for (size_t i = 0; i < 5; ++i) {
    clients.push_back(rig.connect());
    rig.peer_of(origin, i);
  }
  rig.acceptor().stop_accepting();
  rig.settle();
  EXPECT_FALSE(rig.acceptor().idle());
  clients[0].send("still served");
  rig.expect_received(origin.peers[0], "still served");
  rig.acceptor().shut_down();
  rig.acceptor().shut_down();
  rig.expect_only(SessionEnd::kShutdown, 5);
  rig.until([&] { return rig.acceptor().idle(); });
  for (Peer& client : clients) rig.expect_reset(client);
}

// ---- Routing by ClientHello ----

class SniSessionTest : public SessionTest {
 protected:
  void SetUp() override {
    rig.upstreams = {{.name = "a"}, {.name = "b"}, {.name = "rest"}};
    a = &rig.add_origin(0);
    b = &rig.add_origin(1);
    rig.listener.tcp->forward.clear();
    rig.listener.tcp->routes = {{sni("a.example.com"), "a"}, {sni("b.example.com"), "b"}};
  }
  void with_default() {
    rest = &rig.add_origin(2);
    rig.listener.tcp->routes.push_back({std::nullopt, "rest"});
  }
  Origin *a, *b, *rest = nullptr;
};

TEST_F(SniSessionTest, HelloIsForwardedUnchanged) {
  rig.start();
  Peer client = rig.connect();
  client.send(a_hello() + "and what follows");
  rig.expect_received(rig.peer_of(*a), a_hello() + "and what follows");
  client.send(", and more");
  rig.expect_received(a->peers[0], a_hello() + "and what follows, and more");
  client.close();
  a->peers[0].close();
  rig.expect_only(SessionEnd::kFinished);
  EXPECT_EQ(rig.counters().bytes_in.value(), a_hello().size() + 26);
}

TEST_F(SniSessionTest, HelloByteByByte) {
  rig.start();
  Peer client = rig.connect();
  const std::string hello = a_hello();
  for (const char byte : hello) {
    client.send(std::string(1, byte));
    rig.loop()->turn(1);
  }
  // Slowly arriving bytes pin bytes, not a chunk each.
  rig.expect_received(rig.peer_of(*a), hello);
}

TEST_F(SniSessionTest, NoRoute) {
  rig.start();
  Peer client = rig.connect();
  client.send("GET / HTTP/1.1\r\n");  // Not TLS.
  EXPECT_TRUE(rig.until([&] {
    client.read();
    return client.ended || client.error != 0;
  }));
  rig.expect_only(SessionEnd::kNoRoute);
}

TEST_F(SniSessionTest, DefaultRouteTakesOtherProtocols) {
  with_default();
  rig.start();
  Peer client = rig.connect();
  client.send("GET / HTTP/1.1\r\n");
  rig.expect_received(rig.peer_of(*rest), "GET / HTTP/1.1\r\n");
}

TEST_F(SniSessionTest, MalformedHello) {
  with_default();
  rig.start();
  Peer client = rig.connect();
  std::string hello = a_hello();
  hello[9] = 2;        // An invalid legacy version.
  hello[43] = '\xff';  // A session id that is too long.
  client.send(hello);
  rig.until([&] { return rig.sum_of_ends() == 1; });
  rig.expect_only(SessionEnd::kHello);
}

TEST_F(SniSessionTest, HelloTimeout) {
  rig.listener.tcp->inspect_timeout = milliseconds(40);
  rig.start();
  Peer silent = rig.connect(), slow = rig.connect();
  slow.send(a_hello().substr(0, 100));
  rig.expect_only(SessionEnd::kHelloTimeout, 2);
}

TEST_F(SniSessionTest, ClientLeavesDuringTheHello) {
  rig.start();
  Peer client = rig.connect(), half = rig.connect();
  rig.settle();
  client.close();
  half.send(a_hello().substr(0, 100));
  half.shutdown_write();
  rig.expect_only(SessionEnd::kClientLeft, 2);
}

TEST_F(SniSessionTest, ClientResetsDuringTheHello) {
  rig.start();
  Peer client = rig.connect();
  client.send(a_hello().substr(0, 100));
  rig.settle();
  client.reset();
  rig.expect_only(SessionEnd::kClientError);
}

// The client sends a lot after its hello while the upstream is not connected yet.
TEST_F(SniSessionTest, DataAfterTheHelloIsHeldAndNotLost) {
  const BlackHole hole;
  rig.upstreams[0].endpoints.insert(rig.upstreams[0].endpoints.begin(), {.address = test::loopback_address(hole.port)});
  rig.upstreams[0].connect_timeout = milliseconds(100);
  rig.upstreams[0].balance = config::Balance::kRoundRobin;
  rig.start();
  Peer client = rig.connect();
  std::string expected = a_hello();
  client.send(expected);
  for (uint64_t at = 0; at < 2 * kMiB;) {
    const size_t taken = client.send_some(stream_bytes(6, at, 100'000));
    expected += stream_bytes(6, at, taken);
    at += taken;
    rig.settle(1);
    if (taken == 0) break;
  }
  client.shutdown_write();
  Peer& upstream = rig.peer_of(*a);
  EXPECT_TRUE(rig.expect_end(upstream));
  EXPECT_EQ(upstream.received.size(), expected.size());
  EXPECT_TRUE(upstream.received == expected);
}

// ---- PROXY protocol ----

constexpr char kHeader[] = "PROXY TCP4 192.0.2.77 198.51.100.2 56324 443\r\n";

class ProxyHeaderSessionTest : public SessionTest {
 protected:
  void SetUp() override {
    rig.listener.proxy_protocol.accept = config::ProxyHeaderIn::kRequired;
    origin = &rig.add_origin();
  }
  Origin* origin;
};

TEST_F(ProxyHeaderSessionTest, HeaderIsRemoved) {
  rig.start();
  Peer client = rig.connect();
  client.send(std::string(kHeader) + "payload");
  rig.expect_received(rig.peer_of(*origin), "payload");
  client.close();
  origin->peers[0].close();
  rig.expect_only(SessionEnd::kFinished);
  EXPECT_EQ(rig.counters().bytes_in.value(), 7u);
}

TEST_F(ProxyHeaderSessionTest, HeaderByteByByte) {
  rig.start();
  Peer client = rig.connect();
  for (const char byte : std::string(kHeader) + "payload") {
    client.send(std::string(1, byte));
    rig.loop()->turn(1);
  }
  rig.expect_received(rig.peer_of(*origin), "payload");
}

// It is forwarded as the listener received it, in the other version.
TEST_F(ProxyHeaderSessionTest, HeaderIsForwarded) {
  for (const config::ProxyHeaderOut version : {config::ProxyHeaderOut::kV1, config::ProxyHeaderOut::kV2}) {
    SessionRig out;
    out.listener.proxy_protocol.accept = config::ProxyHeaderIn::kRequired;
    out.upstreams[0].send_proxy_protocol = version;
    Origin& to = out.add_origin();
    out.start();
    Peer client = out.connect();
    client.send(std::string(kHeader) + "payload");
    const std::string v2 =
        std::string("\r\n\r\n\0\r\nQUIT\n", 12) + test::from_hex("21 11 000c c000024d c6336402 dc04 01bb");
    out.expect_received(out.peer_of(to), (version == config::ProxyHeaderOut::kV1 ? kHeader : v2) + "payload");
  }
}

TEST_F(ProxyHeaderSessionTest, OwnAddressesWithoutAnIncomingHeader) {
  SessionRig out;
  out.upstreams[0].send_proxy_protocol = config::ProxyHeaderOut::kV1;
  Origin& to = out.add_origin();
  out.start();
  Peer client = out.connect();
  out.expect_received(out.peer_of(to), "PROXY TCP4 127.0.0.1 127.0.0.1 " + std::to_string(test::port_of(client.fd())) +
                                           " " + std::to_string(out.port()) + "\r\n");
}

TEST_F(ProxyHeaderSessionTest, HelloAfterTheHeader) {
  rig.listener.tcp->forward.clear();
  rig.listener.tcp->routes = {{sni("a.example.com"), "origin"}};
  rig.start();
  Peer together = rig.connect(), apart = rig.connect();
  together.send(kHeader + a_hello() + "data");
  rig.expect_received(rig.peer_of(*origin), a_hello() + "data");
  apart.send(kHeader);
  rig.settle(2);
  apart.send(a_hello());
  rig.expect_received(rig.peer_of(*origin, 1), a_hello());
}

// The limit per source counts the address in the header, not that of the proxy in front.
TEST_F(ProxyHeaderSessionTest, SourceLimitUsesTheHeader) {
  rig.listener.max_connections_per_source = 1;
  rig.start();
  std::vector<Peer> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(rig.connect());
    clients.back().send("PROXY TCP4 192.0.2." + std::to_string(i) + " 198.51.100.2 1 2\r\n");
    rig.peer_of(*origin, i);
  }
  Peer again = rig.connect();
  again.send("PROXY TCP4 192.0.2.1 198.51.100.2 3 4\r\n");
  rig.expect_reset(again);
  EXPECT_EQ(rig.refused(Refusal::kSource), 1u);
  // The timer of the header must not count it a second time.
  rig.settle();
  EXPECT_EQ(rig.sum_of_ends(), 0u);
}

TEST_F(ProxyHeaderSessionTest, MissingHeader) {
  rig.start();
  Peer client = rig.connect();
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  rig.expect_only(SessionEnd::kProxyHeader);
}

TEST_F(ProxyHeaderSessionTest, MalformedHeader) {
  rig.start();
  Peer client = rig.connect();
  client.send("PROXY TCP4 999.0.2.77 198.51.100.2 56324 443\r\n");
  rig.expect_only(SessionEnd::kProxyHeader);
}

TEST_F(ProxyHeaderSessionTest, HeaderTimeout) {
  rig.listener.proxy_protocol.timeout = milliseconds(40);
  rig.start();
  Peer silent = rig.connect(), half = rig.connect();
  half.send(std::string(kHeader).substr(0, 20));
  rig.expect_only(SessionEnd::kProxyTimeout, 2);
}

TEST_F(ProxyHeaderSessionTest, ClientLeavesDuringTheHeader) {
  rig.start();
  Peer client = rig.connect();
  client.send(std::string(kHeader).substr(0, 20));
  rig.settle();
  client.close();
  rig.expect_only(SessionEnd::kClientLeft);
}

TEST_F(ProxyHeaderSessionTest, OnlyTrustedSourcesMaySendAHeader) {
  rig.listener.proxy_protocol.trusted = {config::Cidr::parse("10.0.0.0/8").value()};
  rig.start();
  Peer client = rig.connect();
  client.send(std::string(kHeader) + "payload");
  rig.until([&] {
    client.read();
    return client.ended || client.error != 0;
  });
  rig.expect_only(SessionEnd::kProxyHeader);
}

TEST_F(ProxyHeaderSessionTest, OptionalHeader) {
  rig.listener.proxy_protocol.accept = config::ProxyHeaderIn::kOptional;
  rig.listener.proxy_protocol.trusted = {config::Cidr::parse("127.0.0.0/8").value()};
  rig.start();
  Peer with = rig.connect(), without = rig.connect();
  with.send(std::string(kHeader) + "payload");
  rig.expect_received(rig.peer_of(*origin), "payload");
  without.send("GET / HTTP/1.1\r\n");
  rig.expect_received(rig.peer_of(*origin, 1), "GET / HTTP/1.1\r\n");
}

// From an untrusted source the same bytes are payload.
TEST_F(ProxyHeaderSessionTest, OptionalHeaderFromAnUntrustedSource) {
  rig.listener.proxy_protocol.accept = config::ProxyHeaderIn::kOptional;
  rig.listener.proxy_protocol.trusted = {config::Cidr::parse("10.0.0.0/8").value()};
  rig.start();
  Peer client = rig.connect();
  client.send(std::string(kHeader) + "payload");
  rig.expect_received(rig.peer_of(*origin), std::string(kHeader) + "payload");
}

// Defect: if the posted chunks took the whole budget (1 MiB is allowed), every connection to an upstream that wants a
// PROXY header ended with no_memory.
TEST_F(ProxyHeaderSessionTest, SmallestBudgetStillSendsAHeader) {
  SessionRig out;
  out.options.budget_bytes = kMiB;
  out.upstreams[0].send_proxy_protocol = config::ProxyHeaderOut::kV1;
  Origin& to = out.add_origin();
  out.start();
  Peer client = out.connect();
  client.send("payload");
  Peer& upstream = out.peer_of(to);
  out.until([&] {
    upstream.read();
    return upstream.received.ends_with("payload") || upstream.ended || upstream.error != 0;
  });
  EXPECT_TRUE(upstream.received.starts_with("PROXY TCP4 ") && upstream.received.ends_with("payload"));
  EXPECT_EQ(out.sum_of_ends(), 0u);
}

}  // namespace
}  // namespace sluice
