#include "proxy/upstream/endpoint_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/upstream/balancer.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

config::EndpointAddress where(const std::string& text) { return config::EndpointAddress::parse(text).value(); }

ResolvedEndpoint resolved(int last, uint32_t weight = 1, uint32_t priority = 0) {
  return {config::Address::parse(absl::StrCat("10.0.", last / 256, ".", last % 256, ":80")).value(), weight, priority};
}

/// An address, a name with up to three addresses, and another address. The name is endpoint 1.
config::Upstream upstream(uint32_t max_addresses = 3) {
  config::Upstream result;
  result.name = "main";
  result.resolve.max_addresses = max_addresses;
  for (const char* const each : {"127.0.0.1:1", "app.test:80", "127.0.0.1:2"}) {
    result.endpoints.push_back({.address = where(each)});
  }
  return result;
}
constexpr uint32_t kName = 1;

std::vector<std::string> texts(const EndpointTable& slots, const EndpointView& view) {
  std::vector<std::string> texts;
  for (const uint32_t slot : view.present()) texts.push_back(slots.text(slot));
  return texts;
}

uint32_t slot_of(const EndpointTable& slots, const EndpointView& view, const ResolvedEndpoint& endpoint) {
  for (const uint32_t slot : view.present()) {
    if (slots.address(slot) == endpoint.address) return slot;
  }
  ADD_FAILURE() << endpoint.address.text() << " is not there";
  return 0;
}

// As at a reload: another configuration has some of the endpoints at other places.
TEST(EndpointSlotsTest, ContinuesFromAnotherTable) {
  EndpointTable old(upstream());
  (void)old.replace(kName, std::vector{resolved(1), resolved(2, 5)});
  const EndpointView then(old);
  old.state(1).down_until_ms = 7;
  old.state(slot_of(old, then, resolved(2))).fails_in_a_row = 3;
  old.state(0).health.checks.add(9);
  config::Upstream config;
  config.name = "main";
  for (const char* const each : {"app.test:80", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:1"}) {
    config.endpoints.push_back({.address = where(each)});
  }
  EndpointTable slots(config);
  slots.continue_from(old);
  const EndpointView view(slots);
  EXPECT_THAT(texts(slots, view),
              UnorderedElementsAre("127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:1", "10.0.0.1:80", "10.0.0.2:80"));
  const auto state = [&](const ResolvedEndpoint& endpoint) -> EndpointState& {
    return slots.state(slot_of(slots, view, endpoint));
  };
  const auto at = [](const char* text) { return ResolvedEndpoint{config::Address::parse(text).value()}; };
  EXPECT_EQ(state(at("127.0.0.1:2")).down_until_ms, 7u);
  EXPECT_EQ(state(at("127.0.0.1:3")).down_until_ms, 0u);
  EXPECT_EQ(state(at("127.0.0.1:1")).health.checks.value(), 9u);
  EXPECT_EQ(state(resolved(2)).fails_in_a_row, 3u);
  EXPECT_EQ(slots.weight(slot_of(slots, view, resolved(2))), 5u);
}

TEST(EndpointSlotsTest, ConfiguredAddressesAreNeverRemoved) {
  const config::Upstream config = upstream();
  EndpointTable slots(config);
  const EndpointView view(slots);
  EXPECT_EQ(slots.size(), 2 + 2 * 3U);
  EXPECT_THAT(texts(slots, view), ElementsAre("127.0.0.1:1", "127.0.0.1:2"));
  EXPECT_EQ(slots.configured(0), 0u);
  EXPECT_EQ(slots.configured(1), 2u);
}

TEST(EndpointSlotsTest, ViewChangesWhenItIsRefreshed) {
  const config::Upstream config = upstream();
  EndpointTable slots(config);
  EndpointView view(slots);
  EXPECT_FALSE(view.refresh());
  const EndpointTable::Change change = slots.replace(kName, std::vector{resolved(1, 5, 2), resolved(2)});
  EXPECT_EQ(change.added, 2u);
  EXPECT_EQ(change.present, 2u);
  EXPECT_EQ(view.present().size(), 2u);
  EXPECT_TRUE(view.refresh());
  EXPECT_FALSE(view.refresh());
  EXPECT_THAT(texts(slots, view), ElementsAre("127.0.0.1:1", "127.0.0.1:2", "10.0.0.1:80", "10.0.0.2:80"));
  const uint32_t slot = slot_of(slots, view, resolved(1));
  EXPECT_EQ(slots.configured(slot), kName);
  EXPECT_EQ(slots.weight(slot), 5u);
  EXPECT_EQ(slots.priority(slot), 2u);
}

TEST(EndpointSlotsTest, EqualSetIsNoChange) {
  const config::Upstream config = upstream();
  EndpointTable slots(config);
  (void)slots.replace(kName, std::vector{resolved(1), resolved(2)});
  const uint64_t generation = slots.generation();
  EXPECT_FALSE(slots.replace(kName, std::vector{resolved(2), resolved(1), resolved(2)}).any());
  EXPECT_EQ(slots.generation(), generation);
  // A weight is a change, and stays with its slot.
  const EndpointTable::Change change = slots.replace(kName, std::vector{resolved(2, 7), resolved(1)});
  EXPECT_EQ(change.adjusted, 1u);
  EXPECT_EQ(change.added + change.removed, 0u);
  EXPECT_GT(slots.generation(), generation);
}

// A held endpoint keeps its address; a new one gets another slot.
TEST(EndpointSlotsTest, SlotInUseIsNotReused) {
  const config::Upstream config = upstream(1);
  EndpointTable slots(config);
  EndpointView view(slots);
  (void)slots.replace(kName, std::vector{resolved(1)});
  view.refresh();
  const uint32_t first = slot_of(slots, view, resolved(1));
  view.hold(first);
  (void)slots.replace(kName, std::vector{resolved(2)});
  view.refresh();
  EXPECT_FALSE(view.is_present(first));
  EXPECT_EQ(slots.text(first), "10.0.0.1:80");
  // The other one of the two is still present when the third arrives, and there is no slot.
  const EndpointTable::Change change = slots.replace(kName, std::vector{resolved(3)});
  EXPECT_EQ(change.left_out, 1u);
  EXPECT_EQ(change.removed, 1u);
  view.refresh();
  view.let_go(first);
  EXPECT_EQ(slots.replace(kName, std::vector{resolved(3)}).added, 1u);
  EXPECT_EQ(slots.text(first), "10.0.0.3:80");
}

TEST(EndpointSlotsTest, SlotWaitsForEveryView) {
  const config::Upstream config = upstream(1);
  EndpointTable slots(config);
  EndpointView quick(slots);
  auto slow = std::make_unique<EndpointView>(slots);
  (void)slots.replace(kName, std::vector{resolved(1)});
  quick.refresh();
  slow->refresh();
  (void)slots.replace(kName, std::vector{resolved(2)});
  quick.refresh();
  (void)slots.replace(kName, std::vector{resolved(3)});
  quick.refresh();
  // Neither the first nor the second is known to be gone everywhere: the slow view may still choose the first.
  EXPECT_EQ(slots.replace(kName, std::vector{resolved(3)}).left_out, 1u);
  slow->refresh();
  EXPECT_EQ(slots.replace(kName, std::vector{resolved(3)}).added, 1u);
  slow.reset();  // A view that ends waits for nothing.
  EXPECT_EQ(slots.replace(kName, std::vector{resolved(4)}).added, 1u);
}

// An address that returns gets its old slot, with what is known of it.
TEST(EndpointSlotsTest, ReturningAddressGetsItsSlot) {
  const config::Upstream config = upstream(1);
  EndpointTable slots(config);
  EndpointView view(slots);
  (void)slots.replace(kName, std::vector{resolved(1)});
  view.refresh();
  const uint32_t slot = slot_of(slots, view, resolved(1));
  view.hold(slot);
  slots.state(slot).fails_in_a_row = 3;
  (void)slots.replace(kName, {});
  view.refresh();
  (void)slots.replace(kName, std::vector{resolved(1)});
  view.refresh();
  EXPECT_EQ(slot_of(slots, view, resolved(1)), slot);
  EXPECT_EQ(slots.state(slot).fails_in_a_row, 3u);
  view.let_go(slot);
  EXPECT_TRUE(view.is_present(slot));
}

TEST(EndpointSlotsTest, NewAddressHasNoHistory) {
  const config::Upstream config = upstream(1);
  EndpointTable slots(config);
  EndpointView view(slots);
  (void)slots.replace(kName, std::vector{resolved(1)});
  view.refresh();
  const uint32_t slot = slot_of(slots, view, resolved(1));
  slots.state(slot).fails_in_a_row = 3;
  slots.state(slot).down_until_ms = 1000;
  slots.state(slot).health.healthy = false;
  slots.state(slot).health.ejected_until_ms = 1000;
  const uint32_t incarnation = slots.state(slot).health.incarnation;
  (void)slots.replace(kName, {});
  EXPECT_FALSE(slots.state(slot).up(0));
  view.refresh();
  (void)slots.replace(kName, std::vector{resolved(2)}, 500);
  view.refresh();
  ASSERT_EQ(slot_of(slots, view, resolved(2)), slot);
  EXPECT_EQ(slots.state(slot).fails_in_a_row, 0u);
  EXPECT_TRUE(slots.state(slot).up(0));
  EXPECT_EQ(slots.state(slot).up_since_ms, 500u);
  EXPECT_NE(slots.state(slot).health.incarnation,
            incarnation);  // Late results about the old one do not count for the new one.
}

// A name server that changes the order of its records must not make endpoints come and go.
TEST(EndpointSlotsTest, WithoutRoomForAllTheSameStay) {
  const config::Upstream config = upstream(3);
  EndpointTable slots(config);
  EndpointView view(slots);
  EXPECT_EQ(slots.replace(kName, std::vector{resolved(1), resolved(2), resolved(3), resolved(4)}).left_out, 1u);
  const EndpointTable::Change change =
      slots.replace(kName, std::vector{resolved(4), resolved(3), resolved(2), resolved(1)});
  EXPECT_FALSE(change.any());
  EXPECT_EQ(change.left_out, 1u);
}

TEST(EndpointSlotsTest, NamesDoNotDisturbEachOther) {
  config::Upstream config;
  config.resolve.max_addresses = 2;
  config.endpoints = {{.address = where("a.test:80")}, {.address = where("b.test:80"), .weight = 1}};
  EndpointTable slots(config);
  EndpointView view(slots);
  (void)slots.replace(0, std::vector{resolved(1)});
  (void)slots.replace(1, std::vector{resolved(1), resolved(2)});
  view.refresh();
  EXPECT_THAT(texts(slots, view), UnorderedElementsAre("10.0.0.1:80", "10.0.0.1:80", "10.0.0.2:80"));
  (void)slots.replace(1, {});
  view.refresh();
  EXPECT_THAT(texts(slots, view), ElementsAre("10.0.0.1:80"));
  EXPECT_EQ(slots.configured(view.present()[0]), 0u);
}

// ---- Balancers ----

TEST(EndpointSlotsTest, BalancersFollow) {
  for (const config::Balance balance :
       {config::Balance::kRoundRobin, config::Balance::kLeastConnections, config::Balance::kLeastRequest,
        config::Balance::kRandom, config::Balance::kMaglev, config::Balance::kRingHash}) {
    config::Upstream config;
    config.balance = balance;
    config.endpoints = {{.address = where("a.test:80")}};
    UpstreamState state(config);
    Balancer balancer(state, 1);
    EXPECT_EQ(balancer.pick({}), std::nullopt);
    (void)state.slots().replace(0, std::vector{resolved(1), resolved(2)});
    std::vector<std::string> picked;
    for (int i = 0; i < 64; ++i) picked.push_back(state.slots().text(balancer.pick({}).value()));
    EXPECT_THAT(picked, ::testing::Contains("10.0.0.1:80"));
    EXPECT_THAT(picked, ::testing::Contains("10.0.0.2:80"));
    (void)state.slots().replace(0, std::vector{resolved(3)});
    EXPECT_EQ(state.slots().text(balancer.pick({}).value()), "10.0.0.3:80");
    (void)state.slots().replace(0, {});
    EXPECT_EQ(balancer.pick({}), std::nullopt);
  }
}

// The endpoint of a cookie may be gone since it was looked up.
TEST(EndpointSlotsTest, RemovedEndpointIsNotPreferred) {
  config::Upstream config;
  config.endpoints = {{.address = where("a.test:80")}};
  UpstreamState state(config);
  Balancer balancer(state, 1);
  (void)state.slots().replace(0, std::vector{resolved(1), resolved(2)});
  const uint32_t picked = balancer.pick({}).value();
  const bool first = state.slots().text(picked) == "10.0.0.1:80";
  EXPECT_EQ(balancer.pick({.preferred = picked}), picked);
  (void)state.slots().replace(0, std::vector{resolved(first ? 2 : 1)});
  const auto other = balancer.pick({.preferred = picked});
  EXPECT_NE(other, picked);
  EXPECT_EQ(state.slots().text(other.value()), first ? "10.0.0.2:80" : "10.0.0.1:80");
  EXPECT_EQ(balancer.counters().preferred_lost, 1u);
}

TEST(EndpointSlotsTest, PrioritiesAreThoseOfRecords) {
  config::Upstream config;
  config.endpoints = {{.address = where("a.test:80")}};
  UpstreamState state(config);
  Balancer balancer(state, 1);
  (void)state.slots().replace(0, std::vector{resolved(1, 1, 1), resolved(2, 1, 0)});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(state.slots().text(balancer.pick({}).value()), "10.0.0.2:80");
  (void)state.slots().replace(0, std::vector{resolved(1, 1, 0), resolved(2, 1, 1)});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(state.slots().text(balancer.pick({}).value()), "10.0.0.1:80");
}

// ---- Threads ----

// What a thread holds has the address for which it was chosen, however fast names change. Under TSan: nothing of a slot
// is written while another thread may read it.
TEST(EndpointSlotsTest, ThreadsSeeWhatTheyHold) {
  const config::Upstream config = upstream(4);
  EndpointTable slots(config);
  std::atomic<bool> over{false};
  std::atomic<uint64_t> wrong{0}, uses{0};
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 3; ++seed) {
    threads.emplace_back([&, seed] {
      struct Held {
        uint32_t slot;
        std::string text;
      };
      std::mt19937 random(seed);
      std::optional<EndpointView> view(slots);
      std::vector<Held> held;
      while (!over.load(std::memory_order_relaxed)) {
        view->refresh();
        const auto present = view->present();
        const uint32_t slot = present[random() % present.size()];
        held.push_back({slot, slots.address(slot).text()});
        view->hold(slot);
        slots.state(slot).active.fetch_add(1, std::memory_order_relaxed);
        if (held.size() > 5) {
          std::swap(held[random() % held.size()], held.back());
          const Held& last = held.back();
          wrong += slots.text(last.slot) != last.text || slots.address(last.slot).text() != last.text;
          slots.state(last.slot).active.fetch_sub(1, std::memory_order_relaxed);
          view->let_go(last.slot);
          held.pop_back();
          uses.fetch_add(1, std::memory_order_relaxed);
        }
        if (random() % 1024 == 0) {  // A view that ends, and another that begins.
          for (const Held& each : held) {
            slots.state(each.slot).active.fetch_sub(1, std::memory_order_relaxed);
            view->let_go(each.slot);
          }
          held.clear();
          view.reset();
          view.emplace(slots);
        }
      }
      for (const Held& each : held) view->let_go(each.slot);
    });
  }
  std::mt19937 random(99);
  uint32_t added = 0;
  for (int round = 0; round < 20'000 || (uses < 1000 && round < 10'000'000); ++round) {
    std::vector<ResolvedEndpoint> now;
    for (auto i = random() % 5; i > 0; --i)
      now.push_back(resolved(static_cast<int>(random() % 12), static_cast<uint32_t>(1 + random() % 3)));
    added += slots.replace(kName, now).added;
    if (round % 64 == 0) std::this_thread::yield();
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(added, 100u);
}

}  // namespace
}  // namespace sluice
