#include "proxy/config/model/listen_address.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/config/model/config.h"

namespace sluice::config {
namespace {

Listener listener_at(const std::vector<std::string>& addresses) {
  Listener listener;
  for (const std::string& text : addresses) listener.addresses.push_back(Address::parse(text).value());
  return listener;
}

// The addresses that accept both families, by their texts.
std::vector<std::string> both_families(const Config& config, size_t listener) {
  std::vector<std::string> texts;
  for (const ListenAddress& each : ListenAddresses(config).of(config.listeners[listener])) {
    if (each.both_families) texts.push_back(each.address.text());
  }
  return texts;
}

TEST(ListenAddresses, AllAddressesOfIp6AcceptIp4) {
  const Config config{.listeners = {listener_at({"[::]:80", "[::1]:81", "127.0.0.1:82", "unix:/a", "[::]:83"})}};
  EXPECT_EQ(both_families(config, 0), (std::vector<std::string>{"[::]:80", "[::]:83"}));
  EXPECT_EQ(ListenAddresses(config).of(config.listeners[0]).size(), 5);
}

TEST(ListenAddresses, NotWhereAnIp4AddressHasThePort) {
  for (const std::string other : {"0.0.0.0:80", "127.0.0.1:80"}) {
    const Config within{.listeners = {listener_at({"[::]:80", "[::]:81", other})}};
    EXPECT_EQ(both_families(within, 0), (std::vector<std::string>{"[::]:81"})) << other;
    const Config between{.listeners = {listener_at({"[::]:80"}), listener_at({other})}};
    EXPECT_TRUE(both_families(between, 0).empty()) << other;
  }
  // These have other ports, whatever they are.
  const Config chosen{.listeners = {listener_at({"[::]:0", "0.0.0.0:0"})}};
  EXPECT_EQ(both_families(chosen, 0), (std::vector<std::string>{"[::]:0"}));
}

TEST(ListenAddresses, NotWithIp6Only) {
  Config config{.listeners = {listener_at({"[::]:80"}), listener_at({"[::]:81"})}};
  config.listeners[0].ipv6_only = true;
  EXPECT_TRUE(both_families(config, 0).empty());
  EXPECT_EQ(both_families(config, 1), (std::vector<std::string>{"[::]:81"}));
}

}  // namespace
}  // namespace sluice::config
