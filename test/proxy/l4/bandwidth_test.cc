// Limits of bandwidth of TCP connections.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "test/net/test_clock.h"
#include "test/proxy/l4/session_rig.h"

namespace sluice {
namespace {

using test::Origin;
using test::Peer;

constexpr uint64_t kRate = 100'000, kBurst = 100'000;
// What a flow may bring beyond its burst: a receive.
constexpr uint64_t kInFlight = 70'000;
constexpr uint64_t kStepMs = 250;

class TcpBandwidthTest : public testing::Test {
 protected:
  TcpBandwidthTest() : origin(rig.add_origin()) {
    rig.rate_limits.push_back({.name = "bytes", .rate = config::Rate::parse("100KB/s").value(), .burst = kBurst});
  }

  static void send_more(Peer& from, uint64_t& sent, uint64_t bytes) {
    while (sent < bytes) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(bytes - sent, 50'000));
      const size_t taken = from.send_some(test::stream_bytes(1, sent, count));
      if (taken == 0) return;
      sent += taken;
    }
  }
  void read_more(Peer& to, uint64_t& got) {
    to.read();
    EXPECT_TRUE(test::is_stream(1, got, to.received));
    got += to.received.size();
    to.received.clear();
  }
  /// Sends `bytes` and lets the time pass until they have arrived. Returns how much of it had to pass, in milliseconds.
  uint64_t transfer(Peer& from, Peer& to, uint64_t bytes) {
    uint64_t sent = 0, got = 0;
    for (uint64_t passed = 0;; passed += kStepMs) {
      for (int turn = 0; turn < 20; ++turn) {
        send_more(from, sent, bytes);
        rig.settle(2);
        read_more(to, got);
      }
      if (got == bytes || passed > 600'000) return passed;
      // The rate holds at each moment.
      EXPECT_LE(got, kBurst + kInFlight + kRate * passed / 1000 + slack());
      test::TestClock::jump(kStepMs);
    }
  }
  /// What the time has admitted that has passed while the test ran.
  uint64_t slack() const {
    const auto real = std::chrono::steady_clock::now() - begin_;
    return kRate * static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(real).count()) / 1000;
  }
  uint64_t real_ms() const { return slack() * 1000 / kRate; }
  uint64_t pauses() { return rig.rate_limit(0).pauses.value(); }
  void finish(Peer& client, Peer& upstream) {
    client.close();
    upstream.close();
    rig.until([&] { return rig.sum_of_ends() == 1; });
  }

  test::SessionRig rig;
  Origin& origin;

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST_F(TcpBandwidthTest, DownloadIsPaced) {
  rig.listener.tcp->download_bandwidth = {"bytes"};
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  const uint64_t passed_ms = transfer(upstream, client, 2'000'000);
  EXPECT_GE(passed_ms + real_ms(), (2'000'000 - kBurst - kInFlight) * 1000 / kRate);
  EXPECT_LE(passed_ms, (2'000'000 - kBurst) * 1000 / kRate + 2000);
  EXPECT_GT(pauses(), 0u);
  // The other direction is not limited.
  EXPECT_EQ(transfer(client, upstream, 2'000'000), 0u);
  finish(client, upstream);
}

TEST_F(TcpBandwidthTest, UploadIsPaced) {
  rig.listener.tcp->upload_bandwidth = {"bytes"};
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  const uint64_t passed_ms = transfer(client, upstream, 2'000'000);
  EXPECT_GE(passed_ms + real_ms(), (2'000'000 - kBurst - kInFlight) * 1000 / kRate);
  EXPECT_EQ(transfer(upstream, client, 2'000'000), 0u);
  finish(client, upstream);
}

// A burst that has been used up by one connection is not there for the next one of the same source.
TEST_F(TcpBandwidthTest, ConnectionsOfASourceShareTheRate) {
  rig.listener.tcp->download_bandwidth = {"bytes"};
  rig.start();
  Peer first = rig.connect();
  Peer& first_upstream = rig.peer_of(origin);
  transfer(first_upstream, first, 300'000);
  Peer second = rig.connect();
  Peer& second_upstream = rig.peer_of(origin, 1);
  EXPECT_GE(transfer(second_upstream, second, 1'000'000) + real_ms(), (1'000'000 - kBurst - kInFlight) * 1000 / kRate);
  first.close();
  first_upstream.close();
  second.close();
  second_upstream.close();
  rig.until([&] { return rig.sum_of_ends() == 2; });
}

// A connection that waits for its turn is not idle, however long that takes.
TEST_F(TcpBandwidthTest, WaitingIsNotIdle) {
  rig.rate_limits[0].rate = config::Rate::parse("10KB/s").value();
  rig.rate_limits[0].burst = 10'000;
  rig.listener.tcp->download_bandwidth = {"bytes"};
  rig.listener.tcp->idle_timeout = std::chrono::seconds(1);
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  uint64_t sent = 0;
  send_more(upstream, sent, 60'000);
  rig.settle(20);
  upstream.close();
  for (int i = 0; i < 12; ++i) {
    test::TestClock::jump(kStepMs);
    rig.settle(4);
  }
  EXPECT_EQ(rig.ended(SessionEnd::kIdleTimeout), 0u);
  uint64_t got = 0;
  for (int i = 0; i < 200 && !client.ended; ++i) {
    test::TestClock::jump(kStepMs);
    rig.settle(4);
    read_more(client, got);
  }
  EXPECT_EQ(got, 60'000u);
  client.close();
  rig.expect_only(SessionEnd::kFinished);
}

// A client that leaves while its download waits frees both connections.
TEST_F(TcpBandwidthTest, ClientLeaves) {
  rig.listener.tcp->download_bandwidth = {"bytes"};
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  uint64_t sent = 0;
  for (int i = 0; i < 20; ++i) {
    send_more(upstream, sent, 4'000'000);
    rig.settle(2);
  }
  EXPECT_GT(pauses(), 0u);
  client.reset();
  rig.until([&] { return rig.sum_of_ends() == 1; });
  EXPECT_EQ(rig.ended(SessionEnd::kClientError), 1u);
}

// `dry_run` only counts.
TEST_F(TcpBandwidthTest, DryRun) {
  rig.rate_limits[0].dry_run = true;
  rig.listener.tcp->download_bandwidth = {"bytes"};
  rig.start();
  Peer client = rig.connect();
  Peer& upstream = rig.peer_of(origin);
  uint64_t sent = 0, got = 0;
  rig.until([&] {
    send_more(upstream, sent, 600'000);
    read_more(client, got);
    return got == 600'000;
  });
  EXPECT_EQ(pauses(), 0u);
  EXPECT_GT(rig.rate_limit(0).dry_run_delayed_bytes.value(), 0u);
  finish(client, upstream);
}

}  // namespace
}  // namespace sluice
