#include "proxy/xds/cluster_wait.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proxy/config/load/yaml.h"

namespace sluice::xds {
namespace {

ResourcePointer resource(std::string_view name, const std::string& yaml) {
  auto made = std::make_shared<Resource>();
  made->name = std::string(name);
  config::YamlBudget budget;
  config::Report report("test");
  EXPECT_TRUE(config::parse_yaml(yaml, 0, budget, made->tree, report)) << report.status();
  return made;
}

ResourcePointer routes_to(std::string_view cluster) {
  return resource("all", absl::StrCat("{name: all, virtual_hosts: [{routes: [{route: {cluster: ", cluster, "}}]}]}"));
}

// What is in use: a listener, whose routes forward to the cluster `one`.
class ClusterWaitTest : public testing::Test {
 protected:
  ClusterWaitTest() {
    in_use_.of(ResourceKind::kListener)["web"] =
        resource("web", "{name: web, rds: {config_source: {ads: {}}, route_config_name: all}}");
    in_use_.of(ResourceKind::kRoutes)["all"] = routes_to("one");
    add_cluster(in_use_, "one");
    newest_ = in_use_;
  }

  static void add_cluster(ResourceStore& store, const std::string& name) {
    store.of(ResourceKind::kCluster)[name] =
        resource(name, absl::StrCat("{name: ", name, ", type: EDS, eds_cluster_config: {}}"));
    store.of(ResourceKind::kEndpoints)[name] = resource(name, absl::StrCat("{cluster_name: ", name, "}"));
  }
  void set_routes(const ResourcePointer& routes) { newest_.of(ResourceKind::kRoutes)["all"] = routes; }
  // What is in use then.
  void apply(uint64_t now_ms) {
    ResourceStore ready = newest_;
    wait_.put_off(in_use_, {"static"}, now_ms, ready);
    wait_.commit();
    in_use_ = ready;
  }
  ResourcePointer routes_in_use() const { return in_use_.find(ResourceKind::kRoutes, "all"); }

  ClusterWait wait_;
  ResourceStore in_use_, newest_;
};

TEST_F(ClusterWaitTest, RoutesWaitForANewCluster) {
  const ResourcePointer before = routes_in_use(), after = routes_to("two");
  set_routes(after);
  apply(1000);
  EXPECT_EQ(routes_in_use(), before);
  EXPECT_EQ(wait_.size(), 1U);
  EXPECT_EQ(wait_.due_ms(), 1000 + ClusterWait::kMaxMs);
  add_cluster(newest_, "two");
  apply(2000);
  EXPECT_EQ(routes_in_use(), after);
  EXPECT_EQ(wait_.size(), 0U);
  EXPECT_EQ(wait_.due_ms(), std::nullopt);
  EXPECT_EQ(wait_.timeouts(), 0U);
}

TEST_F(ClusterWaitTest, RoutesDoNotWaitForWhatIsThere) {
  add_cluster(newest_, "two");
  for (const std::string_view cluster : {"two", "static", "one"}) {
    const ResourcePointer after = routes_to(cluster);
    set_routes(after);
    apply(1000);
    EXPECT_EQ(routes_in_use(), after) << cluster;
  }
}

TEST_F(ClusterWaitTest, TheBoundCountsFromTheFirstVersion) {
  const ResourcePointer before = routes_in_use();
  set_routes(routes_to("two"));
  apply(1000);
  const ResourcePointer after = routes_to("three");
  set_routes(after);
  apply(1000 + ClusterWait::kMaxMs - 1);
  EXPECT_EQ(routes_in_use(), before);
  apply(1000 + ClusterWait::kMaxMs);
  EXPECT_EQ(routes_in_use(), after);
  EXPECT_EQ(wait_.timeouts(), 1U);
  EXPECT_EQ(wait_.size(), 0U);
  // The next version names the same missing cluster.
  const ResourcePointer next = routes_to("three");
  set_routes(next);
  apply(2000 + ClusterWait::kMaxMs);
  EXPECT_EQ(routes_in_use(), next);
}

TEST_F(ClusterWaitTest, WithoutACommitTheWaitHasNotBegun) {
  set_routes(routes_to("two"));
  ResourceStore ready = newest_;
  wait_.put_off(in_use_, {}, 1000, ready);
  EXPECT_TRUE(wait_.has_news());
  EXPECT_EQ(wait_.size(), 0U);
  apply(2000);
  EXPECT_EQ(wait_.due_ms(), 2000 + ClusterWait::kMaxMs);
  ready = newest_;
  wait_.put_off(in_use_, {}, 3000, ready);
  EXPECT_FALSE(wait_.has_news());
}

TEST_F(ClusterWaitTest, ARemovedClusterStaysForRoutesThatLeaveIt) {
  set_routes(routes_to("two"));
  newest_.of(ResourceKind::kCluster).clear();
  newest_.of(ResourceKind::kEndpoints).clear();
  apply(1000);
  EXPECT_NE(in_use_.find(ResourceKind::kCluster, "one"), nullptr);
  EXPECT_NE(in_use_.find(ResourceKind::kEndpoints, "one"), nullptr);
  add_cluster(newest_, "two");
  apply(2000);
  EXPECT_EQ(in_use_.find(ResourceKind::kCluster, "one"), nullptr);
}

TEST_F(ClusterWaitTest, ARemovedClusterIsGoneAtOnce) {
  newest_.of(ResourceKind::kCluster).clear();
  apply(1000);
  EXPECT_EQ(in_use_.find(ResourceKind::kCluster, "one"), nullptr);
  // Nor does a version that names it wait for it.
  const ResourcePointer after =
      resource("all", "{virtual_hosts: [{routes: [{route: {cluster: one}}, {redirect: {}}]}]}");
  set_routes(after);
  apply(1000);
  EXPECT_EQ(routes_in_use(), after);
}

TEST_F(ClusterWaitTest, AListenerWaitsForItsOwnRoutes) {
  const ResourcePointer before = in_use_.find(ResourceKind::kListener, "web");
  for (const std::string_view yaml :
       {"{route_config: {virtual_hosts: [{routes: [{route: {weighted_clusters: {clusters: [{name: two}]}}}]}]}}",
        "{filters: [{typed_config: {'@type': x/a.TcpProxy, cluster: two}}]}",
        "{rds: {config_source: {}, route_config_name: other}}"}) {
    newest_.of(ResourceKind::kListener)["web"] = resource("web", std::string(yaml));
    newest_.of(ResourceKind::kRoutes)["other"] = routes_to("two");
    newest_.of(ResourceKind::kRoutes).erase("all");
    apply(1000);
    EXPECT_EQ(in_use_.find(ResourceKind::kListener, "web"), before) << yaml;
    EXPECT_NE(routes_in_use(), nullptr) << yaml;
  }
}

TEST_F(ClusterWaitTest, RoutesThatNobodyUsesDoNotWait) {
  in_use_.of(ResourceKind::kListener).clear();
  newest_.of(ResourceKind::kListener).clear();
  const ResourcePointer after = routes_to("two");
  set_routes(after);
  apply(1000);
  EXPECT_EQ(routes_in_use(), after);
}

}  // namespace
}  // namespace sluice::xds
