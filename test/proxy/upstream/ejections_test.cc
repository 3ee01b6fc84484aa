#include "proxy/upstream/ejections.h"

#include <gtest/gtest.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "proxy/upstream/balancer.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

/// An upstream with ejection, at a time that the test sets.
struct Fixture {
  explicit Fixture(size_t endpoints = 4) {
    config.name = "main";
    config.endpoints.resize(endpoints);
    ejection().time = 30s;
    ejection().max_time = 300s;
  }
  config::Ejection& ejection() { return config.ejection ? *config.ejection : config.ejection.emplace(); }
  UpstreamState& state() {
    if (!made) made = std::make_unique<UpstreamState>(config);
    return *made;
  }
  void respond(size_t index, uint32_t status, int times = 1) {
    for (int i = 0; i < times; ++i) state().report_response(index, status, now_ms);
  }
  void error(size_t index, int times = 1) {
    for (int i = 0; i < times; ++i) state().report_error(index, now_ms);
  }
  size_t count_out() {
    size_t count = 0;
    for (size_t i = 0; i < state().size(); ++i)
      count += state().endpoint(i).health.ejected_until_ms.load() != 0 ? 1 : 0;
    return count;
  }
  bool out(size_t index) {
    state().end_expired_ejections(now_ms);
    EXPECT_EQ(state().endpoint(index).up(now_ms), state().endpoint(index).health.in());
    return !state().endpoint(index).up(now_ms);
  }
  void pass(std::chrono::seconds time) { now_ms += static_cast<uint64_t>(time.count()) * 1000; }
  // How long it is ejected, as seen by a request in each second.
  int seconds_out(size_t index) {
    int seconds = 0;
    for (; out(index); ++seconds) pass(1s);
    return seconds;
  }

  config::Upstream config;
  std::unique_ptr<UpstreamState> made;
  uint64_t now_ms = 5'000'000;
};

TEST(EjectionsTest, ErrorsInARow) {
  Fixture f;
  f.respond(0, 500, 4);
  EXPECT_FALSE(f.out(0));
  f.respond(0, 404);  // Not an error of the endpoint; and not in a row.
  f.respond(0, 503, 4);
  EXPECT_FALSE(f.out(0));
  f.respond(1, 500, 4);  // Each counts separately.
  f.respond(0, 599);
  EXPECT_TRUE(f.out(0));
  EXPECT_FALSE(f.out(1));
  EXPECT_EQ(f.state().endpoint(0).health.ejections.load(), 1u);
  EXPECT_EQ(f.count_out(), 1u);
}

TEST(EjectionsTest, MissingResponsesAreErrors) {
  Fixture f;
  f.error(0, 2);
  f.respond(0, 500, 2);
  EXPECT_FALSE(f.out(0));
  f.error(0);
  EXPECT_TRUE(f.out(0));
}

// A failed connection counts for both: max_fails passes over it for its own time, and errors add up.
TEST(EjectionsTest, FailedConnections) {
  Fixture f;
  f.config.max_fails = 1;
  f.config.fail_timeout = 1s;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(f.state().endpoint(0).health.in());
    f.state().report_failure(0, f.now_ms);
    EXPECT_TRUE(f.state().endpoint(0).down(f.now_ms));
    f.pass(2s);
  }
  EXPECT_FALSE(f.state().endpoint(0).down(f.now_ms));
  EXPECT_FALSE(f.state().endpoint(0).health.in());
  // Without max_fails they still count.
  f.config.max_fails = 0;
  for (int i = 0; i < 5; ++i) f.state().report_failure(1, f.now_ms);
  EXPECT_FALSE(f.state().endpoint(1).health.in());
}

// A successful connection says nothing about responses on it; where there are no responses, it is all that is known.
TEST(EjectionsTest, SuccessfulConnections) {
  Fixture f;
  for (int i = 0; i < 5; ++i) {
    f.state().report_success(0, f.now_ms);
    f.respond(0, 500);
    f.error(1);
    f.state().report_success(1, f.now_ms);
    f.state().report_connection(1);
  }
  EXPECT_TRUE(f.out(0));
  EXPECT_FALSE(f.out(1));
}

TEST(EjectionsTest, GatewayErrors) {
  Fixture f;
  f.ejection().consecutive_errors = 0;
  f.ejection().gateway_errors = 3;
  f.respond(0, 500, 100);
  EXPECT_FALSE(f.out(0));
  f.respond(0, 502);
  f.respond(0, 503);
  f.respond(0, 501);  // Not in a row.
  f.respond(0, 504, 2);
  EXPECT_FALSE(f.out(0));
  f.error(0);
  EXPECT_TRUE(f.out(0));
}

TEST(EjectionsTest, ReturnsWhenItsTimeIsOver) {
  Fixture f;
  const uint64_t before = f.state().health_generation();
  f.respond(0, 500, 5);
  EXPECT_EQ(f.state().health_generation(), before + 1);
  EXPECT_EQ(f.seconds_out(0), 30);
  EXPECT_EQ(f.state().health_generation(), before + 2);
  EXPECT_EQ(f.count_out(), 0u);
  EXPECT_EQ(f.state().endpoint(0).up_since_ms.load(), f.now_ms);
  // Not again at once: counting restarts, and responses to requests from before do not count.
  f.respond(0, 500, 4);
  EXPECT_FALSE(f.out(0));
  f.respond(0, 500);
  f.respond(0, 500, 100);
  f.error(0, 100);
  f.seconds_out(0);
  f.respond(0, 500, 4);
  EXPECT_FALSE(f.out(0));
}

TEST(EjectionsTest, TimeGrowsAndIsForgotten) {
  Fixture f;
  for (const int expected : {30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300}) {
    f.respond(0, 500, 5);
    EXPECT_EQ(f.seconds_out(0), expected);
  }
  f.pass(29s);
  f.respond(0, 500, 5);
  EXPECT_EQ(f.seconds_out(0), 300);
  f.pass(60s);  // Two have expired.
  f.respond(0, 500, 5);
  EXPECT_EQ(f.seconds_out(0), 270);
  f.pass(3600s);
  f.respond(0, 500, 5);
  EXPECT_EQ(f.seconds_out(0), 30);
}

TEST(EjectionsTest, EjectedShareIsBounded) {
  struct {
    size_t endpoints;
    uint32_t max_share;
    uint32_t expected;
  } const cases[] = {{10, 50, 5}, {10, 49, 4}, {10, 10, 1}, {10, 0, 1},  // One may always be ejected,
                     {3, 50, 1},  {2, 50, 1},  {1, 100, 0},              // but not the last.
                     {2, 100, 1}, {10, 100, 9}};
  for (const auto& each : cases) {
    Fixture f(each.endpoints);
    f.ejection().max_share = each.max_share;
    for (size_t i = 0; i < each.endpoints; ++i) f.respond(i, 500, 5);
    EXPECT_EQ(f.count_out(), each.expected) << each.endpoints << ", " << each.max_share;
    EXPECT_EQ(f.state().ejections()->refused(), each.endpoints - each.expected);
  }
}

// When one returns, another may be ejected at its next error.
TEST(EjectionsTest, SlotIsReturned) {
  Fixture f(2);
  f.respond(0, 500, 5);
  f.respond(1, 500, 5);
  EXPECT_TRUE(f.out(0) && !f.out(1));
  f.pass(30s);
  EXPECT_FALSE(f.out(0));
  f.respond(1, 500);
  EXPECT_TRUE(f.out(1) && !f.out(0));
}

// Endpoints that are passed over for other reasons are none to fall back on.
TEST(EjectionsTest, LastUsableOneStays) {
  Fixture f(3);
  f.ejection().max_share = 100;
  f.config.fail_timeout = 10s;
  f.state().set_healthy(0, false, f.now_ms);
  f.state().report_failure(1, f.now_ms);
  f.respond(2, 500, 5);
  EXPECT_FALSE(f.out(2));
  f.pass(10s);
  f.respond(2, 500);
  EXPECT_TRUE(f.out(2));
}

TEST(EjectionsTest, SlotOfAnotherEndpoint) {
  Fixture f;
  f.respond(0, 500, 5);
  f.respond(0, 500, 5);
  f.state().endpoint(0).begin_anew(f.now_ms);
  EXPECT_FALSE(f.out(0));
  EXPECT_EQ(f.count_out(), 0u);
  f.respond(0, 500, 5);
  EXPECT_EQ(f.seconds_out(0), 30);  // As for the first time.
}

// Of a name with room for 64 addresses and two of them, one may be ejected, and the other is the last.
TEST(EjectionsTest, OnlyPresentEndpointsCount) {
  Fixture f(0);
  f.ejection().max_share = 50;
  f.config.endpoints = {{.address = config::EndpointAddress::parse("app.test:80").value()}};
  EndpointView view(f.state().slots());
  const auto at = [](const char* text) { return ResolvedEndpoint{config::Address::parse(text).value()}; };
  (void)f.state().slots().replace(0, std::vector{at("10.0.0.1:80"), at("10.0.0.2:80"), at("10.0.0.3:80")});
  view.refresh();
  f.respond(0, 500, 5);
  EXPECT_TRUE(f.out(0));
  f.respond(1, 500, 5);
  EXPECT_FALSE(f.out(1));  // 50% of three is one.
  // When the first is gone, it counts neither as ejected nor as one to fall back on.
  (void)f.state().slots().replace(0, std::vector{at("10.0.0.2:80"), at("10.0.0.3:80")});
  f.respond(1, 500);
  EXPECT_TRUE(f.out(1));
  f.respond(2, 500, 5);
  EXPECT_FALSE(f.out(2));
}

TEST(EjectionsTest, ChoicesReturnEndpoints) {
  Fixture f(2);
  Balancer balancer(f.state(), 0);
  f.respond(0, 500, 5);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(balancer.pick({.now_ms = f.now_ms}), 1u);
  TriedEndpoints tried;
  tried.add(1);
  EXPECT_EQ(balancer.pick({.tried = tried, .now_ms = f.now_ms}), 0u);  // When there is no other.
  f.pass(30s);
  int zeros = 0;
  for (int i = 0; i < 20; ++i) zeros += balancer.pick({.now_ms = f.now_ms}) == 0u ? 1 : 0;
  EXPECT_EQ(zeros, 10);
}

// When many workers see the same errors, one ejects the endpoint; and none is lost, or returned twice.
TEST(EjectionsTest, ManyWorkers) {
  constexpr size_t kEndpoints = 8;
  Fixture f(kEndpoints);
  f.ejection().time = f.ejection().max_time = 7ms;
  f.state();
  testing::internal::CaptureStderr();
  // Checked while no thread works: in between, an endpoint that has just returned would be counted together with its
  // successor.
  std::barrier rest(4, [&]() noexcept { EXPECT_LE(f.count_out(), kEndpoints / 2); });
  std::vector<std::thread> workers;
  for (uint64_t w = 0; w < 4; ++w) {
    workers.emplace_back([&] {
      for (uint64_t now = 1; now < 5000; ++now) {
        f.state().end_expired_ejections(now);
        f.state().report_error(now % kEndpoints, now);
        f.state().report_error(now % 3, now);
        if (now % 4 == 0) rest.arrive_and_wait();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  f.state().end_expired_ejections(1'000'000);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(f.count_out(), 0u);
  uint64_t ejections = 0;
  for (size_t i = 0; i < kEndpoints; ++i) {
    EXPECT_TRUE(f.state().endpoint(i).health.in());
    ejections += f.state().endpoint(i).health.ejections.load();
  }
  EXPECT_GT(ejections, 0u);
  EXPECT_EQ(f.state().health_generation(), 2 * ejections);
}

TEST(EndpointErrors, NotForStatusesThatBlameTheClient) {
  for (const uint32_t status : {200u, 404u, 408u, 429u, 501u, 505u}) EXPECT_FALSE(is_endpoint_error(status)) << status;
  for (const uint32_t status : {500u, 502u, 503u, 504u, 599u}) EXPECT_TRUE(is_endpoint_error(status)) << status;
}

}  // namespace
}  // namespace sluice
