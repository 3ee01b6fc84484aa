#include "proxy/xds/load_meter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "proxy/config/load/loader.h"

namespace sluice::xds {
namespace {

constexpr std::string_view kConfig = R"(
listeners: [ { name: web, address: 127.0.0.1:8080, http: { routes: [ { forward: app } ] } } ]
upstreams:
  - { name: app, endpoints: [ "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80" ] }
)";

class LoadMeterTest : public testing::Test {
 protected:
  LoadMeterTest() {
    absl::StatusOr<config::Config> loaded = config::load_text(kConfig, "test");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    config::Snapshot<config::Config> config(*std::move(loaded));
    std::vector<std::shared_ptr<WorkerCounters>> counters;
    for (int worker = 0; worker < 2; ++worker) counters.push_back(std::make_shared<WorkerCounters>(*config));
    view_ = std::make_unique<LoadView>(
        LoadView{.config = config,
                 .upstreams = {std::make_shared<UpstreamState>(config.part(config->upstreams[0]))},
                 .counters = std::move(counters)});
    ClusterFacts& facts = table_["cluster"];
    facts.upstream = "app";
    facts.service_name = "service";
    facts.places = {{"10.0.0.1:80", west()}, {"10.0.0.2:80", west()}};
    table_["empty"];
  }

  static EndpointLocality west() { return {.region = "west", .zone = "a", .sub_zone = {}, .priority = 1}; }
  EndpointCounters& counters(size_t worker, size_t endpoint) {
    return *view_->counters[worker]->upstreams[0][endpoint];
  }
  void request(size_t worker, size_t endpoint, bool succeeds) {
    counters(worker, endpoint).requests.add();
    (succeeds ? counters(worker, endpoint).requests_succeeded : counters(worker, endpoint).requests_failed).add();
  }

  std::unique_ptr<LoadView> view_;
  ClusterTable table_;
  LoadMeter meter_;
};

TEST_F(LoadMeterTest, CountsSinceTheLastReportByLocality) {
  request(0, 0, true);
  meter_.follow({"cluster", "unknown"}, table_, *view_, 1000);
  request(0, 0, true);
  request(1, 0, true);
  request(1, 1, false);
  request(0, 2, true);
  view_->upstreams[0]->endpoint(1).active.store(3);
  view_->counters[0]->http_upstreams[0]->pending_refused.add(4);
  const std::vector<ClusterLoad> loads = meter_.take(table_, *view_, false, 3500);
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0].name, "cluster");
  EXPECT_EQ(loads[0].service_name, "service");
  EXPECT_EQ(loads[0].interval_ms, 2500U);
  EXPECT_EQ(loads[0].dropped, 4U);
  ASSERT_EQ(loads[0].localities.size(), 2U);
  const LocalityLoad& elsewhere = loads[0].localities[0];
  EXPECT_EQ(elsewhere.place, EndpointLocality());
  EXPECT_EQ(elsewhere.counts.succeeded, 1U);
  const LocalityLoad& in_west = loads[0].localities[1];
  EXPECT_EQ(in_west.place, west());
  EXPECT_EQ(in_west.counts.succeeded, 2U);
  EXPECT_EQ(in_west.counts.failed, 1U);
  EXPECT_EQ(in_west.counts.issued, 3U);
  EXPECT_EQ(in_west.counts.in_progress, 3U);
  EXPECT_TRUE(in_west.endpoints.empty());
}

TEST_F(LoadMeterTest, BeginsAnewWithEachReport) {
  meter_.follow({"cluster"}, table_, *view_, 0);
  request(0, 0, true);
  EXPECT_EQ(meter_.take(table_, *view_, false, 1000)[0].localities.size(), 1U);
  meter_.follow({"cluster"}, table_, *view_, 1000);
  request(1, 1, false);
  const std::vector<ClusterLoad> loads = meter_.take(table_, *view_, true, 2000);
  ASSERT_EQ(loads[0].localities.size(), 1U);
  EXPECT_EQ(loads[0].localities[0].counts.issued, 1U);
  EXPECT_EQ(loads[0].interval_ms, 1000U);
  ASSERT_EQ(loads[0].localities[0].endpoints.size(), 1U);
  EXPECT_EQ(loads[0].localities[0].endpoints[0].address, "10.0.0.2:80");
  EXPECT_TRUE(meter_.take(table_, *view_, true, 3000)[0].localities.empty());
}

TEST_F(LoadMeterTest, AnEndpointWhoseCountersBeginAnew) {
  request(0, 0, true);
  request(0, 0, true);
  meter_.follow({"cluster"}, table_, *view_, 0);
  counters(0, 0).reset();
  request(0, 0, true);
  EXPECT_EQ(meter_.take(table_, *view_, false, 1000)[0].localities[0].counts.issued, 1U);
}

TEST_F(LoadMeterTest, ClustersThatAreGoneOrNotWantedAnyMore) {
  meter_.follow({"cluster", "empty"}, table_, *view_, 0);
  EXPECT_EQ(meter_.take(table_, *view_, false, 1000).size(), 2U);
  meter_.follow({"cluster"}, table_, *view_, 1000);
  EXPECT_EQ(meter_.take(table_, *view_, false, 2000).size(), 1U);
  table_.erase("cluster");
  EXPECT_TRUE(meter_.take(table_, *view_, false, 3000).empty());
}

}  // namespace
}  // namespace sluice::xds
