// Listeners that share their addresses: what they must have in common, and which of them accepts.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/model/address_groups.h"

namespace sluice::config {
namespace {

using Role = AddressGroups::Role;

constexpr std::string_view kTls = "tls: { certificates: [ { chain: c, key: k } ] }";

// A listener of TCP. `rest` begins with a comma, unless it is empty.
std::string listener(std::string_view name, std::string_view address, std::string_view rest = "") {
  return absl::StrCat("  - { name: ", name, ", address: ", address, ", tcp: { forward: u }", rest, " }\n");
}

std::string config_text(const std::vector<std::string>& listeners) {
  std::string text = "listeners:\n";
  for (const std::string& each : listeners) text += each;
  return text + "upstreams: [ { name: u, endpoints: [ 127.0.0.1:1 ] } ]\n";
}

std::string errors_of(const std::vector<std::string>& listeners) {
  return std::string(load_text(config_text(listeners), "f").status().message());
}

std::vector<Role> roles_of(const std::vector<std::string>& listeners) {
  const absl::StatusOr<Config> config = load_text(config_text(listeners), "f");
  EXPECT_TRUE(config.ok()) << config.status();
  std::vector<Role> roles;
  if (!config.ok()) return roles;
  const AddressGroups groups(config->listeners);
  for (size_t i = 0; i < config->listeners.size(); ++i) roles.push_back(groups.role(i));
  return roles;
}

TEST(Sharing, TheListenerWithoutNamesAccepts) {
  EXPECT_EQ(roles_of({listener("a", "1.1.1.1:1", ", server_names: a.test"), listener("rest", "1.1.1.1:1"),
                      listener("other", "1.1.1.1:2")}),
            (std::vector<Role>{Role::kShares, Role::kAccepts, Role::kAlone}));
}

TEST(Sharing, OrElseTheFirst) {
  EXPECT_EQ(roles_of({listener("a", "1.1.1.1:1", ", server_names: a.test"),
                      listener("b", "1.1.1.1:1", ", server_names: [ b.test, \"*.a.test\" ]")}),
            (std::vector<Role>{Role::kAccepts, Role::kShares}));
}

TEST(Sharing, OneWithNamesMayBeAlone) {
  EXPECT_EQ(roles_of({listener("a", "1.1.1.1:1", ", server_names: a.test")}), (std::vector<Role>{Role::kAccepts}));
}

TEST(Sharing, TheOrderOfAddressesDoesNotMatter) {
  EXPECT_EQ(roles_of({listener("a", "[ 1.1.1.1:1, \"unix:/s\" ]", ", server_names: a.test"),
                      listener("rest", "[ \"unix:/s\", 1.1.1.1:1 ]")}),
            (std::vector<Role>{Role::kShares, Role::kAccepts}));
}

// The kernel chooses another port for each.
TEST(Sharing, Port0IsNeverTheSame) {
  EXPECT_EQ(roles_of({listener("a", "1.1.1.1:0", ", server_names: a.test"), listener("b", "1.1.1.1:0")}),
            (std::vector<Role>{Role::kAccepts, Role::kAlone}));
}

TEST(Sharing, NeedsNames) {
  EXPECT_EQ(errors_of({listener("a", "1.1.1.1:1"), listener("b", "1.1.1.1:1")}),
            "f:3:25: listeners[1].address: 1.1.1.1:1 is already the address of listeners[0] (2:5); give all but one of "
            "the listeners at an address `server_names`");
  EXPECT_EQ(errors_of({listener("a", "1.1.1.1:1", ", server_names: a.test"), listener("b", "1.1.1.1:1"),
                       listener("c", "1.1.1.1:1")}),
            "f:4:25: listeners[2].address: neither this listener nor listeners[1] (3:5), which has the same address, "
            "has `server_names`; give them to all but one");
}

TEST(Sharing, NeedsAllAddresses) {
  EXPECT_EQ(
      errors_of({listener("a", "[ 1.1.1.1:1, 1.1.1.1:2 ]", ", server_names: a.test"), listener("b", "1.1.1.1:1")}),
      "f:3:25: listeners[1].address: 1.1.1.1:1 is already the address of listeners[0] (2:5); listeners that share "
      "an address must have all their addresses in common");
}

TEST(Sharing, EachNameOnce) {
  EXPECT_EQ(errors_of({listener("a", "1.1.1.1:1", ", server_names: [ a.test, A.test ]"),
                       listener("b", "1.1.1.1:1", ", server_names: [ b.test, a.test ]")}),
            "f:2:81: listeners[0].server_names[1]: \"a.test\" is listed twice\n"
            "f:3:81: listeners[1].server_names[1]: \"a.test\" is already a name of listeners[0] (2:5), which has the "
            "same address");
}

TEST(Sharing, NamesNeedTls) {
  const std::string http = "  - { name: a, address: 1.1.1.1:1, server_names: a.test, http: { forward: u } }\n";
  EXPECT_EQ(errors_of({http}),
            "f:2:50: listeners[0].server_names: needs `tls`: without it, clients of `http` send no server name");
  const std::string rest = "  - { name: rest, address: 1.1.1.1:1, http: { forward: u } }\n";
  EXPECT_EQ(errors_of({listener("a", "1.1.1.1:1", absl::StrCat(", server_names: a.test, ", kTls)), rest}), "");
}

TEST(Sharing, NotWithAlts) {
  EXPECT_NE(errors_of({listener("a", "1.1.1.1:1", ", server_names: a.test, alts: { handshaker: \"h:1\" }")})
                .find("listeners[0].alts: ALTS has no server names"),
            std::string::npos);
}

// One socket accepts for all of them.
TEST(Sharing, OptionsOfTheSocketAreTheSame) {
  for (const std::string_view option : {"backlog: 5", "nodelay: false", "keepalive: { idle: 1s }",
                                        "proxy_protocol: { accept: required }", "connection_rate_limits: [ r ]"}) {
    const std::string key(option.substr(0, option.find(':')));
    const std::string errors = errors_of({listener("a", "1.1.1.1:1", ", server_names: a.test"),
                                          listener("b", "1.1.1.1:1", absl::StrCat(", ", option)),
                                          "rate_limits: [ { name: r, rate: 1/s, key: { source: true } } ]\n"});
    EXPECT_NE(errors.find(absl::StrCat("listeners[1].", key,
                                       ": must be the same as that of listeners[0] (2:5), which has the same address")),
              std::string::npos)
        << errors;
  }
}

TEST(Sharing, GroupsOfOtherConfigurationsHaveTheSameKey) {
  const auto key = [](const std::vector<std::string>& listeners, size_t index) {
    return AddressGroups(load_text(config_text(listeners), "f")->listeners).key_of(index);
  };
  EXPECT_EQ(key({listener("a", "1.1.1.1:1")}, 0),
            key({listener("b", "1.1.1.1:2"), listener("c", "1.1.1.1:1", ", server_names: a.test")}, 1));
  EXPECT_NE(key({listener("a", "1.1.1.1:0")}, 0), key({listener("b", "1.1.1.1:0")}, 0));
}

}  // namespace
}  // namespace sluice::config
