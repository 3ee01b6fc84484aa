#include "proxy/server/latency_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

config::Listener web(const std::vector<std::string>& routes) {
  config::Listener listener{.name = "web"};
  listener.http.emplace();
  for (const std::string& name : routes) {
    listener.http->routes.push_back({.match = std::nullopt, .name = name, .forward = "app", .respond = std::nullopt});
  }
  return listener;
}

config::Config configuration(const std::vector<std::string>& routes) {
  config::Config config;
  config.listeners = {web(routes), {.name = "raw"}};
  config.upstreams.push_back({.name = "app"});
  return config;
}

class LatencyReport : public ::testing::Test {
 protected:
  explicit LatencyReport(const std::vector<std::string>& routes = {"api", ""}) : config(configuration(routes)) {
    for (int i = 0; i < 2; ++i) workers.push_back(std::make_shared<WorkerCounters>(config));
  }
  std::string text() const { return format_latencies(config, workers); }

  const config::Config config;
  std::vector<std::shared_ptr<WorkerCounters>> workers;
};

TEST_F(LatencyReport, BucketsAddUpOverWorkersAndBounds) {
  workers[0]->latencies[0]->by_route[0]->duration.add(0);
  workers[1]->latencies[0]->by_route[0]->duration.add(300);
  workers[1]->latencies[0]->by_route[0]->duration.add(99'000);
  const std::string name = "sluice_http_request_duration_seconds", labels = "{listener=\"web\",route=\"api\"";
  for (const std::string& line :
       {"_bucket" + labels + ",le=\"0.001\"} 1", "_bucket" + labels + ",le=\"0.25\"} 1",
        "_bucket" + labels + ",le=\"0.5\"} 2", "_bucket" + labels + ",le=\"60.0\"} 2",
        "_bucket" + labels + ",le=\"+Inf\"} 3", "_sum" + labels + "} 99.300", "_count" + labels + "} 3"}) {
    EXPECT_THAT(text(), HasSubstr(name + line + "\n"));
  }
  EXPECT_THAT(text(), HasSubstr(name + "_count{listener=\"web\",route=\"\"} 0\n"));
}

TEST_F(LatencyReport, EmptyOnesOfRoutesAndUpstreamsAreLeftOut) {
  EXPECT_THAT(text(), Not(HasSubstr("route=\"api\"")));
  EXPECT_THAT(text(), Not(HasSubstr("upstream=")));
  EXPECT_THAT(text(), Not(HasSubstr("raw")));
  workers[1]->upstream_latencies[0]->response.add(7);
  EXPECT_THAT(text(), HasSubstr("sluice_upstream_response_seconds_sum{upstream=\"app\"} 0.007\n"));
  EXPECT_THAT(text(), Not(HasSubstr("connect")));
}

TEST_F(LatencyReport, ThePageHasTheWholeListener) {
  workers[0]->latencies[0]->by_route[0]->duration.add(300);
  workers[1]->latencies[0]->others->duration.add(300);
  JsonWriter json;
  json.begin_object();
  write_latencies(config, workers, json);
  json.end_object();
  const std::string page = std::move(json).text();
  EXPECT_THAT(page, HasSubstr("\"count\": 2,\n        \"mean_ms\": 300.000,\n        \"p50_ms\": 375.000,"));
  EXPECT_THAT(page, HasSubstr("\"name\": \"api\""));
  EXPECT_THAT(page, HasSubstr("\"p99_ms\": null"));
}

TEST(RouteLatencies, OnlySoManyRoutesHaveTheirOwn) {
  std::vector<std::string> names = {""};
  for (size_t i = 0; i < RouteLatencies::kMaxNamed + 1; ++i) names.push_back("r" + std::to_string(i));
  const RouteLatencies latencies(web(names));
  EXPECT_FALSE(latencies.has_own(0));
  EXPECT_TRUE(latencies.has_own(1));
  EXPECT_TRUE(latencies.has_own(RouteLatencies::kMaxNamed));
  EXPECT_FALSE(latencies.has_own(RouteLatencies::kMaxNamed + 1));
  EXPECT_NE(latencies.by_route[1], latencies.by_route[2]);
}

TEST(RouteLatencies, AnUpstreamForAllRequestsIsARouteWithoutAName) {
  config::Listener listener = web({});
  listener.http->forward = "app";
  const RouteLatencies latencies(listener);
  ASSERT_EQ(latencies.by_route.size(), 1u);
  EXPECT_FALSE(latencies.has_own(0));
}

TEST(RouteLatencies, NamesKeepTheirTimesInAReload) {
  const config::Listener old = web({"a", "b", ""}), now = web({"b", "new", "", ""});
  const RouteLatencies before(old), after(now, old, before);
  EXPECT_EQ(after.by_route[0], before.by_route[1]);
  EXPECT_TRUE(after.has_own(1));
  EXPECT_EQ(after.by_route[2], before.others);
  EXPECT_EQ(after.by_route[3], before.others);
  EXPECT_EQ(after.others, before.others);
}

TEST(WorkerCounters, AnUnchangedUpstreamKeepsItsTimes) {
  const config::Config old = configuration({"a"});
  const WorkerCounters before(old);
  EXPECT_EQ(WorkerCounters(old, old, before).upstream_latencies[0], before.upstream_latencies[0]);
  config::Config changed = old;
  changed.upstreams[0].connect_timeout = std::chrono::seconds(1);
  const WorkerCounters after(changed, old, before);
  EXPECT_NE(after.upstream_latencies[0], before.upstream_latencies[0]);
  EXPECT_EQ(after.latencies[0]->others, before.latencies[0]->others);
}

}  // namespace
}  // namespace sluice
