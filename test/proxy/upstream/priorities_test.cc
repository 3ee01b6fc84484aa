// Endpoints with priorities: the share of each, and where connections go.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "proxy/upstream/balancer.h"
#include "proxy/upstream/priority_shares.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {
namespace {

using config::Balance;

std::vector<double> percents(std::vector<LevelHealth> levels, uint32_t failover_below = 71) {
  std::vector<uint64_t> shares(levels.size());
  share_by_priority(levels, failover_below, shares);
  double whole = 0;
  for (const uint64_t share : shares) whole += static_cast<double>(share);
  std::vector<double> result;
  for (const uint64_t share : shares) result.push_back(std::round(static_cast<double>(share) / whole * 100));
  return result;
}

// Examples of Envoy's documentation ("Priority levels", for a factor of 1.4), where 71 % is 99 and 1 because of
// rounding.
TEST(PrioritySharesTest, EnvoysDocumentedExamples) {
  using P = std::vector<double>;
  EXPECT_EQ(percents({{100, 100}, {100, 100}}), (P{100, 0}));
  EXPECT_EQ(percents({{72, 100}, {72, 100}}), (P{100, 0}));
  EXPECT_EQ(percents({{71, 100}, {71, 100}}), (P{100, 0}));
  EXPECT_EQ(percents({{50, 100}, {60, 100}}), (P{70, 30}));
  EXPECT_EQ(percents({{25, 100}, {100, 100}}), (P{35, 65}));
  // Neither has enough, so that both together have more than enough.
  EXPECT_EQ(percents({{25, 100}, {25, 100}}), (P{50, 50}));
  EXPECT_EQ(percents({{0, 100}, {100, 100}}), (P{0, 100}));
  EXPECT_EQ(percents({{100, 100}, {100, 100}, {100, 100}}), (P{100, 0, 0}));
  EXPECT_EQ(percents({{50, 100}, {10, 100}, {100, 100}}), (P{70, 14, 16}));
}

TEST(PrioritySharesTest, Edges) {
  using P = std::vector<double>;
  EXPECT_EQ(percents({{99, 100}, {1, 1}}, 100), (P{99, 1}));
  EXPECT_EQ(percents({{1, 100}, {1, 1}}, 1), (P{100, 0}));
  EXPECT_EQ(percents({{0, 10}, {0, 30}}), (P{25, 75}));  // All down: by their number.
  std::array<uint64_t, 2> shares;
  const std::array<LevelHealth, 2> one_of_many = {{{1, 60'000}, {0, 1}}};
  share_by_priority(one_of_many, 100, shares);
  EXPECT_GT(shares[0], 0u);
  EXPECT_EQ(shares[1], 0u);
}

/// Four endpoints of priority 0, two of priority 5, one of priority 9.
struct Fixture {
  explicit Fixture(Balance balance, uint32_t max_connections = 0) {
    config.balance = balance;
    config.max_connections_per_endpoint = max_connections;
    for (const uint32_t priority : {5u, 0u, 0u, 9u, 0u, 5u, 0u}) config.endpoints.push_back({.priority = priority});
    state = std::make_unique<UpstreamState>(config);
    balancer = std::make_unique<Balancer>(*state, 1);
  }
  void set_down(std::vector<size_t> which) {
    ++now_ms;
    for (size_t i = 0; i < 7; ++i) state->endpoint(i).down_until_ms.store(0);
    for (const size_t i : which) state->endpoint(i).down_until_ms.store(1'000'000);
  }
  std::optional<uint32_t> pick(const TriedEndpoints& tried = {}) {
    return balancer->pick({.tried = tried, .now_ms = now_ms, .hash = mixed(++keys)});
  }
  // Percent of the connections for each priority.
  std::array<double, 3> shares() {
    constexpr int kPicks = 20'000;
    std::array<double, 3> result{};
    for (int i = 0; i < kPicks; ++i) {
      const uint32_t priority = config.endpoints[pick().value()].priority;
      result[priority == 0 ? 0 : priority == 5 ? 1 : 2] += 100.0 / kPicks;
    }
    return result;
  }

  config::Upstream config;
  std::unique_ptr<UpstreamState> state;
  std::unique_ptr<Balancer> balancer;
  uint64_t now_ms = 1;
  uint64_t keys = 0;
};

class PrioritiesTest : public ::testing::TestWithParam<Balance> {};
INSTANTIATE_TEST_SUITE_P(All, PrioritiesTest,
                         ::testing::Values(Balance::kRoundRobin, Balance::kLeastConnections, Balance::kLeastRequest,
                                           Balance::kRandom, Balance::kMaglev, Balance::kRingHash));

TEST_P(PrioritiesTest, LowestTakesAllWhileEnoughAreUp) {
  Fixture f(GetParam());
  EXPECT_NEAR(f.shares()[0], 100, 1e-6);
  f.set_down({1});
  EXPECT_NEAR(f.shares()[0], 100, 1e-6);  // 75 %
  EXPECT_EQ(f.balancer->counters().failovers, 0u);
}

TEST_P(PrioritiesTest, RestSpillsToTheNext) {
  Fixture f(GetParam());
  f.set_down({1, 2});
  auto shares = f.shares();
  EXPECT_NEAR(shares[0], 50 / 0.71, 3);
  EXPECT_NEAR(shares[1], 100 - 50 / 0.71, 3);
  EXPECT_NEAR(shares[2], 0, 1e-6);
  EXPECT_GT(f.balancer->counters().failovers, 0u);
  f.set_down({1, 2, 4, 6});
  EXPECT_NEAR(f.shares()[1], 100, 1e-6);
  f.set_down({0, 1, 2, 4, 5, 6});
  EXPECT_NEAR(f.shares()[2], 100, 1e-6);
  f.set_down({});  // And back.
  EXPECT_NEAR(f.shares()[0], 100, 1e-6);
  EXPECT_EQ(f.balancer->counters().panics, 0u);
}

TEST_P(PrioritiesTest, AllAreTriedWhenAllAreDown) {
  Fixture f(GetParam());
  f.set_down({0, 1, 2, 3, 4, 5, 6});
  const auto shares = f.shares();
  EXPECT_NEAR(shares[0], 400 / 7.0, 3);
  EXPECT_NEAR(shares[1], 200 / 7.0, 3);
  EXPECT_NEAR(shares[2], 100 / 7.0, 3);
  EXPECT_EQ(f.balancer->counters().panics, 20'000u);
}

// After a failed attempt the next priority is used before no endpoint is left.
TEST_P(PrioritiesTest, TriedAndFullOnesLeadToTheNext) {
  Fixture f(GetParam(), /*max_connections=*/1);
  TriedEndpoints tried;
  for (const uint32_t priority : {0u, 0u, 0u, 0u, 5u, 5u, 9u}) {
    const std::optional<uint32_t> picked = f.pick(tried);
    ASSERT_TRUE(picked);
    EXPECT_EQ(f.config.endpoints[*picked].priority, priority);
    tried.add(*picked);
  }
  EXPECT_FALSE(f.pick(tried));
  for (const size_t i : {1u, 2u, 4u, 6u}) f.state->endpoint(i).active.store(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(f.config.endpoints[f.pick().value()].priority, 5u);
}

// Keys of remaining endpoints stay: only the spilled part moves, each key to one endpoint.
TEST(PrioritiesTest, SpilledKeysStay) {
  for (const Balance balance : {Balance::kMaglev, Balance::kRingHash}) {
    Fixture f(balance);
    f.set_down({1, 2});
    const auto owner = [&](uint64_t key) { return f.balancer->pick({.now_ms = f.now_ms, .hash = mixed(key)}).value(); };
    std::vector<uint32_t> at_first;
    for (uint64_t key = 0; key < 2000; ++key) at_first.push_back(owner(key));
    for (uint64_t key = 0; key < 2000; ++key) EXPECT_EQ(owner(key), at_first[key]);
    f.set_down({1, 2, 4});  // More spill; those that have already spilled stay where they are.
    for (uint64_t key = 0; key < 2000; ++key) {
      if (f.config.endpoints[at_first[key]].priority != 5) continue;
      EXPECT_EQ(owner(key), at_first[key]);
    }
  }
}

}  // namespace
}  // namespace sluice
