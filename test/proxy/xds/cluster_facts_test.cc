#include "proxy/xds/cluster_facts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace sluice::xds {
namespace {

config::Node tree_of(std::string_view yaml) {
  config::Node root;
  config::YamlBudget budget;
  config::Report report("test");
  EXPECT_TRUE(config::parse_yaml(yaml, 0, budget, root, report)) << report.status();
  return root;
}

void add(ResourceStore& store, ResourceKind kind, const std::string& name, std::string_view yaml) {
  auto made = std::make_shared<Resource>();
  made->name = name;
  made->tree = tree_of(yaml);
  store.of(kind)[name] = made;
}

TEST(ClusterFacts, OfStaticAndDynamicClusters) {
  Bootstrap bootstrap{.of_service = config::Config()};
  const config::Node fixed = tree_of(
      "{ name: fixed, loadAssignment: { endpoints: [ { lbEndpoints: [ { endpoint: { address: { socketAddress: { "
      "address: \"::1\", portValue: 80 } } } } ] } ] } }");
  bootstrap.resources.clusters.push_back(&fixed);
  ResourceStore store;
  add(store, ResourceKind::kCluster, "eds",
      "{ name: eds, type: EDS, eds_cluster_config: { service_name: s }, lrs_server: { self: {} } }");
  add(store, ResourceKind::kCluster, "alone", "{ name: alone, type: EDS }");
  add(store, ResourceKind::kEndpoints, "s",
      "{ cluster_name: s, endpoints: [ { locality: { region: r, zone: z, sub_zone: u }, priority: 2, lb_endpoints: [ "
      "{ endpoint: { address: { socket_address: { address: 10.0.0.1, port_value: 80 } } } }, "
      "{ endpoint: { address: { pipe: { path: /a } } } } ] } ] }");
  const ClusterTable table = cluster_table(bootstrap, store, {{"eds", "eds-1"}});
  ASSERT_EQ(table.size(), 3U);
  const ClusterFacts& eds = table.at("eds");
  EXPECT_EQ(eds.upstream, "eds-1");
  EXPECT_EQ(eds.service_name, "s");
  EXPECT_TRUE(eds.wants_reports);
  EXPECT_FALSE(eds.is_static);
  const EndpointLocality place{.region = "r", .zone = "z", .sub_zone = "u", .priority = 2};
  ASSERT_EQ(eds.places.size(), 2U);
  EXPECT_EQ(eds.places.at("10.0.0.1:80"), place);
  EXPECT_EQ(eds.places.at("unix:/a"), place);
  const ClusterFacts& of_file = table.at("fixed");
  EXPECT_TRUE(of_file.is_static);
  EXPECT_FALSE(of_file.wants_reports);
  EXPECT_EQ(of_file.upstream, "");
  EXPECT_TRUE(of_file.places.contains("[::1]:80"));
  EXPECT_TRUE(table.at("alone").places.empty());
}

}  // namespace
}  // namespace sluice::xds
