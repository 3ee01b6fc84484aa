// The set of endpoints that balancers use, and changes of it meanwhile.

#include "proxy/upstream/endpoint_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {
namespace {

using config::Balance;

config::Upstream upstream(Balance balance, uint32_t endpoints, std::string name = "api") {
  config::Upstream result;
  result.name = std::move(name);
  result.balance = balance;
  for (uint32_t i = 0; i < endpoints; ++i) {
    result.endpoints.push_back({.address = config::Address::parse(absl::StrCat("10.0.0.", i + 1, ":80")).value()});
  }
  return result;
}

constexpr Balance kAll[] = {Balance::kRoundRobin, Balance::kLeastConnections, Balance::kLeastRequest,
                            Balance::kRandom,     Balance::kMaglev,           Balance::kRingHash};

TEST(EndpointSetTest, LevelsByPriority) {
  config::Upstream config = upstream(Balance::kRandom, 5);
  config.endpoints[0].priority = config.endpoints[3].priority = 7;
  config.endpoints[1].weight = 10;
  const UpstreamState state(config);
  const auto set = state.slots().endpoint_set();
  ASSERT_EQ(set->levels().size(), 2u);
  EXPECT_EQ(set->levels()[0].members, (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(set->levels()[1].members, (std::vector<uint32_t>{0, 3}));
  const EndpointSet::Level& level = set->levels()[0];
  EXPECT_EQ(level.weight(), 12u);
  for (uint64_t at = 0; at < 12; ++at) EXPECT_EQ(level.member_at(at), at < 10 ? 1u : at < 11 ? 2u : 4u);
}

// An endpoint that is gone is not picked; a new one is, without notifying the balancer.
TEST(EndpointSetTest, BalancersFollowTheSet) {
  for (const Balance balance : kAll) {
    const config::Upstream config = upstream(balance, 4);
    UpstreamState state(config);
    Balancer balancer(state, 1);
    const auto picked = [&] {
      std::set<uint32_t> found;
      for (uint64_t key = 0; key < 400; ++key) {
        if (const auto one = balancer.pick({.hash = mixed(key)})) found.insert(*one);
      }
      return found;
    };
    EXPECT_EQ(picked().size(), 4u);
    state.endpoint(1).present.store(false);
    state.endpoint(3).present.store(false);
    state.slots().renew_set();
    EXPECT_EQ(picked(), (std::set<uint32_t>{0, 2}));
    state.endpoint(3).present.store(true);
    state.endpoint(0).present.store(false);
    state.slots().renew_set();
    EXPECT_EQ(picked(), (std::set<uint32_t>{2, 3}));
    for (size_t i = 0; i < 4; ++i) state.endpoint(i).present.store(false);
    state.slots().renew_set();
    EXPECT_TRUE(picked().empty());
  }
}

// Workers pick while another thread changes the set: only endpoints of one of the two sets are picked.
TEST(EndpointSetTest, ChangesWhileWorkersPick) {
  const config::Upstream config = upstream(Balance::kMaglev, 8);
  UpstreamState state(config);
  std::atomic<bool> done = false;
  std::atomic<uint64_t> picks = 0;
  std::vector<std::thread> workers;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    workers.emplace_back([&, seed] {
      Balancer balancer(state, seed);
      for (uint64_t key = 0; !done; ++key) {
        const auto picked = balancer.pick({.hash = mixed(key)});
        ASSERT_TRUE(picked && *picked < 8);
        ++picks;
      }
    });
  }
  for (int i = 0; i < 50 || picks < 1000; ++i) {
    state.endpoint(static_cast<size_t>(i) % 7).present.store(i % 2 == 0);
    state.slots().renew_set();
  }
  done = true;
  for (std::thread& worker : workers) worker.join();
}

// ---- Ids in cookies ----

TEST(EndpointSetTest, CookieIdsNameEndpoints) {
  config::Upstream config = upstream(Balance::kRandom, 50);
  config.sticky.emplace();
  UpstreamState state(config);
  const auto set = state.slots().endpoint_set();
  std::set<uint64_t> ids;
  for (uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(set->find_cookie_id(set->cookie_id(i)), i);
    ids.insert(set->cookie_id(i));
  }
  EXPECT_EQ(ids.size(), 50u);
  EXPECT_FALSE(set->find_cookie_id(12345));
  EXPECT_FALSE(set->find_cookie_id(UINT64_MAX));
  EXPECT_FALSE(set->find_cookie_id(0));
  // The same address has the same id at any index, and another id in another upstream.
  config::Upstream turned = config;
  std::swap(turned.endpoints[0], turned.endpoints[49]);
  EXPECT_EQ(UpstreamState(turned).slots().endpoint_set()->cookie_id(49), set->cookie_id(0));
  config::Upstream other = config;
  other.name = "other";
  EXPECT_NE(UpstreamState(other).slots().endpoint_set()->cookie_id(0), set->cookie_id(0));
  // With a secret, the upstream's name does not count.
  config.sticky->secret = other.sticky->secret = "a secret";
  EXPECT_EQ(UpstreamState(other).slots().endpoint_set()->cookie_id(0),
            UpstreamState(config).slots().endpoint_set()->cookie_id(0));
  EXPECT_NE(UpstreamState(config).slots().endpoint_set()->cookie_id(0), set->cookie_id(0));
  // An endpoint that is gone has no id.
  state.endpoint(3).present.store(false);
  state.slots().renew_set();
  EXPECT_EQ(state.slots().endpoint_set()->cookie_id(3), 0u);
  EXPECT_FALSE(state.slots().endpoint_set()->find_cookie_id(set->cookie_id(3)));
}

// Values that processes must agree on must not change between versions.
TEST(EndpointSetTest, HashesNeverChange) {
  EXPECT_EQ(stable_hash("10.0.0.1:80"), 6056499830503035543u);
  EXPECT_EQ(mixed(1), 12994781566227106604u);
  config::Upstream config = upstream(Balance::kMaglev, 3);
  config.sticky.emplace();
  UpstreamState state(config);
  EXPECT_EQ(state.slots().endpoint_set()->cookie_id(0), 1111373471861764058u);
  Balancer balancer(state, 0);
  std::string owners;
  for (uint64_t key = 0; key < 16; ++key) absl::StrAppend(&owners, balancer.pick({.hash = mixed(key)}).value());
  EXPECT_EQ(owners, "1001012212101010");
}

}  // namespace
}  // namespace sluice
