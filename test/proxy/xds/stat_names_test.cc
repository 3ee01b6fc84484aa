#include "proxy/xds/stat_names.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proxy/config/load/yaml.h"

namespace sluice::xds {
namespace {

config::Node read(const std::string& text) {
  config::Node root;
  config::YamlBudget budget;
  config::Report report("test");
  EXPECT_TRUE(config::parse_yaml(text, 0, budget, root, report)) << report.status();
  return root;
}

std::string filter(const std::string& type, const std::string& prefix) {
  return absl::StrCat("{ filters: [ { typed_config: { \"@type\": type.googleapis.com/", type, ", stat_prefix: ", prefix,
                      " } } ] }");
}

const std::string kManager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const std::string kProxy = "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";

std::string listener(const std::string& host, const std::string& chains) {
  return absl::StrCat("{ address: { socket_address: { address: \"", host, "\", port_value: 80 } }, ", chains, " }");
}

TEST(StatNames, PrefixesByAddress) {
  StatNames names;
  names.add_listener(read(listener(
      "0.0.0.0", absl::StrCat("filter_chains: [ ", filter(kManager, "a"), ", ", filter(kManager, "a"), " ]"))));
  names.add_listener(read(listener("::", absl::StrCat("default_filter_chain: ", filter(kProxy, "b")))));
  EXPECT_EQ(names.http_prefixes.at("0.0.0.0:80"), "a");
  EXPECT_FALSE(names.tcp_prefixes.contains("0.0.0.0:80"));
  EXPECT_EQ(names.tcp_prefixes.at("[::]:80"), "b");
}

TEST(StatNames, CamelCase) {
  StatNames names;
  const std::string text = listener("127.0.0.1", absl::StrCat("filter_chains: [ ", filter(kManager, "a"), " ]"));
  names.add_listener(read(absl::StrReplaceAll(text, {{"filter_chains", "filterChains"},
                                                     {"typed_config", "typedConfig"},
                                                     {"stat_prefix", "statPrefix"},
                                                     {"socket_address", "socketAddress"},
                                                     {"port_value", "portValue"}})));
  EXPECT_EQ(names.http_prefixes.at("127.0.0.1:80"), "a");
}

// Sluice cannot say which of them a connection is of.
TEST(StatNames, DifferentPrefixesOfOneListener) {
  StatNames names;
  names.add_listener(read(listener("0.0.0.0", absl::StrCat("filter_chains: [ ", filter(kManager, "a"), ", ",
                                                           filter(kManager, "b"), ", ", filter(kProxy, "c"), " ]"))));
  EXPECT_EQ(names.http_prefixes.at("0.0.0.0:80"), "");
  EXPECT_EQ(names.tcp_prefixes.at("0.0.0.0:80"), "c");
}

TEST(StatNames, WithoutAnAddress) {
  StatNames names;
  names.add_listener(read("{ name: x }"));
  names.add_listener(read(listener("nonsense", absl::StrCat("filter_chains: [ ", filter(kManager, "a"), " ]"))));
  EXPECT_TRUE(names.http_prefixes.empty());
}

}  // namespace
}  // namespace sluice::xds
