#include "proxy/upstream/balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "proxy/config/load/scalar.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {
namespace {

using config::Balance;

/// An upstream with endpoints of these weights.
struct Fixture {
  explicit Fixture(Balance balance, std::vector<uint32_t> weights, uint64_t seed = 0, uint32_t max_connections = 0) {
    config.balance = balance;
    config.max_connections_per_endpoint = max_connections;
    for (uint32_t weight : weights) config.endpoints.push_back({.weight = weight});
    state = std::make_unique<UpstreamState>(config);
    balancer = std::make_unique<Balancer>(*state, seed);
  }
  // Each time for another key.
  std::optional<uint32_t> pick(const TriedEndpoints& tried = {}, uint64_t now_ms = 0) {
    return balancer->pick({.tried = tried, .now_ms = now_ms, .hash = mixed(++keys)});
  }
  std::vector<int> count(int picks) {
    std::vector<int> counts(config.endpoints.size());
    for (int i = 0; i < picks; ++i) ++counts[pick().value()];
    return counts;
  }
  void set_down(size_t index, uint64_t until_ms) { state->endpoint(index).down_until_ms.store(until_ms); }

  config::Upstream config;
  std::unique_ptr<UpstreamState> state;
  std::unique_ptr<Balancer> balancer;
  uint64_t keys = 0;
};

constexpr Balance kAll[] = {Balance::kRoundRobin, Balance::kLeastConnections, Balance::kLeastRequest,
                            Balance::kRandom,     Balance::kMaglev,           Balance::kRingHash};

// ---- A second endpoint ----

// Also of more endpoints than TriedEndpoints remembers.
TEST(BalancerTest, SecondEndpointIsAnotherThatIsUp) {
  for (const Balance balance : kAll) {
    Fixture f(balance, std::vector<uint32_t>(70, 1));
    for (uint64_t key = 0; key < 1000; ++key) {
      const auto picked = f.balancer->pick({.hash = mixed(key), .beside = 69});
      ASSERT_TRUE(picked && *picked != 69) << config::Scalar<Balance>::print(balance);
    }
    for (size_t i = 0; i < 69; ++i) f.set_down(i, 1000);
    EXPECT_EQ(f.balancer->pick({.hash = 1, .beside = 69}), std::nullopt);
    EXPECT_NE(f.pick(), std::nullopt);
  }
}

// ---- Shares ----

TEST(BalancerTest, RoundRobinIsExactOverACycle) {
  std::mt19937 random(3);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<uint32_t> weights(1 + random() % 9);
    uint32_t total = 0;
    for (uint32_t& weight : weights) {
      weight = static_cast<uint32_t>(1 + random() % (seed % 3 == 0 ? 1 : 50));
      total += weight;
    }
    Fixture f(Balance::kRoundRobin, weights, seed);
    for (int cycle = 0; cycle < 3; ++cycle) {
      const std::vector<int> counts = f.count(static_cast<int>(total));
      for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(counts[i], static_cast<int>(weights[i])) << seed;
    }
  }
}

// Not one endpoint for a while and then the other.
TEST(BalancerTest, RoundRobinInterleaves) {
  Fixture equal(Balance::kRoundRobin, {1, 1, 1, 1});
  std::vector<uint32_t> order;
  for (int i = 0; i < 8; ++i) order.push_back(equal.pick().value());
  for (size_t i = 0; i + 4 < 8; ++i) {
    EXPECT_EQ(std::set<uint32_t>(order.begin() + static_cast<std::ptrdiff_t>(i),
                                 order.begin() + static_cast<std::ptrdiff_t>(i) + 4)
                  .size(),
              4u);
  }
  Fixture heavy(Balance::kRoundRobin, {5, 1, 1}, 1);
  int in_a_row = 0, most = 0;
  for (int i = 0; i < 70; ++i) most = std::max(most, in_a_row = heavy.pick() == 0 ? in_a_row + 1 : 0);
  EXPECT_LE(most, 4);
}

// The endpoint behind one that is passed over does not get its share, too.
TEST(BalancerTest, RoundRobinSharesWhatOthersCannotTake) {
  for (const uint32_t weight : {1u, 7u}) {
    Fixture f(Balance::kRoundRobin, {weight, weight, weight, weight}, 2);
    f.set_down(1, 1000);
    EXPECT_EQ(f.count(300), (std::vector<int>{100, 0, 100, 100}));
  }
}

// Defect: each retry took a turn, so that of two endpoints the one that fails was always tried first.
TEST(BalancerTest, RoundRobinGivesRetriesTurnsOfTheirOwn) {
  Fixture f(Balance::kRoundRobin, {1, 1, 1});
  TriedEndpoints tried;
  tried.add(0);
  std::vector<int> first(3), second(3);
  for (int i = 0; i < 60; ++i) {
    const uint32_t picked = f.pick().value();
    ++first[picked];
    if (picked == 0) ++second[f.pick(tried).value()];
  }
  EXPECT_EQ(first, (std::vector<int>{20, 20, 20}));
  EXPECT_EQ(second, (std::vector<int>{0, 10, 10}));
}

// Workers have different seeds: their first connections do not all go to one endpoint.
TEST(BalancerTest, WorkersStartApart) {
  std::set<uint32_t> first;
  for (uint64_t seed = 0; seed < 4; ++seed)
    first.insert(Fixture(Balance::kRoundRobin, {1, 1, 1, 1}, seed).pick().value());
  EXPECT_EQ(first.size(), 4u);
}

TEST(BalancerTest, RandomFollowsWeights) {
  const std::vector<uint32_t> weights = {1, 2, 3, 10, 1000, 4};
  Fixture f(Balance::kRandom, weights, 7);
  constexpr int kPicks = 200'000;
  const std::vector<int> counts = f.count(kPicks);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double p = weights[i] / 1020.0;
    // Six standard deviations.
    EXPECT_NEAR(counts[i], kPicks * p, 6 * std::sqrt(kPicks * p * (1 - p))) << i;
  }
}

TEST(BalancerTest, LeastConnectionsFollowsWeights) {
  const std::vector<uint32_t> weights = {1, 2, 3, 10, 4};
  Fixture f(Balance::kLeastConnections, weights, 5);
  // Connections that stay open are distributed exactly.
  for (int i = 0; i < 20 * 6; ++i) f.state->endpoint(f.pick().value()).active.fetch_add(1);
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(f.state->endpoint(i).active.load(), 6 * weights[i]) << i;
  // If two end, the next two go there.
  f.state->endpoint(2).active.fetch_sub(2);
  for (int i = 0; i < 2; ++i) {
    const uint32_t picked = f.pick().value();
    EXPECT_EQ(picked, 2u);
    f.state->endpoint(picked).active.fetch_add(1);
  }
}

TEST(BalancerTest, LeastConnectionsBreaksTiesEvenly) {
  Fixture f(Balance::kLeastConnections, {1, 1, 1, 1}, 5);
  constexpr int kPicks = 40'000;
  for (int count : f.count(kPicks)) EXPECT_NEAR(count, kPicks / 4, 6 * std::sqrt(kPicks * 0.25 * 0.75));
}

// Defect: while all endpoints were idle, the one with the highest weight got everything.
TEST(BalancerTest, LeastConnectionsSharesIdleEndpointsByWeight) {
  Fixture f(Balance::kLeastConnections, {7, 2, 1}, 5);
  constexpr int kPicks = 10'000;
  const std::vector<int> counts = f.count(kPicks);
  for (const auto& [i, p] : {std::pair{0, 0.7}, {1, 0.2}, {2, 0.1}}) {
    EXPECT_NEAR(counts[static_cast<size_t>(i)], kPicks * p, 6 * std::sqrt(kPicks * p * (1 - p))) << i;
  }
  // A connection at a time is no reason to leave the highest weight.
  f.state->endpoint(0).active.store(1);
  EXPECT_GT(f.count(kPicks)[0], 0.6 * kPicks);
  f.state->endpoint(0).active.store(8);
  EXPECT_EQ(f.count(kPicks)[0], 0);
}

TEST(BalancerTest, LeastRequestTakesTheLighterOfTwo) {
  Fixture two(Balance::kLeastRequest, {1, 1});
  two.state->endpoint(0).active.store(1);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(two.pick(), 1u);
  // The most loaded one is never the lighter of two; which two is random.
  Fixture many(Balance::kLeastRequest, {1, 1, 1, 1, 1});
  for (uint32_t i = 0; i < 5; ++i) many.state->endpoint(i).active.store(i);
  constexpr int kPicks = 100'000;
  const std::vector<int> counts = many.count(kPicks);
  // Of the 10 pairs, 4 have 0, 3 more have 1, and so on.
  for (size_t i = 0; i < 5; ++i) {
    const double p = (4.0 - static_cast<double>(i)) / 10;
    EXPECT_NEAR(counts[i], kPicks * p, 6 * std::sqrt(kPicks * p * (1 - p)) + 0.1) << i;
  }
}

TEST(BalancerTest, LeastRequestFollowsWeights) {
  Fixture f(Balance::kLeastRequest, {1, 2, 4, 8}, 5);
  // Requests that stay open are distributed by weight, except for randomness.
  for (int i = 0; i < 15 * 40; ++i) f.state->endpoint(f.pick().value()).active.fetch_add(1);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(f.state->endpoint(i).active.load(), 40u << i, (40u << i) / 8.0) << i;
}

// Defect: of two idle endpoints the one with the higher weight got everything.
TEST(BalancerTest, LeastRequestSharesIdleEndpointsByWeight) {
  Fixture two(Balance::kLeastRequest, {70, 30}, 5);
  constexpr int kPicks = 10'000;
  EXPECT_NEAR(two.count(kPicks)[0], 0.7 * kPicks, 6 * std::sqrt(kPicks * 0.7 * 0.3));
  Fixture many(Balance::kLeastRequest, {100, 1, 1, 1}, 5);
  for (const int count : many.count(kPicks)) EXPECT_GT(count, 0);
}

// The purpose: among endpoints of which one is ten times slower, requests that arrive at random hardly ever wait for
// the slow one, which round robin would overload. (A model in steps of time: each endpoint does one request after the
// other.)
TEST(BalancerTest, LeastRequestAvoidsSlowEndpoints) {
  const auto late_share = [](Balance balance) {
    Fixture f(balance, {1, 1, 1, 1}, 3);
    std::mt19937 random(11);
    std::vector<uint64_t> free_at(4);
    std::vector<std::vector<uint64_t>> ends(4);
    constexpr int kRequests = 20'000;
    uint64_t now = 0;
    int late = 0;
    for (int i = 0; i < kRequests; ++i) {
      now += 1 + random() % 9;  // A request each 5 steps; a fast endpoint takes 10 for one, so that three carry 60 %.
      for (size_t e = 0; e < 4; ++e) {
        std::erase_if(ends[e], [&](uint64_t end) { return end <= now; });
        f.state->endpoint(e).active.store(static_cast<uint32_t>(ends[e].size()));
      }
      const uint32_t picked = f.pick().value();
      free_at[picked] = std::max(free_at[picked], now) + (picked == 0 ? 100 : 10);
      ends[picked].push_back(free_at[picked]);
      late += free_at[picked] > now + 50;
    }
    return static_cast<double>(late) / kRequests;
  };
  const double in_turn = late_share(Balance::kRoundRobin), two_choices = late_share(Balance::kLeastRequest);
  std::printf("late: %.1f %% in turn, %.1f %% with two choices\n", in_turn * 100, two_choices * 100);
  EXPECT_GT(in_turn, 0.2);
  EXPECT_LT(two_choices, 0.08);
}

// ---- Passed over ----

TEST(BalancerTest, TriedEndpointsAreNotPickedAgain) {
  for (const Balance balance : kAll) {
    Fixture f(balance, {1, 5, 1, 9}, 3);
    for (int round = 0; round < 100; ++round) {
      TriedEndpoints tried;
      std::set<uint32_t> picked;
      for (int i = 0; i < 4; ++i) {
        const std::optional<uint32_t> endpoint = f.pick(tried);
        ASSERT_TRUE(endpoint);
        EXPECT_TRUE(picked.insert(*endpoint).second);
        tried.add(*endpoint);
      }
      EXPECT_FALSE(f.pick(tried));
    }
  }
}

TEST(BalancerTest, FullEndpointsAreNotPicked) {
  for (const Balance balance : kAll) {
    Fixture f(balance, {1, 1, 1}, 0, /*max_connections=*/2);
    f.state->endpoint(0).active.store(2);
    f.state->endpoint(1).active.store(3);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(f.pick(), 2u);
    f.state->endpoint(2).active.store(2);
    EXPECT_FALSE(f.pick());
    f.state->endpoint(0).active.store(1);
    EXPECT_EQ(f.pick(), 0u);
  }
}

TEST(BalancerTest, DownEndpointsArePassedOverForTheirTimeout) {
  for (const Balance balance : kAll) {
    Fixture f(balance, {1, 1, 1}, 2);
    f.set_down(0, 1000);
    f.set_down(1, 2000);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(f.pick({}, 999), 2u);
    std::set<uint32_t> picked;
    for (int i = 0; i < 50; ++i) picked.insert(f.pick({}, 1000).value());
    EXPECT_EQ(picked, (std::set<uint32_t>{0, 2}));
    picked.clear();
    for (int i = 0; i < 50; ++i) picked.insert(f.pick({}, 2000).value());
    EXPECT_EQ(picked.size(), 3u);
  }
}

// A last resort: an endpoint that was down a moment ago is better than none.
TEST(BalancerTest, AllAreTriedWhenAllAreDown) {
  for (const Balance balance : kAll) {
    Fixture f(balance, {1, 1, 1}, 2, /*max_connections=*/1);
    for (size_t i = 0; i < 3; ++i) f.set_down(i, 1000);
    std::set<uint32_t> picked;
    TriedEndpoints tried;
    for (int i = 0; i < 3; ++i) {
      const std::optional<uint32_t> endpoint = f.pick(tried, 5);
      ASSERT_TRUE(endpoint);
      picked.insert(*endpoint);
      tried.add(*endpoint);
    }
    EXPECT_EQ(picked.size(), 3u);
    EXPECT_FALSE(f.pick(tried, 5));
    // Endpoints that are up come first, tried or full ones never.
    f.set_down(1, 0);
    f.state->endpoint(2).active.store(1);
    TriedEndpoints only_one;
    EXPECT_EQ(f.pick(only_one, 5), 1u);
    only_one.add(1);
    EXPECT_EQ(f.pick(only_one, 5), 0u);
    only_one.add(0);
    EXPECT_FALSE(f.pick(only_one, 5));
  }
}

// An endpoint that was down must not get all the connections that it missed.
TEST(BalancerTest, RoundRobinDoesNotCatchUp) {
  Fixture f(Balance::kRoundRobin, {1, 1, 1});
  f.set_down(0, 1000);
  for (int i = 0; i < 900; ++i) EXPECT_NE(f.pick({}, 0), 0u);
  int in_a_row = 0, most = 0, total = 0;
  for (int i = 0; i < 30; ++i) {
    const bool zero = f.pick({}, 1000) == 0;
    total += zero;
    most = std::max(most, in_a_row = zero ? in_a_row + 1 : 0);
  }
  EXPECT_LE(most, 2);
  EXPECT_NEAR(total, 10, 2);
}

TEST(BalancerTest, OneEndpoint) {
  for (const Balance balance : kAll) {
    for (const uint32_t weight : {1u, 1000u}) {
      Fixture f(balance, {weight}, 99);
      for (int i = 0; i < 10; ++i) EXPECT_EQ(f.pick(), 0u);
    }
  }
}

// Defect: endpoints after the first 64 were tried again and again, by hash always the same one.
TEST(BalancerTest, TheLatestTriedOfManyEndpointsAreRemembered) {
  for (const Balance balance : kAll) {
    Fixture f(balance, std::vector<uint32_t>(200, 1), 4);
    for (size_t i = 0; i < 100; ++i) f.set_down(i, 1000);
    for (uint64_t key = 0; key < 1000; ++key) {
      TriedEndpoints tried;
      std::set<uint32_t> picked;
      for (int i = 0; i < 5; ++i) {
        const auto endpoint = f.balancer->pick({.tried = tried, .hash = mixed(key)});
        ASSERT_TRUE(endpoint);
        EXPECT_TRUE(picked.insert(*endpoint).second) << config::Scalar<Balance>::print(balance);
        tried.add(*endpoint);
      }
      EXPECT_EQ(tried.count(), 4u);
    }
  }
}

// Beyond the number that can be remembered an endpoint may be tried twice, but pick() must not fail or overflow.
TEST(BalancerTest, ManyEndpoints) {
  for (const Balance balance : kAll) {
    Fixture f(balance, std::vector<uint32_t>(200, 3), 4);
    TriedEndpoints tried;
    for (size_t i = 0; i < 200; ++i) tried.add(i);
    for (size_t i = 0; i < 64; ++i) EXPECT_TRUE(tried.contains(i));
    EXPECT_FALSE(tried.contains(64));
    for (size_t i = 196; i < 200; ++i) EXPECT_TRUE(tried.contains(i));
    for (int i = 0; i < 100; ++i) {
      const std::optional<uint32_t> endpoint = f.pick(tried);
      ASSERT_TRUE(endpoint);
      EXPECT_GE(*endpoint, 64u);
      EXPECT_LT(*endpoint, 196u);
    }
  }
}

}  // namespace
}  // namespace sluice
