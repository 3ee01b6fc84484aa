// The page /stats/prometheus. docs/reference/envoy-stats.md must agree with the list of statistics. After a change of
// one, write the new document with SLUICE_UPDATE_DOCS=1 in the environment of this test.
#include "proxy/server/envoy_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/server/generation.h"
#include "proxy/xds/resource_kind.h"
#include "test/support/sanitizers.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

config::Upstream upstream(const std::string& name, const std::vector<std::string>& addresses) {
  config::Upstream upstream{.name = name};
  for (const std::string& address : addresses) {
    upstream.endpoints.push_back({.address = config::EndpointAddress::parse(address).value()});
  }
  return upstream;
}

config::Listener listener(const std::string& name, const std::string& address) {
  config::Listener listener{.name = name};
  listener.addresses = {config::Address::parse(address).value()};
  return listener;
}

config::Listener http_listener(const std::string& name, const std::string& address) {
  config::Listener made = listener(name, address);
  made.http.emplace().routes = {{.match = std::nullopt, .name = "own", .forward = "app", .respond = std::nullopt},
                                {.match = std::nullopt, .name = "", .forward = "app", .respond = std::nullopt}};
  return made;
}

config::Config configuration(const std::vector<std::string>& endpoints) {
  config::Config config;
  config.listeners = {http_listener("web", "127.0.0.1:1"), listener("raw", "[::1]:2")};
  config.listeners[1].tcp.emplace().forward = "app";
  config.upstreams = {upstream("app", endpoints), upstream("idle", {"127.0.0.1:9"})};
  return config;
}

ProcessView view_of(const Generation& generation) {
  return {.config = generation.config,
          .upstreams = generation.upstreams,
          .counters = generation.counters,
          .access_log_of_listener = {},
          .current = {},
          .earlier = {},
          .phase = {}};
}

// The values of a page by series.
using Series = std::map<std::string, uint64_t>;

Series parse(const std::string& page) {
  Series series;
  for (const std::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    if (line.starts_with('#')) continue;
    const size_t blank = line.rfind(' ');
    uint64_t value = 0;
    EXPECT_TRUE(absl::SimpleAtoi(line.substr(blank + 1), &value)) << line;
    EXPECT_TRUE(series.emplace(line.substr(0, blank), value).second) << line;
  }
  return series;
}

class EnvoyStats : public ::testing::Test {
 protected:
  std::string page(bool used_only = false) const { return page_of(generation, used_only); }
  std::string page_of(const Generation& of, bool used_only = false) const {
    const ProcessView view = view_of(of);
    return envoy_stats_page({.view = view, .earlier = earlier, .uptime_s = 7, .connections = 8, .resident_bytes = 9},
                            used_only);
  }
  uint64_t value(const Generation& of, const std::string& series) const {
    const Series all = parse(page_of(of));
    const auto found = all.find(series);
    if (found != all.end()) return found->second;
    ADD_FAILURE() << series << " is missing";
    return 0;
  }

  Generation generation{configuration({"127.0.0.1:3", "127.0.0.1:4"}), 2};
  EarlierCounters earlier;
};

// ---- The list ----

const std::filesystem::path kReference = SLUICE_SOURCE_DIR "/docs/reference/envoy-stats.md";
constexpr std::string_view kBeginOfStats = "<!-- statistics: begin -->\n", kEndOfStats = "<!-- statistics: end -->\n";

TEST(EnvoyStatList, DocumentIsCurrent) {
  std::ifstream in(kReference);
  ASSERT_TRUE(in.is_open()) << kReference;
  std::string document{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = document.find(kBeginOfStats), end = document.find(kEndOfStats);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t tables = begin + kBeginOfStats.size();
  const std::string expected = envoy_stats_markdown() + "\n";
  if (std::getenv("SLUICE_UPDATE_DOCS") != nullptr) {
    std::ofstream(kReference) << document.replace(tables, end - tables, expected);
    return;
  }
  EXPECT_EQ(document.substr(tables, end - tables), expected) << "run this test with SLUICE_UPDATE_DOCS=1";
}

template <class Figures>
void check_list(std::string_view scope, std::span<const EnvoyStat<Figures>> stats, std::set<std::string>& names) {
  for (const EnvoyStat<Figures>& each : stats) {
    const std::string name = metric_name(scope, each.name);
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    const int kinds = (each.value.number != nullptr) + (each.value.by_class != nullptr) + (each.value.times != nullptr);
    EXPECT_EQ(kinds, 1) << name;
    EXPECT_EQ(each.value.times != nullptr, each.type == StatType::kHistogram) << name;
    EXPECT_TRUE(each.help.ends_with('.')) << name;
    EXPECT_EQ(each.help.find_first_of("|\\\n"), std::string_view::npos) << name;
    EXPECT_FALSE(each.source.empty()) << name;
    EXPECT_EQ(each.source.find('|'), std::string_view::npos) << name;
  }
}

std::set<std::string> names_of_list() {
  std::set<std::string> names;
  check_list("cluster.", cluster_stats(), names);
  check_list("http.", http_stats(), names);
  check_list("tcp.", tcp_stats(), names);
  check_list("listener.", listener_stats(), names);
  check_list("", server_stats(), names);
  return names;
}

TEST(EnvoyStatList, IsConsistent) {
  std::set<std::string> names = names_of_list();
  for (const MissingStat& each : missing_stats()) {
    EXPECT_TRUE(names.insert(std::string(each.metric)).second) << each.metric << " is there twice";
    EXPECT_FALSE(each.reason.empty()) << each.metric;
  }
}

// What the dashboards of Envoy Gateway 1.9 for the proxy ask for, but for those of Kubernetes.
constexpr std::string_view kAskedFor[] = {"envoy_server_live",
                                          "envoy_server_uptime",
                                          "envoy_server_memory_allocated",
                                          "envoy_server_memory_heap_size",
                                          "envoy_cluster_membership_total",
                                          "envoy_cluster_membership_healthy",
                                          "envoy_cluster_membership_degraded",
                                          "envoy_cluster_membership_excluded",
                                          "envoy_cluster_outlier_detection_ejections_active",
                                          "envoy_cluster_upstream_cx_active",
                                          "envoy_cluster_upstream_cx_total",
                                          "envoy_cluster_upstream_cx_rx_bytes_total",
                                          "envoy_cluster_upstream_cx_tx_bytes_total",
                                          "envoy_cluster_upstream_rq_total",
                                          "envoy_cluster_upstream_rq_time",
                                          "envoy_cluster_upstream_rq_xx",
                                          "envoy_http_downstream_cx_total",
                                          "envoy_http_downstream_cx_rx_bytes_total",
                                          "envoy_http_downstream_cx_tx_bytes_total",
                                          "envoy_http_downstream_rq_total",
                                          "envoy_http_downstream_rq_time",
                                          "envoy_listener_downstream_cx_active",
                                          "envoy_listener_ssl_certificate_expiration_unix_time_seconds",
                                          "envoy_tcp_downstream_cx_total",
                                          "envoy_tcp_downstream_cx_rx_bytes_total",
                                          "envoy_tcp_downstream_cx_tx_bytes_total"};

TEST(EnvoyStatList, DashboardsOfEnvoyGateway) {
  const std::set<std::string> names = names_of_list();
  std::set<std::string_view> without, missing;
  for (const std::string_view each : kAskedFor) {
    if (!names.contains(std::string(each))) without.insert(each);
  }
  for (const MissingStat& each : missing_stats()) missing.insert(each.metric);
  EXPECT_EQ(without,
            (std::set<std::string_view>{"envoy_cluster_membership_degraded", "envoy_cluster_membership_excluded",
                                        "envoy_listener_ssl_certificate_expiration_unix_time_seconds"}));
  for (const std::string_view each : without) EXPECT_TRUE(missing.contains(each)) << each;
}

// ---- The page ----

TEST_F(EnvoyStats, Clusters) {
  EndpointCounters& first = *generation.counters[0]->upstreams[0][0];
  EndpointCounters& second = *generation.counters[1]->upstreams[0][1];
  UpstreamHttpCounters& http = *generation.counters[1]->http_upstreams[0];
  first.begun.add(5), second.begun.add(6);
  first.open.add(4), second.open.subtract();
  first.connect_errors[static_cast<size_t>(ConnectError::kTimeout)].add(2);
  second.connect_errors[static_cast<size_t>(ConnectError::kRefused)].add(1);
  first.bytes_in.add(100), second.bytes_out.add(200);
  second.requests_active.add(3);
  http.requests.add(20), http.waited.add(21), http.waiting.add(22), http.pending_refused.add(23);
  http.retries.add(24), http.reconnects.add(1), http.retries_over_budget.add(26), http.timeouts.add(27);
  http.statuses[2].add(30), http.statuses[5].add(31);
  generation.upstreams[0]->endpoint(1).health.healthy.store(false);
  const Series all = parse(page());
  const std::string of = "{envoy_cluster_name=\"app\"}";
  const std::map<std::string, uint64_t> expected = {
      {"cx_total", 11},           {"cx_active", 3},           {"cx_connect_fail", 3},     {"cx_connect_timeout", 2},
      {"cx_rx_bytes_total", 100}, {"cx_tx_bytes_total", 200}, {"rq_total", 20},           {"rq_active", 3},
      {"rq_completed", 61},       {"rq_timeout", 27},         {"rq_retry", 25},           {"rq_retry_overflow", 26},
      {"rq_pending_total", 21},   {"rq_pending_active", 22},  {"rq_pending_overflow", 23}};
  for (const auto& [name, value] : expected) EXPECT_EQ(all.at("envoy_cluster_upstream_" + name + of), value) << name;
  EXPECT_EQ(all.at("envoy_cluster_membership_total" + of), 2u);
  EXPECT_EQ(all.at("envoy_cluster_membership_healthy" + of), 1u);
  const std::string by_class = "envoy_cluster_upstream_rq_xx{envoy_response_code_class=";
  EXPECT_EQ(all.at(by_class + "\"2\",envoy_cluster_name=\"app\"}"), 30u);
  EXPECT_EQ(all.at(by_class + "\"5\",envoy_cluster_name=\"app\"}"), 31u);
  EXPECT_EQ(all.at(by_class + "\"4\",envoy_cluster_name=\"app\"}"), 0u);
  EXPECT_FALSE(all.contains("envoy_cluster_outlier_detection_ejections_active" + of)) << "there is no `ejection`";
}

TEST_F(EnvoyStats, ClustersWithoutTrafficHaveTheirMembers) {
  generation.counters[0]->http_upstreams[0]->requests.add();
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("envoy_cluster_membership_total{envoy_cluster_name=\"idle\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("envoy_cluster_upstream_cx_total{envoy_cluster_name=\"app\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("envoy_cluster_upstream_cx_total{envoy_cluster_name=\"idle\"}")));
  EXPECT_THAT(page(true), Not(HasSubstr("upstream_cx_total{")));
  EXPECT_THAT(page(true), HasSubstr("envoy_cluster_upstream_rq_total{envoy_cluster_name=\"app\"} 1\n"));
}

TEST_F(EnvoyStats, Listeners) {
  ListenerCounters& web = *generation.counters[0]->listeners[0];
  ListenerCounters& raw = *generation.counters[1]->listeners[1];
  HttpCounters& http = *generation.counters[1]->http_listeners[0];
  web.accepted.add(10), web.admitted.add(8), web.refused[0].add(2);
  web.ended[static_cast<size_t>(SessionEnd::kFinished)].add(3);
  web.ended[static_cast<size_t>(SessionEnd::kIdleTimeout)].add(1);
  web.bytes_in.add(11), web.bytes_out.add(12);
  raw.accepted.add(1), raw.admitted.add(1), raw.bytes_in.add(13), raw.bytes_out.add(14);
  http.connections_h1.add(5), http.connections_h2.add(2), http.requests.add(9);
  http.ended[static_cast<size_t>(HttpEnd::kOk)].add(7), http.statuses[2].add(6), http.statuses[4].add(1);
  const Series all = parse(page());
  const std::string of = "{envoy_http_conn_manager_prefix=\"web\"}";
  const std::map<std::string, uint64_t> expected = {
      {"cx_total", 8},       {"cx_active", 4},       {"cx_destroy", 4},         {"cx_http1_total", 5},
      {"cx_http2_total", 2}, {"cx_idle_timeout", 1}, {"cx_rx_bytes_total", 11}, {"cx_tx_bytes_total", 12},
      {"rq_total", 9},       {"rq_active", 2},       {"rq_completed", 7}};
  for (const auto& [name, value] : expected) EXPECT_EQ(all.at("envoy_http_downstream_" + name + of), value) << name;
  EXPECT_EQ(all.at("envoy_http_downstream_rq_xx{envoy_response_code_class=\"4\","
                   "envoy_http_conn_manager_prefix=\"web\"}"),
            1u);
  EXPECT_EQ(all.at("envoy_tcp_downstream_cx_total{envoy_tcp_prefix=\"raw\"}"), 1u);
  EXPECT_EQ(all.at("envoy_tcp_downstream_cx_rx_bytes_total{envoy_tcp_prefix=\"raw\"}"), 13u);
  EXPECT_EQ(all.at("envoy_tcp_downstream_cx_tx_bytes_total{envoy_tcp_prefix=\"raw\"}"), 14u);
  EXPECT_EQ(all.at("envoy_listener_downstream_cx_total{envoy_listener_address=\"127.0.0.1_1\"}"), 8u);
  EXPECT_EQ(all.at("envoy_listener_downstream_cx_active{envoy_listener_address=\"[__1]_2\"}"), 1u);
}

// Two series with the same labels would make the whole page invalid.
TEST_F(EnvoyStats, ListenersOfOneAddressAreOne) {
  config::Config config = configuration({"127.0.0.1:3"});
  config.listeners.push_back(http_listener("other", "127.0.0.1:1"));
  const Generation both(config, 1);
  both.counters[0]->listeners[0]->admitted.add(2);
  both.counters[0]->listeners[2]->admitted.add(3);
  EXPECT_EQ(value(both, "envoy_listener_downstream_cx_total{envoy_listener_address=\"127.0.0.1_1\"}"), 5u);
  EXPECT_EQ(value(both, "envoy_http_downstream_cx_total{envoy_http_conn_manager_prefix=\"other\"}"), 3u);
}

TEST_F(EnvoyStats, Server) {
  const Series all = parse(page());
  EXPECT_EQ(all.at("envoy_server_live{}"), 1u);
  EXPECT_EQ(all.at("envoy_server_state{}"), 0u);
  EXPECT_EQ(all.at("envoy_server_uptime{}"), 7u);
  EXPECT_EQ(all.at("envoy_server_concurrency{}"), 2u);
  EXPECT_EQ(all.at("envoy_server_total_connections{}"), 8u);
  EXPECT_EQ(all.at("envoy_server_memory_physical_size{}"), 9u);
#if !defined(SLUICE_ASAN) && !defined(__SANITIZE_THREAD__)  // Their allocators do not count.
  EXPECT_GT(all.at("envoy_server_memory_allocated{}"), 0u);
#endif
  EXPECT_GE(all.at("envoy_server_memory_heap_size{}"), all.at("envoy_server_memory_allocated{}"));
  EXPECT_EQ(all.at("envoy_cluster_manager_active_clusters{}"), 2u);
  EXPECT_EQ(all.at("envoy_listener_manager_total_listeners_active{}"), 2u);
  EXPECT_FALSE(all.contains("envoy_control_plane_connected_state{}"));
}

TEST_F(EnvoyStats, ControlPlane) {
  XdsCounters counters;
  counters.stream.connected.set(1);
  counters.accepted[static_cast<size_t>(xds::ResourceKind::kCluster)].add(3);
  counters.rejected[static_cast<size_t>(xds::ResourceKind::kListener)].add(4);
  ProcessView view = view_of(generation);
  view.xds = &counters;
  const Series all = parse(envoy_stats_page({.view = view, .earlier = earlier, .is_live = false}, false));
  EXPECT_EQ(all.at("envoy_control_plane_connected_state{}"), 1u);
  EXPECT_EQ(all.at("envoy_cluster_manager_cds_update_success{}"), 3u);
  EXPECT_EQ(all.at("envoy_cluster_manager_cds_update_rejected{}"), 0u);
  EXPECT_EQ(all.at("envoy_listener_manager_lds_update_rejected{}"), 4u);
  EXPECT_EQ(all.at("envoy_server_live{}"), 0u);
  EXPECT_EQ(all.at("envoy_server_state{}"), 1u);
}

TEST_F(EnvoyStats, HistogramsAreInMilliseconds) {
  UpstreamLatencies& times = *generation.counters[0]->upstream_latencies[0];
  generation.counters[0]->http_upstreams[0]->requests.add();
  for (const uint64_t ms : {0u, 2u, 7u, 300u, 70'000u}) times.whole.add(ms);
  generation.counters[1]->latencies[0]->by_route[0]->duration.add(3);
  generation.counters[1]->latencies[0]->others->duration.add(4);
  const std::string text = page();
  const Series all = parse(text);
  const std::string name = "envoy_cluster_upstream_rq_time", of = "{envoy_cluster_name=\"app\"";
  const std::vector<std::pair<std::string, uint64_t>> expected = {
      {"1", 1},    {"5", 2},    {"10", 3},   {"25", 3},    {"50", 3},    {"100", 3},   {"250", 3}, {"500", 4},
      {"1000", 4}, {"2500", 4}, {"5000", 4}, {"10000", 4}, {"30000", 4}, {"60000", 4}, {"+Inf", 5}};
  for (const auto& [le, count] : expected)
    EXPECT_EQ(all.at(name + "_bucket" + of + ",le=\"" + le + "\"}"), count) << le;
  EXPECT_EQ(all.at(name + "_sum" + of + "}"), 70'309u);
  EXPECT_EQ(all.at(name + "_count" + of + "}"), 5u);
  EXPECT_EQ(envoy_buckets().size() + 1, expected.size());
  EXPECT_THAT(text, HasSubstr("# TYPE envoy_cluster_upstream_rq_time histogram\n"));
  EXPECT_EQ(all.at("envoy_http_downstream_rq_time_count{envoy_http_conn_manager_prefix=\"web\"}"), 2u)
      << "of all routes";
  EXPECT_EQ(all.at("envoy_http_downstream_rq_time_sum{envoy_http_conn_manager_prefix=\"web\"}"), 7u);
  EXPECT_THAT(text, Not(HasSubstr("upstream_cx_connect_ms"))) << "nothing was measured";
}

TEST_F(EnvoyStats, NamesAreEscaped) {
  config::Config config = configuration({"127.0.0.1:3"});
  config.upstreams[1].name = "a\"b\\c\nd";
  const Generation odd(config, 1);
  EXPECT_THAT(page_of(odd), HasSubstr("envoy_cluster_membership_total{envoy_cluster_name=\"a\\\"b\\\\c d\"} 1\n"));
}

// All series of a metric are together, behind its help and its type.
TEST_F(EnvoyStats, MetricsAreWhole) {
  generation.counters[0]->http_upstreams[0]->requests.add();
  generation.counters[0]->http_upstreams[1]->requests.add();
  std::set<std::string> ended;
  std::string current;
  for (const std::string_view line : absl::StrSplit(page(), '\n', absl::SkipEmpty())) {
    if (line.starts_with("# HELP ")) {
      ended.insert(current);
      current = std::string(std::vector<std::string_view>(absl::StrSplit(line, ' '))[2]);
      EXPECT_FALSE(ended.contains(current)) << current;
    } else if (line.starts_with("# TYPE ")) {
      EXPECT_THAT(std::string(line), HasSubstr(" " + current + " "));
    } else {
      EXPECT_TRUE(line.starts_with(current + "{")) << line;
    }
  }
}

// ---- Counters never fall ----

constexpr std::string_view kReceived = "envoy_cluster_upstream_cx_rx_bytes_total{envoy_cluster_name=\"app\"}";

TEST_F(EnvoyStats, CountersDoNotFallWhenAnEndpointGoes) {
  const std::string received(kReceived), requests = "envoy_cluster_upstream_rq_total{envoy_cluster_name=\"app\"}";
  const std::string times = "envoy_cluster_upstream_rq_time_count{envoy_cluster_name=\"app\"}";
  auto first = std::make_unique<Generation>(configuration({"127.0.0.1:3", "127.0.0.1:4"}), 2);
  first->counters[0]->upstreams[0][0]->bytes_in.add(1000);
  first->counters[1]->upstreams[0][1]->bytes_in.add(10);
  first->counters[0]->http_upstreams[0]->requests.add(100);
  first->counters[0]->upstream_latencies[0]->whole.add(5);
  const Generation second(configuration({"127.0.0.1:4"}), *first);
  earlier.follow(view_of(*first), view_of(second));
  EXPECT_EQ(value(second, received), 1010u);
  EXPECT_EQ(value(second, requests), 100u);
  EXPECT_EQ(value(second, times), 1u);
  // A connection to the endpoint that has gone still counts.
  first->counters[0]->upstreams[0][0]->bytes_in.add(5);
  EXPECT_EQ(value(second, received), 1015u);
  first.reset();
  const Generation third(configuration({"127.0.0.1:5"}), second);
  earlier.follow(view_of(second), view_of(third));
  EXPECT_EQ(value(third, received), 1015u);
  EXPECT_EQ(value(third, requests), 100u);
  third.counters[0]->upstreams[0][0]->bytes_in.add(1);
  EXPECT_EQ(value(third, received), 1016u);
  earlier.follow(view_of(third), view_of(third));
  EXPECT_EQ(value(third, received), 1016u) << "nothing has changed";
}

TEST_F(EnvoyStats, CountersOfARemovedClusterAreForgotten) {
  generation.counters[0]->upstreams[0][0]->bytes_in.add(1000);
  config::Config config = configuration({"127.0.0.1:5"});
  const Generation changed(config, generation);
  earlier.follow(view_of(generation), view_of(changed));
  config.listeners.clear();
  config.upstreams.erase(config.upstreams.begin());
  const Generation without(config, changed);
  earlier.follow(view_of(changed), view_of(without));
  const Generation again(configuration({"127.0.0.1:5"}), without);
  earlier.follow(view_of(without), view_of(again));
  again.counters[0]->upstreams[0][0]->begun.add();
  EXPECT_EQ(value(again, std::string(kReceived)), 0u);
}

}  // namespace
}  // namespace sluice
