// Changes of endpoints by operators: how balancers follow them, and how long they last.
#include "proxy/upstream/endpoint_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
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

// ---- Added and removed endpoints ----

constexpr size_t kPlaces = EndpointTable::kAddedSlots;

absl::StatusOr<uint32_t> add(UpstreamState& state, const ResolvedEndpoint& endpoint, EndpointChange change = {}) {
  return state.changes().add(endpoint, std::move(change), /*now_ms=*/1000, [](uint32_t) {});
}

ResolvedEndpoint local(int port, uint32_t weight = 1, uint32_t priority = 0) {
  return {config::Address::parse(absl::StrCat("127.0.0.1:", port)).value(), weight, priority};
}

TEST(AddedEndpoints, AllPoliciesFollow) {
  for (const Balance balance : kPolicies) {
    SCOPED_TRACE(config::Scalar<Balance>::print(balance));
    UpstreamState state(of({"127.0.0.1:1", "127.0.0.1:2"}, balance), kPlaces);
    Balancer balancer(state, 0), other_worker(state, 1);
    EXPECT_GT(shares(balancer, state.size())[0], 1000);
    const uint32_t slot = *add(state, local(3, 2));
    EXPECT_EQ(state.describe(slot), "127.0.0.1:3");
    EXPECT_TRUE(state.slots().is_added(slot));
    for (Balancer* const each : {&balancer, &other_worker}) {
      const std::vector<int> counts = shares(*each, state.size());
      EXPECT_GT(counts[0], 400);
      EXPECT_NEAR(counts[slot], 1500, 200) << "half of the weight";
    }
    state.changes().remove(slot, {});
    EXPECT_EQ(shares(balancer, state.size())[slot], 0);
    EXPECT_NE(balancer.pick({.preferred = slot}), std::optional(slot));
    EXPECT_TRUE(state.slots().added().empty());
    state.changes().remove(1, {});
    EXPECT_EQ(shares(balancer, state.size())[0], 3000) << "a configured one is removed, too";
    EXPECT_EQ(shares(other_worker, state.size())[0], 3000);
  }
}

TEST(AddedEndpoints, HavePriorities) {
  UpstreamState state(of({"127.0.0.1:1"}), kPlaces);
  Balancer balancer(state, 0);
  const uint32_t spare = *add(state, local(3, 1, 1));
  EXPECT_EQ(shares(balancer, state.size())[spare], 0);
  state.changes().remove(0, {});
  EXPECT_EQ(shares(balancer, state.size())[spare], 3000);
}

TEST(AddedEndpoints, StickyClientsFindThem) {
  config::Upstream upstream = of({"127.0.0.1:1", "127.0.0.1:2"});
  upstream.sticky.emplace();
  UpstreamState state(upstream, kPlaces);
  Balancer balancer(state, 0);
  const uint32_t slot = *add(state, local(3));
  const uint64_t cookie = balancer.endpoints().cookie_id(slot);
  EXPECT_EQ(balancer.endpoints().find_cookie_id(cookie), slot);
  state.changes().remove(slot, {});
  EXPECT_EQ(balancer.endpoints().find_cookie_id(cookie), std::nullopt);
  UpstreamState configured(of({"127.0.0.1:3"}));
  upstream.endpoints = of({"127.0.0.1:3"}).endpoints;
  EXPECT_EQ(UpstreamState(upstream).slots().endpoint_set()->cookie_id(0), cookie) << "as if it were configured";
}

TEST(AddedEndpoints, AreBounded) {
  UpstreamState state(of({"127.0.0.1:1"}), kPlaces);
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < EndpointTable::kMaxAdded; ++i) slots.push_back(*add(state, at(static_cast<int>(i))));
  EXPECT_EQ(
      add(state, local(3)).status().message(),
      "upstream app has 8 added endpoints, and may have no more: put them into the configuration and reload it, or "
      "remove one");
  state.changes().remove(slots[0], {});
  EXPECT_TRUE(add(state, local(3)).ok());
  UpstreamState none(of({"127.0.0.1:1"}));
  EXPECT_FALSE(add(none, local(3)).ok()) << "without an admin listener there are no places";
}

// The places of removed endpoints are free as soon as nothing uses them.
TEST(AddedEndpoints, WaitForConnectionsToThoseBefore) {
  UpstreamState state(of({"127.0.0.1:1"}), kPlaces);
  Balancer balancer(state, 0);
  std::vector<uint32_t> held;
  for (size_t i = 0; i < kPlaces; ++i) {
    held.push_back(*add(state, at(static_cast<int>(i))));
    balancer.follow_endpoints();
    balancer.view().hold(held.back());
    state.changes().remove(held.back(), {});
    balancer.follow_endpoints();
    EXPECT_EQ(state.slots().text(held.back()), at(static_cast<int>(i)).address.text());
  }
  EXPECT_THAT(std::string(add(state, local(3)).status().message()), testing::HasSubstr("try again later"));
  EXPECT_EQ(add(state, at(5)).value(), held[5]) << "one that comes back has its place";
  state.changes().remove(held[5], {});
  balancer.view().let_go(held[7]);
  int resets = 0;
  EXPECT_EQ(state.changes().add(local(3), {}, 0, [&](uint32_t slot) { resets += slot == held[7] ? 1 : 100; }).value(),
            held[7]);
  EXPECT_EQ(resets, 1);
  for (const uint32_t slot : held) {
    if (slot != held[7]) balancer.view().let_go(slot);
  }
}

// What was known about the endpoint before is not.
TEST(AddedEndpoints, BeginAnew) {
  config::Upstream upstream = of({"127.0.0.1:1"});
  upstream.slow_start = std::chrono::seconds(10);
  UpstreamState state(upstream, kPlaces);
  const uint32_t slot = *add(state, local(3));
  EXPECT_LT(state.share(slot, 2000), UpstreamState::kFullShare / 2);
  EXPECT_EQ(state.share(slot, 12'000), UpstreamState::kFullShare);
  state.set_healthy(slot, false, 0);
  state.changes().make(slot, {.presence = EndpointPresence::kAdded, .mode = EndpointMode::kDraining, .weight = 7}, 0);
  const uint32_t incarnation = state.endpoint(slot).health.incarnation;
  state.changes().remove(slot, {});
  EXPECT_EQ(*add(state, local(3, 2)), slot);
  EXPECT_TRUE(state.endpoint(slot).up(2000));
  EXPECT_EQ(state.slots().weight(slot), 2);
  EXPECT_NE(state.endpoint(slot).health.incarnation, incarnation) << "health checks notice";
}

TEST(AddedEndpoints, AReloadEndsThemUnlessTheyAreKept) {
  UpstreamState state(of({"127.0.0.1:1", "127.0.0.1:2"}), kPlaces);
  Balancer balancer(state, 0);
  const uint32_t kept = *add(state, local(3), {.keep = true, .by = "me"}), other = *add(state, local(4));
  state.changes().remove(0, {.by = "me"});
  EXPECT_EQ(state.changes().removal_of(0)->by, "me");
  EXPECT_FALSE(state.changes().removal_of(1));
  std::vector<int> counts = shares(balancer, state.size());
  EXPECT_EQ(counts[0], 0);
  EXPECT_GT(counts[other], 900);
  EXPECT_EQ(state.changes().end_unkept(0), 2);
  counts = shares(balancer, state.size());
  EXPECT_GT(counts[0], 900) << "it has come back";
  EXPECT_GT(counts[kept], 900);
  EXPECT_EQ(counts[other], 0);
  EXPECT_FALSE(state.changes().removal_of(0));
  state.changes().make(other, {.presence = EndpointPresence::kAdded, .weight = 5}, 0);
  EXPECT_FALSE(state.changes().of(other)) << "a change of one that is gone has no effect";
}

TEST(AddedEndpoints, ARemovedOneThatIsAddedIsAsConfigured) {
  config::Upstream upstream = of({"127.0.0.1:1", "127.0.0.1:2"});
  upstream.endpoints[0].weight = 6;
  UpstreamState state(upstream, kPlaces);
  state.changes().remove(0, {.keep = true});
  EXPECT_EQ(add(state, local(1, 9)).value(), 0);
  EXPECT_EQ(state.slots().weight(0), 6);
  EXPECT_FALSE(state.changes().of(0));
  EXPECT_FALSE(state.changes().removal_of(0));
}

TEST(AddedEndpoints, GoOverToAnotherConfiguration) {
  UpstreamState old(of({"127.0.0.1:1", "127.0.0.1:2"}), kPlaces);
  (void)*add(old, local(3, 4, 1), {.keep = true});
  (void)*add(old, local(4));
  (void)*add(old, local(5), {.mode = EndpointMode::kDraining, .keep = true});
  const uint32_t unhealthy = *add(old, local(6), {.keep = true});
  old.set_healthy(unhealthy, false, 0);
  old.changes().remove(0, {.keep = true});
  config::Upstream changed = of({"127.0.0.1:2", "127.0.0.1:1", "127.0.0.1:5"});
  changed.health_check.emplace();
  UpstreamState next(changed, kPlaces);
  next.continue_from(old);
  std::vector<std::string> present;
  const EndpointView view(next.slots());
  for (const uint32_t slot : view.present()) {
    const std::string& text = next.slots().text(slot);
    present.push_back(text);
    if (text == "127.0.0.1:3") {
      EXPECT_EQ(next.slots().weight(slot), 4);
      EXPECT_EQ(next.slots().priority(slot), 1);
    }
    EXPECT_EQ(next.endpoint(slot).enabled(), text != "127.0.0.1:5") << text;
    EXPECT_EQ(next.endpoint(slot).health.healthy, text != "127.0.0.1:6") << text;
    EXPECT_EQ(next.slots().is_added(slot), text == "127.0.0.1:3" || text == "127.0.0.1:6") << text;
  }
  EXPECT_THAT(present, testing::ElementsAre("127.0.0.1:2", "127.0.0.1:5", "127.0.0.1:3", "127.0.0.1:6"));
  EXPECT_TRUE(next.changes().removal_of(1));
}

// While workers choose and hold what they have chosen, reloads come, and the figures are read.
TEST(AddedEndpoints, ComeAndGoWhileWorkersChoose) {
  UpstreamState state(of({"127.0.0.1:1", "127.0.0.1:2", "app.test:80"}), kPlaces);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint64_t worker = 0; worker < 2; ++worker) {
    threads.emplace_back([&state, &stop, worker] {
      Balancer balancer(state, worker);
      std::vector<std::pair<uint32_t, std::string>> held;
      for (uint64_t key = worker; !stop; ++key) {
        const auto picked = balancer.pick({.hash = mixed(key)});
        if (!picked) continue;
        balancer.view().hold(*picked);
        held.emplace_back(*picked, state.slots().text(*picked));
        if (held.size() < 20) continue;
        for (const auto& [slot, text] : held) {
          EXPECT_EQ(state.slots().text(slot), text) << "a held slot has another address";
          balancer.view().let_go(slot);
        }
        held.clear();
      }
      for (const auto& [slot, text] : held) balancer.view().let_go(slot);
    });
  }
  threads.emplace_back([&state, &stop] {
    for (int i = 0; !stop; ++i) {
      (void)state.slots().replace(2, std::vector{at(i % 5 + 100)});
      (void)state.changes().end_unkept(0);
      (void)state.slots().added();
      UpstreamState next(of({"127.0.0.1:1"}), kPlaces);
      next.continue_from(state);
    }
  });
  for (int i = 0; i < 500; ++i) {
    const auto added = add(state, at(i % 60), {.keep = i % 2 == 0});
    const EndpointView view(state.slots());
    if (added.ok() && view.is_present(*added) && i % 3 != 0) state.changes().remove(*added, {});
    if (!added.ok()) {
      for (const EndpointTable::Added& each : state.slots().added()) {
        if (view.is_present(each.slot)) state.changes().remove(each.slot, {});
      }
    }
    state.changes().remove(0, {.keep = i % 2 == 0});
    (void)add(state, local(1));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice
