#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/server/metrics_report.h"
#include "test/net/loop.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(L4CountersTest, EveryReasonHasAName) {
  std::set<std::string> names;
  for (int i = 0; i < kSessionEndCount; ++i) names.insert(session_end_name(static_cast<SessionEnd>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kSessionEndCount));
  EXPECT_STREQ(session_end_name(SessionEnd::kFinished), "finished");
  EXPECT_STREQ(session_end_name(SessionEnd::kShutdown), "shutdown");
  names.clear();
  for (int i = 0; i < kRefusalCount; ++i) names.insert(refusal_name(static_cast<Refusal>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kRefusalCount));
}

class ReportTest : public ::testing::Test {
 protected:
  ReportTest() {
    config_.listeners.push_back({.name = "edge"});
    config_.listeners.push_back({.name = "da\"ta\\base"});
    config_.upstreams.push_back({.name = "pg"});
    for (const char* address : {"127.0.0.1:1", "[::1]:2"}) {
      config_.upstreams[0].endpoints.push_back({.address = config::Address::parse(address).value()});
    }
    upstreams_.push_back(std::make_shared<UpstreamState>(config_.upstreams[0]));
    for (int i = 0; i < 2; ++i) workers_.push_back(std::make_shared<WorkerCounters>(config_));
  }
  std::string text() { return format_stats(config_, {}, workers_, upstreams_); }

  config::Config config_;
  std::vector<std::shared_ptr<WorkerCounters>> workers_;
  std::vector<std::shared_ptr<UpstreamState>> upstreams_;
};

TEST_F(ReportTest, SumsOverWorkers) {
  for (auto& worker : workers_) {
    worker->listeners[0]->accepted.add(10);
    worker->listeners[0]->bytes_in.add(1'000'000'000'000);
    worker->listeners[0]->ended[static_cast<size_t>(SessionEnd::kFinished)].add(3);
    worker->listeners[0]->refused[static_cast<size_t>(Refusal::kSource)].add(1);
    worker->upstreams[0][1]->connected.add(2);
    worker->upstreams[0][1]->connect_errors[static_cast<size_t>(ConnectError::kTimeout)].add(4);
    worker->gauges->pool_out_bytes.set(100);
    worker->gauges->posted_bytes.set(60);
  }
  upstreams_[0]->endpoint(1).active.store(7);
  const std::string stats = text();
  EXPECT_THAT(stats, HasSubstr("sluice_accepted_total{listener=\"edge\"} 20\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_sessions_active{listener=\"edge\"} 12\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_received_bytes_total{listener=\"edge\"} 2000000000000\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_sessions_ended_total{listener=\"edge\",reason=\"finished\"} 6\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_refused_total{listener=\"edge\",limit=\"source\"} 2\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_connections_total{upstream=\"pg\",endpoint=\"[::1]:2\"} 4\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_connections_active{upstream=\"pg\",endpoint=\"[::1]:2\"} 7\n"));
  EXPECT_THAT(
      stats,
      HasSubstr("sluice_endpoint_connect_errors_total{upstream=\"pg\",endpoint=\"[::1]:2\",kind=\"timeout\"} 8\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_pool_bytes 200\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_pool_pinned_bytes 80\n"));
  EXPECT_THAT(stats,
              HasSubstr(absl::StrCat("sluice_pool_budget_bytes ", 2 * config_.memory.worker_budget.bytes, "\n")));
}

TEST_F(ReportTest, AddressesThatAreUp) {
  EXPECT_THAT(text(), HasSubstr("sluice_upstream_addresses{upstream=\"pg\"} 2\n"));
  EXPECT_THAT(text(), HasSubstr("sluice_upstream_addresses_up{upstream=\"pg\"} 2\n"));
  upstreams_[0]->endpoint(0).down_until_ms = monotonic_ms() + 100'000;
  EXPECT_THAT(text(), HasSubstr("sluice_upstream_addresses_up{upstream=\"pg\"} 1\n"));
  upstreams_[0]->endpoint(0).down_until_ms = 1;
  upstreams_[0]->endpoint(1).health.healthy = false;
  EXPECT_THAT(text(), HasSubstr("sluice_upstream_addresses_up{upstream=\"pg\"} 1\n"));
  upstreams_[0]->endpoint(0).health.ejected_until_ms = 9;
  EXPECT_THAT(text(), HasSubstr("sluice_upstream_addresses_up{upstream=\"pg\"} 0\n"));
}

TEST_F(ReportTest, Balancers) {
  EXPECT_THAT(text(), Not(HasSubstr("sticky")));
  for (auto& worker : workers_) {
    Balancer::Counters& counters = *worker->balancers[0];
    counters.preferred.set(1);
    counters.preferred_lost.set(2);
    counters.failovers.set(3);
    counters.panics.set(4);
  }
  const std::string stats = text();
  EXPECT_THAT(stats, HasSubstr("sluice_upstream_sticky_kept_total{upstream=\"pg\"} 2\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_upstream_sticky_lost_total{upstream=\"pg\"} 4\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_upstream_failovers_total{upstream=\"pg\"} 6\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_upstream_panics_total{upstream=\"pg\"} 8\n"));
}

TEST_F(ReportTest, HealthWithChecks) {
  EXPECT_THAT(text(), Not(HasSubstr("health")));
  EXPECT_THAT(text(), Not(HasSubstr("eject")));
  config_.upstreams[0].health_check.emplace();
  config_.upstreams[0].ejection.emplace();
  upstreams_[0] = std::make_shared<UpstreamState>(config_.upstreams[0]);
  upstreams_[0]->set_healthy(0, false, 1);
  upstreams_[0]->endpoint(0).health.checks.add(9);
  upstreams_[0]->endpoint(0).health.failed_checks.add(4);
  upstreams_[0]->endpoint(0).health.checks_not_made.add(2);
  upstreams_[0]->set_healthy(0, true, 2);
  for (int i = 0; i < 5; ++i) upstreams_[0]->report_error(1, 3);
  upstreams_[0]->set_healthy(0, false, 4);
  const std::string stats = text();
  const std::string one = "{upstream=\"pg\",endpoint=\"127.0.0.1:1\"}",
                    other = "{upstream=\"pg\",endpoint=\"[::1]:2\"}";
  for (const std::string& line :
       {"endpoint_healthy" + one + " 0", "endpoint_healthy" + other + " 1", "endpoint_health_checks_total" + one + " 9",
        "endpoint_health_checks_failed_total" + one + " 4", "endpoint_health_checks_not_made_total" + one + " 2",
        "endpoint_ejected" + one + " 0", "endpoint_ejected" + other + " 1", "endpoint_ejections_total" + other + " 1",
        std::string("upstream_ejections_refused_total{upstream=\"pg\"} 0")}) {
    EXPECT_THAT(stats, HasSubstr("sluice_" + line + "\n"));
  }
}

// An added endpoint has rows as long as it is there or has connections.
TEST_F(ReportTest, AddedEndpoints) {
  config::Config config;
  config.admin.emplace();
  config.upstreams.push_back({.name = "app"});
  config.upstreams[0].endpoints = {{.address = config::Address::parse("127.0.0.1:1").value()}};
  const size_t places = EndpointTable::added_slots(config);
  std::vector<std::shared_ptr<UpstreamState>> upstreams;
  upstreams.push_back(std::make_shared<UpstreamState>(config.upstreams[0], places));
  std::vector<std::shared_ptr<WorkerCounters>> workers;
  for (int i = 0; i < 2; ++i) workers.push_back(std::make_shared<WorkerCounters>(config));
  const ResolvedEndpoint endpoint{config::Address::parse("127.0.0.1:2").value()};
  const uint32_t slot = *upstreams[0]->changes().add(endpoint, {}, 0, [](uint32_t) {});
  const uint32_t index = upstreams[0]->slots().configured(slot);
  for (auto& worker : workers) worker->upstreams[0][index]->connected.add(4);
  upstreams[0]->endpoint(slot).active = 3;
  const std::string label = "{upstream=\"app\",endpoint=\"127.0.0.1:2\"}";
  std::string stats = format_stats(config, {}, workers, upstreams);
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_connections_total" + label + " 8\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_upstream_addresses{upstream=\"app\"} 2\n"));
  upstreams[0]->changes().remove(slot, {});
  stats = format_stats(config, {}, workers, upstreams);
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_connections_active" + label + " 3\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_upstream_addresses{upstream=\"app\"} 1\n"));
  upstreams[0]->endpoint(slot).active = 0;
  EXPECT_THAT(format_stats(config, {}, workers, upstreams), Not(HasSubstr("127.0.0.1:2")));
}

// All addresses of a name are counted together; its present addresses are printed one by one.
TEST_F(ReportTest, NamesAreOneEndpoint) {
  config::Config config;
  config.upstreams.push_back({.name = "app"});
  config.upstreams[0].endpoints = {{.address = config::EndpointAddress::parse("app.test:80").value()},
                                   {.address = config::Address::parse("127.0.0.1:1").value()}};
  std::vector<std::shared_ptr<UpstreamState>> upstreams;
  upstreams.push_back(std::make_shared<UpstreamState>(config.upstreams[0]));
  EndpointTable& slots = upstreams[0]->slots();
  EndpointView view(slots);
  const auto at = [](const char* text) { return ResolvedEndpoint{config::Address::parse(text).value()}; };
  (void)slots.replace(0, std::vector{at("10.0.0.1:80")});
  view.refresh();
  view.hold(1);
  slots.state(1).active = 2;
  (void)slots.replace(0, std::vector{at("10.0.0.2:80")});
  slots.state(2).active = 3;
  slots.state(0).active = 5;
  upstreams[0]->resolving(0).lookups.add(7);
  std::vector<std::shared_ptr<WorkerCounters>> workers;
  workers.push_back(std::make_shared<WorkerCounters>(config));
  workers[0]->upstreams[0][0]->connected.add(4);
  const std::string stats = format_stats(config, {}, workers, upstreams);
  const std::string label = "{upstream=\"app\",endpoint=\"app.test:80\"";
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_connections_total" + label + "} 4\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_connections_active" + label + "} 5\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_resolve_lookups_total" + label + "} 7\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_address_connections_active" + label + ",address=\"10.0.0.2:80\"} 3\n"));
  EXPECT_THAT(stats, Not(HasSubstr("10.0.0.1")));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_connections_active{upstream=\"app\",endpoint=\"127.0.0.1:1\"} 5\n"));
  view.let_go(1);
}

TEST_F(ReportTest, HealthOfNames) {
  config::Config config;
  config.upstreams.push_back({.name = "app"});
  config.upstreams[0].endpoints = {{.address = config::EndpointAddress::parse("app.test:80").value()}};
  config.upstreams[0].health_check.emplace();
  config.upstreams[0].ejection.emplace();
  std::vector<std::shared_ptr<UpstreamState>> upstreams;
  upstreams.push_back(std::make_shared<UpstreamState>(config.upstreams[0]));
  EndpointTable& slots = upstreams[0]->slots();
  const auto at = [](const char* text) { return ResolvedEndpoint{config::Address::parse(text).value()}; };
  (void)slots.replace(0, std::vector{at("10.0.0.1:80"), at("10.0.0.2:80"), at("10.0.0.3:80")});
  upstreams[0]->set_healthy(1, false, 1);
  slots.state(0).health.checks.add(2);
  slots.state(1).health.checks.add(3);
  slots.state(0).health.ejected_until_ms = slots.state(2).health.ejected_until_ms = 9;
  std::vector<std::shared_ptr<WorkerCounters>> workers;
  workers.push_back(std::make_shared<WorkerCounters>(config));
  const std::string label = "{upstream=\"app\",endpoint=\"app.test:80\"} ";
  std::string stats = format_stats(config, {}, workers, upstreams);
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_healthy" + label + "0\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_health_checks_total" + label + "5\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_ejected" + label + "2\n"));
  // The counts of an address that is gone remain.
  (void)slots.replace(0, std::vector{at("10.0.0.3:80")});
  stats = format_stats(config, {}, workers, upstreams);
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_healthy" + label + "1\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_health_checks_total" + label + "5\n"));
  EXPECT_THAT(stats, HasSubstr("sluice_endpoint_ejected" + label + "1\n"));
}

TEST_F(ReportTest, OmitsUnusedReasons) {
  const std::string stats = text();
  EXPECT_THAT(stats, HasSubstr("sluice_accepted_total{listener=\"edge\"} 0\n"));
  EXPECT_THAT(stats, Not(HasSubstr("sessions_ended_total")));
  EXPECT_THAT(stats, Not(HasSubstr("refused_total{")));
  EXPECT_THAT(stats, Not(HasSubstr("connect_errors_total")));
}

// Each line is NAME{LABELS} VALUE, with quotes and backslashes in labels escaped.
TEST_F(ReportTest, LinesAreWellFormed) {
  const std::string stats = text();
  EXPECT_THAT(stats, HasSubstr("listener=\"da\\\"ta\\\\base\""));
  std::istringstream lines(stats);
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, ::testing::MatchesRegex("sluice_[a-z0-9_]+(\\{.*\\})? [0-9]+")) << line;
    EXPECT_TRUE(seen.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
  }
}

TEST_F(ReportTest, GaugesOfAWorker) {
  test::Loop loop;
  WorkerGauges gauges;
  const Buffer held = test::buffer_of(loop->pool(), std::string(1000, 'x'));
  update_gauges(loop, gauges);
  EXPECT_EQ(gauges.pool_out_bytes.value(), gauges.posted_bytes.value() + 1024);
  EXPECT_EQ(gauges.tier_out_bytes[static_cast<size_t>(tier_for(1000))].value(), 1024u);
  EXPECT_GE(gauges.pool_out_bytes_peak.value(), gauges.pool_out_bytes.value());
  EXPECT_GE(gauges.pool_mapped_bytes.value(), gauges.pool_out_bytes.value());
  EXPECT_EQ(gauges.batches.value(), loop->counters().batches);
}

}  // namespace
}  // namespace sluice
