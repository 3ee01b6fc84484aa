// What adaptive_concurrency does to requests: which go on, wait, or are refused, and what counts for the limit. How the
// limit is found is in test/proxy/upstream/concurrency_control_test.cc; here it stays what it is at first.

#include "proxy/http/proxy/concurrency_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "proxy/http/proxy/http_upstream.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using config::Priority;
using config::RetryOn;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

constexpr std::string_view kRefused = "the upstream has as many requests as it can process\n";

class ConcurrencyLimitTest : public test::HttpRigTest {
 protected:
  ConcurrencyLimitTest() : origin(rig.add_origin()) {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
    config.body_timeout = config.stuck_timeout = config.header_timeout = 100h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
    config.forward.clear();
    for (const auto& [path, priority] : {std::pair{"/high", Priority::kHigh}, {"/low", Priority::kLow}}) {
      config::HttpRoute& made = config.routes.emplace_back();
      made.match.emplace().path.emplace().exact = path;
      made.forward = "origin";
      made.priority = priority;
    }
    config.routes.emplace_back().forward = "origin";
    limit() = {.min = 2, .max = 2, .initial = 2, .max_wait = 100h};
  }

  config::AdaptiveConcurrency& limit() {
    auto& configured = rig.upstream().adaptive_concurrency;
    return configured ? *configured : configured.emplace();
  }
  config::HttpRoute& route() { return rig.config().routes.back(); }
  /// Each request has a connection of its own, as in HTTP/1.1 each waits for the one before.
  PeerStream& send(std::string_view path = "/") { return rig.connect().send_request("GET", path); }
  void expect_refused(const PeerStream& stream) {
    rig.expect_response(stream, 503, kRefused);
    EXPECT_EQ(stream.field("retry-after"), "1");
  }
  void expect_served(size_t n, const PeerStream& stream) {
    rig.request_at(origin, n).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  }
  uint64_t refused(Priority priority) {
    return rig.upstream_counters().limit_refused[static_cast<size_t>(priority)].value();
  }
  UpstreamHttpCounters& counters() {
    rig.settle();
    return rig.upstream_counters();
  }
  /// Sends requests until so many are at the endpoint or wait.
  std::vector<PeerStream*> fill(size_t count, std::string_view path = "/") {
    std::vector<PeerStream*> streams;
    for (size_t i = 0; i < count; ++i) {
      streams.push_back(&send(path));
      rig.until([&] { return counters().limit_in_flight.value() + counters().limit_waiting.value() == i + 1; });
    }
    return streams;
  }

  HttpOrigin& origin;
};

SLUICE_EACH_VERSION(ConcurrencyLimitTest);

TEST_P(ConcurrencyLimitTest, RequestsWaitForTheirPlace) {
  rig.start();
  const std::vector<PeerStream*> streams = fill(4);
  EXPECT_EQ(origin.requests.size(), 2u);
  EXPECT_EQ(counters().limit.value(), 2u);
  EXPECT_EQ(counters().limit_waiting.value(), 2u);
  for (size_t i = 0; i < 4; ++i) expect_served(i, *streams[i]);
  EXPECT_EQ(counters().limit_in_flight.value(), 0u);
  EXPECT_EQ(refused(Priority::kNormal), 0u);
  rig.expect_ended(HttpEnd::kOk, 4);
}

TEST_P(ConcurrencyLimitTest, ThoseOfLowPriorityAreRefusedFirst) {
  rig.start();
  const std::vector<PeerStream*> streams = fill(2, "/low");
  expect_refused(send("/low"));
  std::vector<PeerStream*> high;
  const auto wait = [&](size_t count, std::string_view path) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t before = counters().limit_waiting.value();
      PeerStream& stream = send(path);
      if (path == "/high") high.push_back(&stream);
      rig.until([&] { return counters().limit_waiting.value() > before; });
    }
  };
  wait(8, "/");  // Half of the queue.
  expect_refused(send());
  wait(8, "/high");
  EXPECT_EQ(counters().limit_waiting.value(), 16u);
  expect_refused(send("/high"));
  EXPECT_EQ(refused(Priority::kLow), 1u);
  EXPECT_EQ(refused(Priority::kNormal), 1u);
  EXPECT_EQ(refused(Priority::kHigh), 1u);
  // And those of high priority go on first.
  for (size_t i = 0; i < 2; ++i) expect_served(i, *streams[i]);
  for (size_t i = 2; i < 10; ++i) expect_served(i, *high[i - 2]);
  for (size_t i = 10; i < 18; ++i) rig.request_at(origin, i).respond(200, "fine");
  rig.until([&] { return rig.ended(HttpEnd::kOk) == 18; });
  EXPECT_EQ(rig.ended(HttpEnd::kConcurrencyLimit), 3u);
}

TEST_P(ConcurrencyLimitTest, NobodyWaitsForLongerThanMaxWait) {
  limit().max_wait = 100s;
  rig.start();
  const std::vector<PeerStream*> streams = fill(3);
  rig.pass(60s);
  EXPECT_FALSE(streams[2]->over());
  rig.pass(60s);
  expect_refused(*streams[2]);
  EXPECT_EQ(counters().limit_waiting.value(), 0u);
  for (size_t i = 0; i < 2; ++i) expect_served(i, *streams[i]);
}

TEST_P(ConcurrencyLimitTest, NobodyWaitsWithoutMaxWait) {
  limit().max_wait = 0s;
  rig.start();
  const std::vector<PeerStream*> streams = fill(2);
  expect_refused(send("/high"));
  for (size_t i = 0; i < 2; ++i) expect_served(i, *streams[i]);
}

TEST_P(ConcurrencyLimitTest, MaxPendingCountsThoseThatWait) {
  rig.upstream().pool.max_pending = 1;
  rig.start();
  const std::vector<PeerStream*> streams = fill(3);
  expect_refused(send());
  for (size_t i = 0; i < 3; ++i) expect_served(i, *streams[i]);
}

TEST_P(ConcurrencyLimitTest, ClientsLeave) {
  rig.start();
  std::vector<HttpPeer*> clients;
  for (size_t i = 0; i < 4; ++i) {
    clients.push_back(&rig.connect());
    clients.back()->send_request();
    rig.until([&] { return counters().limit_in_flight.value() + counters().limit_waiting.value() == i + 1; });
  }
  clients[2]->break_off();  // It waits.
  rig.until([&] { return counters().limit_waiting.value() == 1; });
  clients[0]->break_off();  // It is in flight.
  rig.until([&] { return counters().limit_waiting.value() == 0; });
  EXPECT_EQ(counters().limit_in_flight.value(), 2u);
  rig.request_at(origin, 2).respond(200, "fine");
  rig.until([&] { return rig.ended(HttpEnd::kOk) == 1; });
  clients[1]->break_off();
  rig.until([&] { return rig.ended(HttpEnd::kClientReset) == 3; });
  EXPECT_EQ(counters().limit_in_flight.value(), 0u);
}

TEST_P(ConcurrencyLimitTest, AResponseThatBeginsFreesItsPlace) {
  rig.start();
  const std::vector<PeerStream*> streams = fill(3);
  for (size_t i = 0; i < 2; ++i) rig.request_at(origin, i).respond(200, {}, false);
  expect_served(2, *streams[2]);
  EXPECT_EQ(counters().limit_in_flight.value(), 0u);
  for (size_t i = 0; i < 2; ++i) {
    rig.request_at(origin, i).send("late", true);
    rig.expect_response(*streams[i], 200, "late");
  }
}

TEST_P(ConcurrencyLimitTest, UploadsTakeHalfOfThePlaces) {
  limit().min = limit().max = limit().initial = 4;
  rig.start();
  std::vector<PeerStream*> uploads;
  for (size_t i = 0; i < 4; ++i) {
    uploads.push_back(&rig.connect().post("a part", false));
    rig.until([&] { return origin.requests.size() == i + 1; });
  }
  // Clients of their kind pay: others find two places.
  PeerStream& refused = rig.connect().post("a part", false);
  rig.wait_over(refused);
  EXPECT_EQ(refused.head.status, 503);
  std::vector<PeerStream*> others;
  for (size_t i = 4; i < 6; ++i) {
    others.push_back(&send());
    rig.until([&] { return origin.requests.size() == i + 1; });
  }
  PeerStream& waiting = send();
  rig.until([&] { return counters().limit_waiting.value() == 1; });
  for (size_t i = 4; i < 6; ++i) expect_served(i, *others[i - 4]);
  expect_served(6, waiting);
  for (size_t i = 0; i < 4; ++i) {
    uploads[i]->send("", true);
    rig.wait_over(rig.request_at(origin, i));
    expect_served(i, *uploads[i]);
  }
}

TEST_P(ConcurrencyLimitTest, TunnelsKeepNoPlace) {
  rig.start();
  std::vector<PeerStream*> tunnels;
  for (size_t i = 0; i < 3; ++i) {
    tunnels.push_back(&rig.connect_greeted().websocket());
    PeerStream& request = rig.request_at(origin, i);
    request.respond(200, {}, false);
    rig.until([&] { return tunnels.back()->has_head; });
  }
  EXPECT_EQ(counters().limit_in_flight.value(), 0u);
  for (size_t i = 0; i < 3; ++i) {
    tunnels[i]->send("", true);
    rig.request_at(origin, i).send("", true);
    rig.wait_over(*tunnels[i]);
  }
}

TEST_P(ConcurrencyLimitTest, LongPollsLoseTheirPlace) {
  rig.start();
  const std::vector<PeerStream*> polls = fill(2);
  rig.pass(11s);
  PeerStream& other = send();
  expect_served(2, other);
  EXPECT_EQ(counters().limit_in_flight.value(), 0u);
  for (size_t i = 0; i < 2; ++i) expect_served(i, *polls[i]);
}

TEST_P(ConcurrencyLimitTest, RetriesNeedAPlaceAgain) {
  route().retry.emplace().on = {RetryOn::k5xx};
  route().retry->attempts = 2;
  route().retry->backoff = route().retry->max_backoff = 0ms;
  rig.start();
  const std::vector<PeerStream*> streams = fill(2);
  PeerStream& waiting = send();
  rig.until([&] { return counters().limit_waiting.value() == 1; });
  rig.request_at(origin, 0).respond(503, "no");
  // The one that waited is in front of the retry.
  rig.until([&] { return origin.requests.size() == 3 && counters().limit_waiting.value() == 1; });
  expect_served(1, *streams[1]);
  expect_served(2, waiting);
  expect_served(3, *streams[0]);
  EXPECT_EQ(counters().limit_in_flight.value(), 0u);
}

TEST_P(ConcurrencyLimitTest, HedgesTakeFreePlacesOnly) {
  rig.add_origin();
  route().retry.emplace().hedge_after = 200ms;
  limit().min = limit().max = limit().initial = 1;
  rig.start();
  PeerStream& stream = send();
  rig.until([&] { return counters().limit_in_flight.value() == 1; });
  rig.pass(300ms);
  EXPECT_EQ(rig.upstream_counters().hedges.value(), 0u);
  EXPECT_EQ(refused(Priority::kLow), 1u);
  rig.until([&] { return !origin.requests.empty() || rig.ended(HttpEnd::kOk) > 0; });
  expect_served(0, stream);
}

TEST_P(ConcurrencyLimitTest, FailuresLowerIt) {
  limit() = {.min = 1, .max = 100, .initial = 8, .max_wait = 100h};
  rig.start();
  for (size_t i = 0; i < 30; ++i) {
    PeerStream& stream = send();
    rig.request_at(origin, i).respond(503, "no");
    rig.expect_response(stream, 503, "no");
    rig.pass(10ms);
  }
  EXPECT_LT(counters().limit.value(), 8u);
}

TEST_P(ConcurrencyLimitTest, ErrorsOfAProgramDoNot) {
  limit() = {.min = 1, .max = 100, .initial = 8, .max_wait = 100h};
  rig.start();
  for (size_t i = 0; i < 30; ++i) {
    PeerStream& stream = send();
    rig.request_at(origin, i).respond(500, "no");
    rig.expect_response(stream, 500, "no");
    rig.pass(10ms);
  }
  EXPECT_EQ(counters().limit.value(), 8u);
  EXPECT_EQ(counters().limit_base_us.value(), 0u) << "nor do they say how long responses take";
}

}  // namespace
}  // namespace sluice
