#include "proxy/upstream/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "proxy/upstream/endpoint_log.h"

namespace sluice {
namespace {

config::Upstream upstream(uint32_t max_fails, config::Duration fail_timeout, size_t endpoints = 2) {
  config::Upstream result;
  result.max_fails = max_fails;
  result.fail_timeout = fail_timeout;
  result.endpoints.resize(endpoints);
  return result;
}

TEST(EndpointTest, GoesDownAfterFailuresInARow) {
  const config::Upstream config = upstream(3, std::chrono::seconds(10));
  UpstreamState state(config);
  state.report_failure(0, 100);
  state.report_failure(0, 101);
  EXPECT_FALSE(state.endpoint(0).down(101));
  state.report_success(0, 101);  // Not in a row.
  state.report_failure(0, 102);
  state.report_failure(0, 103);
  EXPECT_FALSE(state.endpoint(0).down(103));
  state.report_failure(0, 104);
  EXPECT_TRUE(state.endpoint(0).down(104));
  EXPECT_TRUE(state.endpoint(0).down(10'103));
  EXPECT_FALSE(state.endpoint(0).down(10'104));
  EXPECT_FALSE(state.endpoint(1).down(104));
}

// After the pause one more failure is enough: the attempt was the probe.
TEST(EndpointTest, FailedProbeTakesItDownAgain) {
  const config::Upstream config = upstream(3, std::chrono::seconds(10));
  UpstreamState state(config);
  for (int i = 0; i < 3; ++i) state.report_failure(0, 0);
  EXPECT_FALSE(state.endpoint(0).down(10'000));
  state.report_failure(0, 10'001);
  EXPECT_TRUE(state.endpoint(0).down(10'002));
  EXPECT_TRUE(state.endpoint(0).down(20'000));
  EXPECT_FALSE(state.endpoint(0).down(20'001));
}

TEST(EndpointTest, SuccessBringsItBackAtOnce) {
  const config::Upstream config = upstream(1, std::chrono::seconds(10));
  UpstreamState state(config);
  state.report_failure(0, 50);
  EXPECT_TRUE(state.endpoint(0).down(60));
  state.report_success(0, 60);
  EXPECT_FALSE(state.endpoint(0).down(60));
}

TEST(EndpointTest, NeverDownWithoutMaxFails) {
  const config::Upstream config = upstream(0, std::chrono::seconds(10));
  UpstreamState state(config);
  for (int i = 0; i < 100; ++i) state.report_failure(0, 1);
  EXPECT_FALSE(state.endpoint(0).down(1));
}

// An upstream whose endpoints have addresses, and what it logs.
class EndpointLogTest : public testing::Test {
 protected:
  EndpointLogTest() {
    config_.name = "app";
    for (const char* const address : {"127.0.0.1:1", "127.0.0.1:2"}) {
      config_.endpoints.emplace_back().address = config::EndpointAddress::parse(address).value();
    }
  }
  UpstreamState& state() {
    if (!state_) state_ = std::make_unique<UpstreamState>(config_);
    return *state_;
  }
  // Calls it, and returns the lines without time and level.
  template <class Call>
  static std::vector<std::string> lines_of(Call call) {
    testing::internal::CaptureStderr();
    call();
    std::vector<std::string> lines;
    std::stringstream text(testing::internal::GetCapturedStderr());
    for (std::string line; std::getline(text, line);) {
      const size_t at = line.find(" warning sluice: ");
      lines.push_back(at == std::string::npos ? line : line.substr(at + 17));
    }
    return lines;
  }

  config::Upstream config_;
  std::unique_ptr<UpstreamState> state_;
};

TEST_F(EndpointLogTest, EachChangeOnce) {
  config_.max_fails = 3;
  config_.connect_timeout = std::chrono::seconds(5);
  EXPECT_THAT(
      lines_of([&] {
        for (uint64_t i = 0; i < 10; ++i) state().report_failure(0, 1000 + i, ConnectError::kTimeout);
        for (uint64_t i = 0; i < 3; ++i) state().report_success(0, 7200 + i);
        for (uint64_t i = 0; i < 3; ++i) state().report_success(1, 7200 + i);
      }),
      testing::ElementsAre(
          "upstream \"app\": endpoint 127.0.0.1:1 cannot be connected to (timeout after 5s) (2 of 2 endpoints up)",
          "upstream \"app\": endpoint 127.0.0.1:1 cannot be connected to (timeout after 5s); it is passed over "
          "for 10s at a time (1 of 2 endpoints up)",
          "upstream \"app\": endpoint 127.0.0.1:1 takes connections again after 6.2s (2 of 2 endpoints up)"));
}

TEST_F(EndpointLogTest, ManyWorkersLogAChangeOnce) {
  config_.max_fails = 1;
  (void)state();  // Made before there are threads.
  const auto lines = lines_of([&] {
    for (uint64_t round = 0; round < 20; ++round) {
      for (const bool fails : {true, false}) {
        std::vector<std::thread> workers;
        for (int t = 0; t < 4; ++t) {
          workers.emplace_back([&, fails] {
            for (int i = 0; i < 50; ++i) {
              fails ? state().report_failure(0, 1000 * round + 1, ConnectError::kRefused)
                    : state().report_success(0, 1000 * round + 2);
            }
          });
        }
        for (std::thread& worker : workers) worker.join();
      }
    }
  });
  ASSERT_EQ(lines.size(), 40u);
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i],
                testing::HasSubstr(i % 2 == 0 ? "cannot be connected to (refused)" : "takes connections again"));
  }
}

// What connections find is no change where health checks or ejection have taken the endpoint out.
TEST_F(EndpointLogTest, AnEndpointThatIsOutIsNotReportedAgain) {
  config_.max_fails = 2;
  config_.health_check.emplace();
  config_.ejection.emplace();
  const auto lines = lines_of([&] {
    state().set_healthy(0, false, 1000, "it responded with 503");
    state().set_healthy(0, false, 1500, "it responded with 503");
    for (uint64_t i = 0; i < 3; ++i) state().report_failure(0, 2000 + i, ConnectError::kRefused);
    state().report_success(0, 3000);
    state().set_healthy(0, true, 62'000);
    state().report_failure(1, 70'000, ConnectError::kTls, "TLS failed: EXPIRED");  // One of two: no change.
  });
  EXPECT_THAT(lines, testing::ElementsAre("upstream \"app\": endpoint 127.0.0.1:1 is unhealthy: it responded with 503 "
                                          "(1 of 2 endpoints up)",
                                          "upstream \"app\": endpoint 127.0.0.1:1 is healthy again after 1m 1s "
                                          "(2 of 2 endpoints up)"));
}

TEST_F(EndpointLogTest, EjectionSaysTheLastError) {
  config_.max_fails = 0;
  config_.ejection.emplace().consecutive_errors = 2;
  const auto lines = lines_of([&] {
    state().report_response(0, 200, 1000);
    state().report_error(0, 1000, "upstream_reset");
    state().report_response(0, 500, 1000);
    state().end_expired_ejections(31'500);
    state().report_response(1, 503, 40'000);
    state().report_error(1, 40'000, "response_timeout");
  });
  EXPECT_THAT(lines,
              testing::ElementsAre(
                  testing::EndsWith("127.0.0.1:1 is ejected for 30s, after 2 errors in a row, the last: status 500 "
                                    "(1 of 2 endpoints up)"),
                  testing::EndsWith("127.0.0.1:1 is no longer ejected after 30.5s (2 of 2 endpoints up)"),
                  testing::HasSubstr("127.0.0.1:2 is ejected for 30s, after 2 errors in a row, the last: "
                                     "response_timeout ")));
}

TEST_F(EndpointLogTest, LinesAreLimited) {
  const auto lines = lines_of([&] {
    for (int i = 0; i < 300; ++i) {
      state().report_failure(0, 500'000, ConnectError::kRefused);
      state().report_success(0, 500'000);
    }
    state().report_failure(0, 501'000, ConnectError::kRefused);
  });
  ASSERT_EQ(lines.size(), 101u);
  EXPECT_THAT(lines.back(), testing::EndsWith("(lines of this kind left out before this one: 500)"));
}

TEST(AfterText, IsForPeople) {
  EXPECT_EQ(after_text(0, 5), "");
  EXPECT_EQ(after_text(5, 4), "");
  EXPECT_EQ(after_text(1, 251), " after 250ms");
  EXPECT_EQ(after_text(1, 5199), " after 5.1s");
  EXPECT_EQ(after_text(1, 725'001), " after 12m 5s");
  EXPECT_EQ(after_text(1, 1 + 26 * 3'600'000 + 61'000), " after 26h 1m");
}

TEST(EndpointTest, ErrnoKinds) {
  const std::pair<int, ConnectError> cases[] = {
      {ECONNREFUSED, ConnectError::kRefused},
      {ENOENT, ConnectError::kRefused},
      {ETIMEDOUT, ConnectError::kTimeout},
      {ENETUNREACH, ConnectError::kUnreachable},
      {EHOSTUNREACH, ConnectError::kUnreachable},
      {ECONNRESET, ConnectError::kReset},
      {EMFILE, ConnectError::kLocal},
      {ENFILE, ConnectError::kLocal},
      {ENOMEM, ConnectError::kLocal},
      {ENOBUFS, ConnectError::kLocal},
      {EADDRNOTAVAIL, ConnectError::kLocal},
      {EACCES, ConnectError::kLocal},
      {EINVAL, ConnectError::kOther},
      {EINTR, ConnectError::kOther},
  };
  for (const auto& [error, kind] : cases) EXPECT_EQ(connect_error_of(error), kind) << error;
}

TEST(EndpointTest, EveryKindHasAName) {
  std::set<std::string> names;
  for (int i = 0; i < kConnectErrorCount; ++i) names.insert(connect_error_name(static_cast<ConnectError>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(kConnectErrorCount));
}

// The workers report at once. For ThreadSanitizer; the counts are checked too.
TEST(EndpointTest, ReportsFromManyThreads) {
  const config::Upstream config = upstream(1'000'000, std::chrono::seconds(1), 3);
  UpstreamState state(config);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&state, t] {
      for (int i = 0; i < 5000; ++i) {
        state.endpoint(0).active.fetch_add(1, std::memory_order_relaxed);
        state.report_failure(1, static_cast<uint64_t>(i));
        if (t == 0) state.report_success(2, static_cast<uint64_t>(i));
        state.report_failure(2, static_cast<uint64_t>(i));
        state.endpoint(2).down(static_cast<uint64_t>(i));
        state.endpoint(0).active.fetch_sub(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(state.endpoint(0).active.load(), 0u);
  EXPECT_EQ(state.endpoint(1).fails_in_a_row.load(), 20'000u);
}

// Defect that reloads would have: nothing would ever end what only the old configuration knew how to end.
TEST(UpstreamStateTest, ContinuesWhatItCanEnd) {
  config::Upstream config{.name = "main"};
  config.endpoints = {{.address = config::Address::parse("127.0.0.1:1").value()},
                      {.address = config::Address::parse("127.0.0.1:2").value()},
                      {.address = config::Address::parse("127.0.0.1:3").value()}};
  config.health_check.emplace();
  config.ejection.emplace().max_share = 100;
  UpstreamState old(config);
  old.set_healthy(0, false, 1);
  for (uint32_t i = 0; i < config.ejection->consecutive_errors; ++i) old.report_error(1, 1);
  ASSERT_GT(old.endpoint(1).health.ejected_until_ms, 0u);

  UpstreamState same(config);
  same.continue_from(old);
  EXPECT_FALSE(same.endpoint(0).health.healthy);
  EXPECT_EQ(same.endpoint(1).health.ejected_until_ms, old.endpoint(1).health.ejected_until_ms);
  same.end_expired_ejections(2);
  EXPECT_FALSE(same.endpoint(1).health.in());
  same.end_expired_ejections(old.endpoint(1).health.ejected_until_ms);
  EXPECT_TRUE(same.endpoint(1).health.in());

  config.health_check.reset();
  config.ejection.reset();
  UpstreamState without(config);
  without.continue_from(old);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(without.endpoint(i).health.in()) << i;
}

}  // namespace
}  // namespace sluice
