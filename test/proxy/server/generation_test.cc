#include "proxy/server/generation.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

config::Upstream upstream(const std::string& name, const std::vector<std::string>& addresses) {
  config::Upstream upstream{.name = name};
  for (const std::string& address : addresses) {
    upstream.endpoints.push_back({.address = config::EndpointAddress::parse(address).value()});
  }
  return upstream;
}

config::Listener listener(const std::string& name, const std::string& forward) {
  config::Listener listener{.name = name};
  listener.tcp.emplace().forward = forward;
  return listener;
}

// Two listeners, and an upstream for each.
config::Config configuration() {
  config::Config config;
  config.listeners = {listener("a", "x"), listener("b", "y")};
  config.upstreams = {upstream("x", {"127.0.0.1:1", "127.0.0.1:2"}), upstream("y", {"127.0.0.1:3"})};
  return config;
}

TEST(GenerationTest, UnchangedPartsAreShared) {
  const Generation first(configuration(), 1);
  config::Config config = configuration();
  config.listeners[0].max_connections = 7;
  config.listeners.push_back(listener("c", "x"));
  const Generation second(config, first);
  EXPECT_EQ(second.upstreams, first.upstreams);
  EXPECT_NE(second.listeners[0], first.listeners[0]);
  EXPECT_EQ(second.listeners[0]->limits, first.listeners[0]->limits);
  EXPECT_EQ(second.listeners[1], first.listeners[1]);
  EXPECT_NE(second.listeners[2]->limits, first.listeners[0]->limits);
  EXPECT_TRUE(second.has(*first.listeners[1]));
  EXPECT_FALSE(second.has(*first.listeners[0]));
}

// Only an operator with an admin listener can add endpoints, so there are no places for them without one.
TEST(GenerationTest, PlacesForAddedEndpoints) {
  config::Config config = configuration();
  const Generation without(config, 1);
  EXPECT_EQ(without.upstreams[0]->slots().added_slots(), 0u);
  config.admin.emplace();
  const Generation with(config, without);
  EXPECT_NE(with.upstreams[0], without.upstreams[0]);
  EXPECT_EQ(with.upstreams[0]->slots().added_slots(), EndpointTable::kAddedSlots);
  EXPECT_EQ(with.counters[0]->upstreams[0].size(), 2 + EndpointTable::kAddedSlots);
  EXPECT_EQ(with.counters[0]->upstreams[0][1], without.counters[0]->upstreams[0][1]);
  EXPECT_NE(with.counters[0]->balancers[0], without.counters[0]->balancers[0]);
  const Generation same(config, with);
  EXPECT_EQ(same.upstreams, with.upstreams);
  EXPECT_EQ(same.counters[0]->upstreams[0], with.counters[0]->upstreams[0]) << "added endpoints go on counting";
  config.admin.reset();
  const Generation again(config, same);
  EXPECT_EQ(again.upstreams[0]->size(), 2u);
  EXPECT_EQ(again.counters[0]->upstreams[0].size(), 2u);
}

config::RateLimit rate_limit(const std::string& name, const std::string& rate) {
  return {.name = name, .rate = config::Rate::parse(rate).value()};
}

// What a limit counts is kept as long as it counts the same, and a listener as long as its limits are the same.
TEST(GenerationTest, RateLimitsGoOnCounting) {
  config::Config config = configuration();
  config.rate_limits = {rate_limit("x", "1/s"), rate_limit("y", "1/s"), rate_limit("z", "1/s")};
  config.listeners[0].connection_rate_limits = {"y"};
  config.listeners[1].connection_rate_limits = {"x"};
  const Generation first(config, 1);
  config.rate_limits = {rate_limit("y", "1/s"), rate_limit("x", "1/s"), rate_limit("z", "2/s")};
  config.rate_limits[1].dry_run = true;
  const Generation second(config, first);
  EXPECT_EQ(second.rate_limits[0], first.rate_limits[1]);
  EXPECT_NE(second.rate_limits[1], first.rate_limits[0]);
  EXPECT_EQ(&second.rate_limits[1]->table(), &first.rate_limits[0]->table());
  EXPECT_NE(&second.rate_limits[2]->table(), &first.rate_limits[2]->table());
  EXPECT_EQ(second.listeners[0], first.listeners[0]);
  EXPECT_NE(second.listeners[1], first.listeners[1]);
  EXPECT_EQ(second.counters[0]->rate_limits[2], first.counters[0]->rate_limits[2]);
  EXPECT_EQ(second.counters[0]->rate_limits[0], first.counters[0]->rate_limits[1]);
}

TEST(GenerationTest, NamesIdentifyNotPositions) {
  const Generation first(configuration(), 1);
  config::Config config = configuration();
  std::swap(config.listeners[0], config.listeners[1]);
  std::swap(config.upstreams[0], config.upstreams[1]);
  const Generation second(config, first);
  EXPECT_EQ(second.upstreams[0], first.upstreams[1]);
  EXPECT_EQ(second.upstreams[1], first.upstreams[0]);
  // Their routes have the indices of the first configuration, and so have their acceptors.
  EXPECT_EQ(second.listeners[0], first.listeners[1]);
  EXPECT_EQ(second.counters[0]->listeners[0], first.counters[0]->listeners[1]);
  EXPECT_EQ(second.counters[0]->upstreams[0], first.counters[0]->upstreams[1]);
  EXPECT_EQ(second.counters[0]->balancers[1], first.counters[0]->balancers[0]);
}

// Routes have indices of upstreams, so no listener is kept when one of these has another state.
TEST(GenerationTest, ListenersFollowUpstreams) {
  const Generation first(configuration(), 2);
  config::Config config = configuration();
  config.upstreams[1].connect_timeout = std::chrono::seconds(1);
  const Generation second(config, first);
  EXPECT_EQ(second.upstreams[0], first.upstreams[0]);
  EXPECT_NE(second.upstreams[1], first.upstreams[1]);
  for (size_t i = 0; i < 2; ++i) EXPECT_NE(second.listeners[i], first.listeners[i]);
}

// Whether [::] accepts IPv4 depends on other listeners, and its socket must be another one then.
TEST(GenerationTest, ListenersFollowTheFamiliesOfTheirAddresses) {
  config::Config config = configuration();
  config.listeners[0].addresses = {config::Address::parse("[::]:80").value()};
  config.listeners[1].addresses = {config::Address::parse("0.0.0.0:81").value()};
  const Generation first(config, 1);
  config.listeners[1].addresses = {config::Address::parse("0.0.0.0:80").value()};
  const Generation second(config, first);
  EXPECT_NE(second.listeners[0], first.listeners[0]);
  config.listeners[1].max_connections = 1;
  const Generation third(config, second);
  EXPECT_EQ(third.listeners[0], second.listeners[0]);
}

TEST(GenerationTest, EndpointsKeepCountersByAddress) {
  const Generation first(configuration(), 1);
  config::Config config = configuration();
  config.upstreams[0] = upstream("x", {"127.0.0.1:9", "127.0.0.1:2"});
  config.upstreams[1].name = "z";
  config.listeners[1].tcp->forward = "z";
  const Generation second(config, first);
  const WorkerCounters &before = *first.counters[0], &now = *second.counters[0];
  EXPECT_EQ(now.gauges, before.gauges);
  EXPECT_EQ(now.upstreams[0][1], before.upstreams[0][1]);
  EXPECT_NE(now.upstreams[0][0], before.upstreams[0][0]);
  EXPECT_NE(now.http_upstreams[0], before.http_upstreams[0]) << "it is another pool";
  EXPECT_NE(now.upstreams[1][0], before.upstreams[1][0]) << "it is an endpoint of another upstream";
  EXPECT_EQ(now.listeners[1], before.listeners[1]);
}

TEST(GenerationTest, FilesOfErrorPagesMayHaveChanged) {
  config::Config config = configuration();
  config.listeners[0].tcp.reset();
  config.listeners[0].http.emplace().forward = "x";
  config.listeners[0].http->errors.emplace_back();
  const Generation first(config, 1);
  const Generation second(config, first);
  EXPECT_NE(second.listeners[0], first.listeners[0]);
  EXPECT_EQ(second.listeners[1], first.listeners[1]);
}

}  // namespace
}  // namespace sluice
