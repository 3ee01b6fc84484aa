// Mapping and PartsLoader, which do again only what has changed, give what map_to_tree() and load_tree() give of
// everything.
#include "proxy/envoy/mapping.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/config/load/loader.h"
#include "proxy/config/load/print.h"
#include "proxy/config/load/yaml.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {
namespace {

constexpr std::string_view kCluster = "envoy.config.cluster.v3.Cluster";
constexpr std::string_view kEndpoints = "envoy.config.endpoint.v3.ClusterLoadAssignment";
constexpr std::string_view kListener = "envoy.config.listener.v3.Listener";
constexpr std::string_view kRoutes = "envoy.config.route.v3.RouteConfiguration";
constexpr std::string_view kSecret = "envoy.extensions.transport_sockets.tls.v3.Secret";
constexpr std::string_view kExtension = "type.googleapis.com/envoy.extensions.";

using Tree = std::shared_ptr<const config::Node>;
// By type and name.
using Resources = std::map<std::pair<std::string_view, std::string>, Tree>;

Tree tree_of(const std::string& yaml) {
  config::Report report("test");
  config::YamlBudget budget{.depth = 64, .has_variables = false};
  auto root = std::make_shared<config::Node>();
  EXPECT_TRUE(config::parse_yaml(yaml, 0, budget, *root, report)) << report.status() << "\n" << yaml;
  return root;
}

ResourceSet set_of(const Resources& resources) {
  ResourceSet set;
  set.may_follow = true;
  for (const auto& [key, tree] : resources) set.add(key.first, *tree);
  return set;
}

std::string text_of(const Findings& findings) {
  return absl::StrCat(absl::StrJoin(findings.list(), "\n",
                                    [](std::string* out, const Finding& each) { absl::StrAppend(out, each.text()); }),
                      "\n", findings.left_out(), " ", findings.count(Severity::kRefused), " ",
                      findings.count(Severity::kIgnored));
}

std::string text_of(const absl::StatusOr<config::Config>& config) {
  return config.ok() ? config::print_config(*config) : std::string(config.status().message());
}

// Changes resources at random, to what is right and to what is not.
class RandomResources {
 public:
  explicit RandomResources(unsigned seed) : random_(seed) {}

  const Resources& resources() const { return resources_; }
  void fill() {
    for (int i = 0; i < kNames; ++i) {
      put(kCluster, name(i), cluster(i));
      put(kEndpoints, name(i), endpoints(i));
    }
    for (const std::string_view table : {"one", "two"}) put(kRoutes, std::string(table), routes(table));
    for (int i = 0; i < 3; ++i) put(kListener, absl::StrCat("web-", i), listener(i));
    put(kSecret, "ca", secret());
  }
  void change() {
    const int i = below(kNames);
    switch (below(9)) {
      case 0:
        return put(kCluster, name(i), cluster(i));
      case 1:
      case 2:
        return put(kEndpoints, name(i), endpoints(i));
      case 3:
        return put(kRoutes, one_in(2) ? "one" : "two", routes(one_in(2) ? "one" : "two"));
      case 4:
        return put(kListener, absl::StrCat("web-", i % 3), listener(i % 3));
      case 5:
        return put(kSecret, "ca", secret());
      case 6:
        resources_.erase({kCluster, name(i)});
        return;
      case 7:
        resources_.erase({kEndpoints, name(i)});
        return;
      default:
        resources_.erase(one_in(2) ? std::pair(kSecret, std::string("ca"))
                                   : std::pair(kListener, absl::StrCat("web-", i % 3)));
    }
  }

 private:
  static constexpr int kNames = 9;

  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random_); }
  bool one_in(int count) { return below(count) == 0; }
  void put(std::string_view type, const std::string& name, const std::string& yaml) {
    resources_[{type, name}] = tree_of(yaml);
  }
  // Some become the same name, but for what makes it unique.
  static std::string name(int index) {
    static constexpr std::string_view kSome[] = {"c/0", "c:0", "c-0", "c_0"};
    return index < 4 ? std::string(kSome[index]) : absl::StrCat("cluster-", index);
  }
  std::string any_cluster() { return one_in(8) ? "none" : name(below(kNames)); }

  std::string cluster(int index) {
    std::string yaml = absl::StrCat("{ name: \"", name(index), "\", type: EDS, connect_timeout: ", 1 + below(3),
                                    "s, eds_cluster_config: { eds_config: { ads: {} } }");
    if (one_in(3)) yaml += ", http2_protocol_options: {}";
    if (one_in(3))
      absl::StrAppend(&yaml, ", lb_policy: ", one_in(2) ? "RING_HASH" : one_in(3) ? "CLUSTER_PROVIDED" : "RANDOM");
    if (one_in(6)) yaml += ", alt_stat_name: x, unknown_field: 1";
    if (one_in(8)) yaml += ", health_checks: [ { timeout: 1s, interval: 5s, http_health_check: { path: no } } ]";
    if (one_in(4)) {
      absl::StrAppend(
          &yaml, ", transport_socket: { name: tls, typed_config: { \"@type\": ", kExtension,
          "transport_sockets.tls.v3.UpstreamTlsContext, ", one_in(2) ? "sni: a.test, " : "",
          "common_tls_context: { validation_context_sds_secret_config: { name: ca, sds_config: { ads: {} } } } } }");
    } else if (one_in(4)) {
      absl::StrAppend(&yaml, ", transport_socket: { name: proxy, typed_config: { \"@type\": ", kExtension,
                      "transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport, transport_socket: { name: "
                      "envoy.transport_sockets.raw_buffer } } }");
    }
    return yaml + " }";
  }
  std::string endpoints(int index) {
    std::string list;
    const int count = below(4);
    for (int i = 0; i < count; ++i) {
      // Some have the same address twice, which the loader refuses, or one that it does not take.
      const std::string host = one_in(12) ? "a.test" : absl::StrCat("10.0.0.", one_in(12) ? 1 : i + 1);
      absl::StrAppend(&list, i == 0 ? "" : ", ", "{ endpoint: { ", one_in(6) ? "hostname: h.test, " : "",
                      "address: { socket_address: { address: ", host, ", port_value: ", one_in(15) ? 0 : 80,
                      " } } } }");
    }
    return absl::StrCat("{ cluster_name: \"", name(index), "\", endpoints: [ { lb_endpoints: [ ", list, " ] } ] }");
  }
  std::string route(int index) {
    std::string action = absl::StrCat("cluster: \"", any_cluster(), "\"");
    if (one_in(4)) {
      action = absl::StrCat("weighted_clusters: { clusters: [ { name: \"", any_cluster(), "\", weight: 1 }, { name: \"",
                            any_cluster(), "\", weight: 2 } ] }");
    }
    if (one_in(4))
      absl::StrAppend(&action, ", hash_policy: [ { header: { header_name: ", one_in(2) ? "x-a" : "x-b", " } } ]");
    if (one_in(6)) action += ", auto_host_rewrite: true";
    if (one_in(6)) absl::StrAppend(&action, ", request_mirror_policies: [ { cluster: \"", any_cluster(), "\" } ]");
    if (one_in(10)) action += ", hedge_policy: { initial_requests: 2 }";
    return absl::StrCat("{ match: { prefix: /p", one_in(10) ? 0 : index, " }, route: { ", action, " } }");
  }
  std::string routes(std::string_view table) {
    std::string list;
    const int count = 1 + below(6);
    for (int i = 0; i < count; ++i) absl::StrAppend(&list, i == 0 ? "" : ", ", route(i));
    return absl::StrCat("{ name: ", table, ", virtual_hosts: [ { name: all, domains: [ \"*\" ], routes: [ ", list,
                        " ] } ] }");
  }
  std::string listener(int index) {
    // Two may have the same port.
    const int port = 8000 + (one_in(10) ? 0 : index);
    std::string proxy =
        absl::StrCat("\"@type\": ", kExtension, "filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: x, cluster: \"",
                     any_cluster(), "\", max_connect_attempts: ", 1 + below(3));
    if (!one_in(3)) {
      proxy = absl::StrCat("\"@type\": ", kExtension,
                           "filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: x, rds: { "
                           "config_source: { ads: {} }, route_config_name: ",
                           one_in(8)   ? "none"
                           : one_in(2) ? "one"
                                       : "two",
                           " }, http_filters: [ { name: router, typed_config: { \"@type\": ", kExtension,
                           "filters.http.router.v3.Router } } ]");
    }
    return absl::StrCat("{ name: web-", index, ", address: { socket_address: { address: 127.0.0.1, port_value: ", port,
                        " } }, filter_chains: [ { filters: [ { name: x, typed_config: { ", proxy, " } } ] } ] }");
  }
  std::string secret() {
    return absl::StrCat("{ name: ca, validation_context: { trusted_ca: { filename: /ca-", below(2), ".pem } } }");
  }

  std::mt19937 random_;
  Resources resources_;
};

// Compares after each change. Returns how many configurations were accepted.
int compare_changes(unsigned seed, int count) {
  RandomResources random(seed);
  random.fill();
  Mapping mapping;
  config::PartsLoader loader({});
  Resources before;  // Stays, as Mapping demands.
  int accepted = 0;
  for (int i = 0; i < count; ++i) {
    const Resources now = random.resources();
    const ResourceSet set = set_of(now);
    Findings findings, all_findings;
    const config::TreeParts parts = mapping.map(set, findings);
    const config::Node all = map_to_tree(set, all_findings);
    EXPECT_EQ(write_yaml(parts.join()), write_yaml(all)) << "seed " << seed << ", change " << i;
    EXPECT_EQ(text_of(findings), text_of(all_findings)) << "seed " << seed << ", change " << i;
    const absl::StatusOr<config::Config> expected = config::load_tree(all, "xds");
    const auto loaded = loader.load(parts, "xds");
    accepted += loaded.ok() ? 1 : 0;
    const std::string text = loaded.ok() ? config::print_config(**loaded) : std::string(loaded.status().message());
    EXPECT_EQ(text, text_of(expected)) << "seed " << seed << ", change " << i;
    EXPECT_TRUE(!loaded.ok() || !expected.ok() || **loaded == *expected) << "seed " << seed << ", change " << i;
    if (testing::Test::HasFailure()) return accepted;
    before = now;
    random.change();
  }
  return accepted;
}

TEST(MappingTest, IncrementalResultsAreThoseOfAFullMapping) {
  int accepted = 0;
  for (unsigned seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed) accepted += compare_changes(seed, 120);
  // Both ways are taken.
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 12 * 120 - 100);
}

TEST(MappingTest, KeepsThePartsThatAreTheSame) {
  RandomResources random(1);
  random.fill();
  const Resources resources = random.resources();
  const ResourceSet set = set_of(resources);
  Mapping mapping;
  Findings findings;
  const config::TreeParts first = mapping.map(set, findings);
  const config::TreeParts second = mapping.map(set, findings);
  EXPECT_EQ(first.rest, second.rest);
  EXPECT_EQ(first.upstreams, second.upstreams);
  EXPECT_FALSE(first.upstreams.empty());
}

}  // namespace
}  // namespace sluice::envoy
