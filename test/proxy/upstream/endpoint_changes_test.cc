// Changes of endpoints by operators: how balancers follow them, and how long they last.
#include "proxy/upstream/endpoint_changes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/scalar.h"
#include "proxy/upstream/balancer.h"
#include "proxy/upstream/endpoint.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {
namespace {

using config::Balance;

constexpr Balance kPolicies[] = {Balance::kRoundRobin, Balance::kLeastConnections, Balance::kLeastRequest,
                                 Balance::kRandom,     Balance::kMaglev,           Balance::kRingHash};

config::Upstream of(std::vector<std::string> endpoints, Balance balance = Balance::kRoundRobin) {
  config::Upstream upstream;
  upstream.name = "app";
  upstream.balance = balance;
  upstream.resolve.max_addresses = 2;
  for (const std::string& each : endpoints) {
    upstream.endpoints.push_back({.address = config::EndpointAddress::parse(each).value()});
  }
  return upstream;
}

ResolvedEndpoint at(int last) { return {config::Address::parse(absl::StrCat("10.0.0.", last, ":80")).value(), 1, 0}; }

// How often each endpoint is chosen in 3,000 choices, each for another key.
std::vector<int> shares(Balancer& balancer, size_t endpoints) {
  std::vector<int> counts(endpoints);
  for (uint64_t key = 0; key < 3000; ++key) {
    const auto picked = balancer.pick({.hash = mixed(key)});
    if (picked) ++counts[*picked];
  }
  return counts;
}

TEST(EndpointChanges, AllPoliciesFollow) {
  for (const Balance balance : kPolicies) {
    SCOPED_TRACE(config::Scalar<Balance>::print(balance));
    UpstreamState state(of({"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, balance));
    Balancer balancer(state, 0);
    for (const int count : shares(balancer, 3)) EXPECT_GT(count, 500);
    state.changes().make(1, {.mode = EndpointMode::kDraining}, 0);
    EXPECT_EQ(shares(balancer, 3)[1], 0);
    EXPECT_FALSE(state.endpoint(1).up(0));
    state.changes().make(1, {.weight = 8}, 0);
    EXPECT_EQ(state.slots().weight(1), 8);
    // 8 of 10 parts. These policies compare loads, of which there are none here.
    if (balance != Balance::kLeastConnections && balance != Balance::kLeastRequest) {
      EXPECT_NEAR(shares(balancer, 3)[1], 2400, 250);
    }
    state.changes().make(1, {}, 0);
    EXPECT_FALSE(state.changes().of(1));
    for (const int count : shares(balancer, 3)) EXPECT_GT(count, 500);
  }
}

// Otherwise, endpoints that are down are chosen if there are no others.
TEST(EndpointChanges, TheLastEndpointGetsNothingEither) {
  UpstreamState state(of({"127.0.0.1:1", "127.0.0.1:2"}));
  Balancer balancer(state, 0);
  state.changes().make(0, {.mode = EndpointMode::kDraining}, 0);
  state.changes().make(1, {.mode = EndpointMode::kDisabled}, 0);
  EXPECT_EQ(balancer.pick({}), std::nullopt);
  EXPECT_EQ(balancer.pick({.preferred = 0}), std::nullopt) << "nor a client that is bound to it";
  state.changes().make(1, {}, 0);
  EXPECT_EQ(balancer.pick({.preferred = 0}), 1);
}

TEST(EndpointChanges, AnEndpointThatIsEnabledAgainStartsSlowly) {
  config::Upstream upstream = of({"127.0.0.1:1", "127.0.0.1:2"});
  upstream.slow_start = std::chrono::seconds(10);
  UpstreamState state(upstream);
  state.changes().make(0, {.mode = EndpointMode::kDraining}, 1000);
  state.changes().make(0, {}, 5000);
  EXPECT_LT(state.share(0, 6000), UpstreamState::kFullShare / 2);
  EXPECT_EQ(state.share(1, 6000), UpstreamState::kFullShare);
  EXPECT_EQ(state.share(0, 15'001), UpstreamState::kFullShare);
}

TEST(EndpointChanges, EndUnlessTheyAreKept) {
  UpstreamState state(of({"127.0.0.1:1", "127.0.0.1:2"}));
  state.changes().make(0, {.mode = EndpointMode::kDraining, .weight = 3}, 0);
  state.changes().make(1, {.weight = 4, .keep = true}, 0);
  EXPECT_EQ(state.changes().end_unkept(0), 1);
  EXPECT_FALSE(state.changes().of(0));
  EXPECT_TRUE(state.endpoint(0).enabled());
  EXPECT_EQ(state.slots().weight(0), 1);
  EXPECT_EQ(state.slots().weight(1), 4);
  EXPECT_EQ(state.changes().end_unkept(0), 0);
}

TEST(EndpointChanges, GoOverToAnotherConfiguration) {
  UpstreamState old(of({"127.0.0.1:1", "127.0.0.1:2", "app.test:80"}));
  (void)old.slots().replace(2, std::vector{at(1)});
  old.changes().make(0, {.mode = EndpointMode::kDraining, .keep = true, .by = "me"}, 0);
  old.changes().make(1, {.weight = 9}, 0);
  {
    const EndpointView view(old.slots());
    old.changes().make(view.present().back(), {.weight = 5, .keep = true}, 0);
  }
  UpstreamState next(of({"app.test:80", "127.0.0.1:2", "127.0.0.1:1"}));
  next.continue_from(old);
  const EndpointView view(next.slots());
  ASSERT_EQ(view.present().size(), 3);
  for (const uint32_t slot : view.present()) {
    const std::string& address = next.slots().text(slot);
    EXPECT_EQ(next.endpoint(slot).enabled(), address != "127.0.0.1:1") << address;
    EXPECT_EQ(next.slots().weight(slot), address == "10.0.0.1:80" ? 5 : 1) << address;
    EXPECT_EQ(next.slots().configured_weight(slot), 1) << address;
  }
}

// A change is of an address, not of the slot, which another address may get.
TEST(EndpointChanges, EndWithTheAddress) {
  UpstreamState state(of({"app.test:80"}));
  (void)state.slots().replace(0, std::vector{at(1)});
  uint32_t slot = 0;
  {
    const EndpointView view(state.slots());
    slot = view.present()[0];
    state.changes().make(slot, {.mode = EndpointMode::kDraining, .weight = 7}, 0);
  }
  // Until the slot gets another address.
  for (int last = 2; last < 20; ++last) {
    (void)state.slots().replace(0, std::vector{at(last)});
    const EndpointView view(state.slots());
    if (view.present()[0] != slot) continue;
    EXPECT_TRUE(state.endpoint(slot).enabled());
    EXPECT_EQ(state.slots().weight(slot), 1);
    EXPECT_FALSE(state.changes().of(slot));
    EXPECT_FALSE(state.slots().change(slot, at(1).address.text(), EndpointMode::kDraining, 7, 0));
    return;
  }
  FAIL() << "the slot got no other address";
}

// A worker chooses and a name resolves anew while an operator changes things.
TEST(EndpointChanges, AreMadeWhileWorkersChoose) {
  UpstreamState state(of({"127.0.0.1:1", "127.0.0.1:2", "app.test:80"}));
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    Balancer balancer(state, 1);
    while (!stop) (void)balancer.pick({});
  });
  std::thread resolver([&] {
    for (int i = 0; !stop; ++i) (void)state.slots().replace(2, std::vector{at(i % 5), at(i % 7 + 10)});
  });
  for (uint32_t i = 0; i < 500; ++i) {
    const EndpointView view(state.slots());
    for (const uint32_t slot : view.present()) {
      const auto mode = static_cast<EndpointMode>(i % 3);
      state.changes().make(slot, {.mode = mode, .weight = i % 4, .by = "me"}, i);
      (void)state.changes().of(slot);
    }
  }
  stop = true;
  worker.join();
  resolver.join();
  (void)state.changes().end_unkept(0);
  EXPECT_TRUE(state.endpoint(0).enabled());
}

}  // namespace
}  // namespace sluice
