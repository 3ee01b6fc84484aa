// The share of an endpoint that has come up grows gradually.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <set>

#include "proxy/upstream/balancer.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {
namespace {

using config::Balance;

constexpr uint64_t kFull = UpstreamState::kFullShare;

/// Four endpoints, and ten seconds until one that was down has its whole share again.
struct Fixture {
  explicit Fixture(Balance balance, config::Duration slow_start = std::chrono::seconds(10)) {
    config.balance = balance;
    config.slow_start = slow_start;
    config.fail_timeout = std::chrono::seconds(5);
    config.endpoints.resize(4);
    state = std::make_unique<UpstreamState>(config);
    balancer = std::make_unique<Balancer>(*state, 1);
  }
  // The part of the picks that goes to endpoint 0.
  double share_at(uint64_t now_ms) {
    constexpr int kPicks = 40'000;
    int count = 0;
    for (uint64_t key = 0; key < kPicks; ++key) {
      const uint32_t picked = balancer->pick({.now_ms = now_ms, .hash = mixed(key)}).value();
      count += picked == 0;
      // They stay open where loads are compared: earlier ones count as well.
      if (config.balance == Balance::kLeastConnections) state->endpoint(picked).active.fetch_add(1);
    }
    for (size_t i = 0; i < 4; ++i) state->endpoint(i).active.store(0);
    return static_cast<double>(count) / kPicks;
  }

  config::Upstream config;
  std::unique_ptr<UpstreamState> state;
  std::unique_ptr<Balancer> balancer;
};

TEST(SlowStartTest, ShareGrowsFromATenth) {
  Fixture f(Balance::kRoundRobin);
  EXPECT_EQ(f.state->share(0, 0), kFull);  // From the start of the process on.
  f.state->report_failure(0, 1000);
  // From when it may be tried again,
  EXPECT_EQ(f.state->share(0, 6000), kFull / 10);
  EXPECT_EQ(f.state->share(0, 6500), kFull / 10);
  EXPECT_EQ(f.state->share(0, 8000), kFull / 5);
  // and again from when that succeeds.
  f.state->report_success(0, 8000);
  EXPECT_EQ(f.state->share(0, 8000), kFull / 10);
  EXPECT_EQ(f.state->share(0, 13'000), kFull / 2);
  EXPECT_EQ(f.state->share(0, 17'999), kFull * 9999 / 10'000);
  EXPECT_EQ(f.state->share(0, 18'000), kFull);
  f.state->report_success(0, 18'500);  // Further successes change nothing.
  EXPECT_EQ(f.state->share(0, 18'500), kFull);
  EXPECT_EQ(f.state->share(1, 8000), kFull);
}

// While all are down one may be tried, and succeed, before its pause is over.
TEST(SlowStartTest, SuccessDuringThePause) {
  Fixture f(Balance::kRoundRobin);
  f.state->report_failure(0, 1000);
  f.state->report_success(0, 2000);
  EXPECT_EQ(f.state->share(0, 7000), kFull / 2);
}

TEST(SlowStartTest, OffByDefault) {
  Fixture f(Balance::kRoundRobin, config::Duration(0));
  f.state->report_failure(0, 1000);
  f.state->report_success(0, 2000);
  EXPECT_EQ(f.state->share(0, 2000), kFull);
}

class SlowStartPolicyTest : public ::testing::TestWithParam<Balance> {};
INSTANTIATE_TEST_SUITE_P(All, SlowStartPolicyTest,
                         ::testing::Values(Balance::kRoundRobin, Balance::kLeastConnections, Balance::kRandom,
                                           Balance::kMaglev, Balance::kRingHash));

TEST_P(SlowStartPolicyTest, PicksFollow) {
  Fixture f(GetParam());
  // The final share includes the ring's own unevenness.
  const double at_last = f.share_at(0);
  EXPECT_NEAR(at_last, 0.25, 0.05);
  f.state->report_failure(0, 1000);
  EXPECT_EQ(f.share_at(2000), 0);
  f.state->report_success(0, 2000);
  double before = 0;
  for (const uint64_t tenths : {1u, 3u, 6u, 9u}) {
    const double share = f.share_at(2000 + tenths * 1000), part = static_cast<double>(tenths) / 10;
    // A part of its share beside the others' full weights; in a table, a part of its keys.
    const bool hashed = GetParam() == Balance::kMaglev || GetParam() == Balance::kRingHash;
    EXPECT_NEAR(share, hashed ? at_last * part : part / (3 + part), 0.02) << tenths;
    EXPECT_GT(share, before);
    before = share;
  }
  EXPECT_NEAR(f.share_at(12'000), at_last, 0.02);
}

// A key that has returned stays there.
TEST(SlowStartTest, KeysReturnOnce) {
  for (const Balance balance : {Balance::kMaglev, Balance::kRingHash}) {
    Fixture f(balance);
    f.state->report_failure(0, 1000);
    f.state->report_success(0, 2000);
    std::set<uint64_t> home;
    for (uint64_t now_ms = 2000; now_ms <= 12'000; now_ms += 1000) {
      for (uint64_t key = 0; key < 2000; ++key) {
        if (f.balancer->pick({.now_ms = now_ms, .hash = mixed(key)}) == 0u) {
          home.insert(key);
        } else {
          EXPECT_FALSE(home.contains(key)) << key;
        }
      }
    }
  }
}

// With two choices the lighter is found by weight too: it does not get more than its part.
TEST(SlowStartTest, LighterOfTwoUsesTheShare) {
  Fixture f(Balance::kLeastRequest);
  f.state->report_failure(0, 1000);
  f.state->report_success(0, 2000);
  EXPECT_LT(f.share_at(3000), 0.1);
  for (int i = 0; i < 4 * 300; ++i) {
    f.state->endpoint(f.balancer->pick({.now_ms = 7000}).value()).active.fetch_add(1);
  }
  EXPECT_NEAR(f.state->endpoint(0).active.load(), 1200 * 0.5 / 3.5, 30);
}

}  // namespace
}  // namespace sluice
