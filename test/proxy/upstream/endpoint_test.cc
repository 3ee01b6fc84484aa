#include "proxy/upstream/endpoint.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

}  // namespace
}  // namespace sluice
