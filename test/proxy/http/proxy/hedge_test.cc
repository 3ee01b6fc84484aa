// Hedged requests, which a second endpoint gets while the first is slow: when they are sent, whose response is used,
// and what happens to the other one. At the end of each test the rig checks that nothing is left: streams, counts of
// endpoints, chunks.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "proxy/http/proxy/exchange.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using config::RetryOn;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

class HttpHedgeTest : public test::HttpRigTest {
 protected:
  HttpHedgeTest() : one(rig.add_origin()), other(rig.add_origin()) {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
    config.body_timeout = config.stuck_timeout = config.header_timeout = 100h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = rig.upstream().connect_timeout = 100h;
    config.forward.clear();
    route.forward = "origin";
    policy.hedge_after = 200ms;
    policy.backoff = policy.max_backoff = 0ms;
  }

  /// The endpoint that gets the request first, and is slow.
  HttpOrigin& first() {
    if (!first_) {
      rig.until([&] { return request_count() > 0; });
      first_ = one.requests.empty() ? &other : &one;
    }
    return *first_;
  }
  HttpOrigin& second() { return &first() == &one ? other : one; }
  size_t request_count() const { return one.requests.size() + other.requests.size(); }
  /// Both requests, when the second was sent.
  struct Pair {
    PeerStream& first;
    PeerStream& second;
  };
  Pair hedged() {
    PeerStream& slow = rig.request_at(first());
    rig.pass(250ms);
    return {slow, rig.request_at(second())};
  }
  void expect_no_hedge() {
    rig.pass(10s);
    EXPECT_EQ(request_count(), 1u);
    EXPECT_EQ(rig.upstream_counters().hedges.value(), 0u);
  }
  /// Prepares for another request.
  void next_request() {
    one.requests.clear();
    other.requests.clear();
    first_ = nullptr;
  }
  void expect_hedges(uint64_t sent, uint64_t won) {
    EXPECT_EQ(rig.upstream_counters().hedges.value(), sent);
    EXPECT_EQ(rig.upstream_counters().hedges_won.value(), won);
  }

  HttpOrigin& one;
  HttpOrigin& other;
  config::HttpRoute& route = rig.config().routes.emplace_back();
  config::Retry& policy = route.retry.emplace();

 private:
  HttpOrigin* first_ = nullptr;
};

TEST_P(HttpHedgeTest, SecondIsFaster) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/x", {{"x-own", "1"}});
  rig.request_at(first());
  rig.pass(100ms);
  EXPECT_EQ(request_count(), 1u) << "not yet";
  const Pair pair = hedged();
  EXPECT_EQ(pair.second.head.path(), "/x");
  EXPECT_EQ(pair.second.field("x-own"), "1");
  pair.second.respond(200, "the second");
  rig.expect_response(stream, 200, "the second");
  rig.wait_cancelled(pair.first);
  rig.expect_ended(HttpEnd::kOk);
  expect_hedges(1, 1);
  EXPECT_EQ(rig.http().retries.value(), 0u);
  EXPECT_EQ(rig.upstream_counters().retries.value(), 0u);
}

TEST_P(HttpHedgeTest, FirstIsFasterAfterAll) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  const Pair pair = hedged();
  pair.first.respond(200, {}, false);
  rig.wait_cancelled(pair.second);  // At once.
  pair.first.send("the first", true);
  rig.expect_response(stream, 200, "the first");
  rig.expect_ended(HttpEnd::kOk);
  expect_hedges(1, 0);
}

// A stream that was taken over is an ordinary one: it is read as fast as the client reads, and may break off.
TEST_P(HttpHedgeTest, LongResponseOfTheSecond) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  const Pair pair = hedged();
  client.reads = false;
  const std::string body = test::stream_bytes(1, 0, 4'000'000);
  pair.second.respond(200, body);
  rig.settle(50);
  client.reads = true;
  rig.expect_response(stream, 200, body);
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpHedgeTest, SecondBreaksOffAfterItsHead) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  const Pair pair = hedged();
  pair.second.respond(200, {}, false);
  rig.until([&] { return stream.has_head; });
  pair.second.cancel();
  rig.wait_over(stream);
  EXPECT_TRUE(stream.reset);
  rig.expect_ended(HttpEnd::kUpstreamReset);
}

TEST_P(HttpHedgeTest, BodiesGoToBoth) {
  rig.start();
  const std::string body = test::stream_bytes(3, 0, 50'000);
  PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
  stream.send(body);
  rig.settle();
  stream.send_trailers({{"x-sum", "7"}});
  const Pair pair = hedged();
  for (PeerStream* const request : {&pair.first, &pair.second}) {
    rig.wait_over(*request);
    EXPECT_TRUE(request->body == body) << request->body.size();
    EXPECT_EQ(request->trailers.value("x-sum"), "7");
  }
  pair.second.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
}

// ---- No hedge ----

TEST_P(HttpHedgeTest, NotForNonIdempotentRequests) {
  rig.start();
  rig.connect().post("once");
  rig.request_at(first());
  expect_no_hedge();
}

TEST_P(HttpHedgeTest, NotBeforeTheRequestIsComplete) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
  rig.request_at(first());
  expect_no_hedge();
  stream.send("all", true);
  rig.wait_over(rig.request_at(first()));
  EXPECT_EQ(hedged().second.head.method(), "PUT");
}

TEST_P(HttpHedgeTest, NotForLongBodies) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
  stream.send(std::string(100'000, 'x'), true);
  rig.wait_over(rig.request_at(first()));
  expect_no_hedge();
}

TEST_P(HttpHedgeTest, NotToAnEndpointThatIsDown) {
  rig.start();
  rig.connect().send_request();
  rig.request_at(first());
  rig.health(&second() == &other ? 1 : 0).healthy = false;
  expect_no_hedge();
}

TEST_P(HttpHedgeTest, NotOverTheBudget) {
  rig.upstream().retry_budget = {.percent = 0, .min = 0};
  rig.start();
  rig.connect().send_request();
  rig.request_at(first());
  expect_no_hedge();
  EXPECT_EQ(rig.upstream_counters().retries_over_budget.value(), 1u);
}

// A hedge for which there is no endpoint takes nothing from the budget: real failures may still be retried.
TEST_P(HttpHedgeTest, NoOtherEndpointCostsNoBudget) {
  rig.upstream().retry_budget = {.percent = 0, .min = 1};
  policy.on = {RetryOn::k5xx};
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& slow = rig.request_at(first());
  rig.health(&second() == &other ? 1 : 0).healthy = false;
  expect_no_hedge();
  rig.health(&second() == &other ? 1 : 0).healthy = true;
  slow.respond(503, "no");
  rig.request_at(second()).respond(200, "again");
  rig.expect_response(stream, 200, "again");
}

TEST_P(HttpHedgeTest, HedgeIsOneOfTheAttempts) {
  policy.on = {RetryOn::k5xx};
  policy.attempts = 2;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  const Pair pair = hedged();
  pair.second.respond(503, "second");
  rig.wait_over(rig.request_at(second()));
  rig.settle();
  pair.first.respond(503, "first");
  rig.expect_response(stream, 503, "first");
  EXPECT_EQ(request_count(), 2u);
}

// ---- One of the two fails ----

TEST_P(HttpHedgeTest, RetriableResponseDoesNotWin) {
  policy.on = {RetryOn::k5xx};
  rig.start();
  PeerStream& bad_second = rig.connect().send_request();
  {
    const Pair pair = hedged();
    pair.second.respond(503, "no");
    rig.settle();
    EXPECT_FALSE(bad_second.over());
    pair.first.respond(200, "the first");
    rig.expect_response(bad_second, 200, "the first");
  }
  next_request();
  PeerStream& bad_first = rig.connect().send_request();
  const Pair pair = hedged();
  pair.first.respond(503, "no");
  rig.settle();
  EXPECT_FALSE(bad_first.over());
  pair.second.respond(200, "the second");
  rig.expect_response(bad_first, 200, "the second");
  expect_hedges(2, 1);
  EXPECT_EQ(rig.upstream_counters().retries.value(), 0u);
}

// Without `5xx` in the policy it is the response.
TEST_P(HttpHedgeTest, OtherErrorsWin) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  hedged().second.respond(503, "an answer");
  rig.expect_response(stream, 503, "an answer");
}

TEST_P(HttpHedgeTest, OneBreaksOff) {
  policy.on = {RetryOn::kReset};
  policy.attempts = 3;
  rig.upstream().retry_budget = {.percent = 0, .min = 2};  // The other one takes nothing from it.
  rig.start();
  PeerStream& without_first = rig.connect().send_request();
  {
    const Pair pair = hedged();
    pair.first.cancel(ResetReason::kInternal);
    rig.settle();
    pair.second.respond(200, "the second");
    rig.expect_response(without_first, 200, "the second");
  }
  next_request();
  PeerStream& without_second = rig.connect().send_request();
  const Pair pair = hedged();
  pair.second.cancel(ResetReason::kInternal);
  rig.settle();
  pair.first.respond(200, "the first");
  rig.expect_response(without_second, 200, "the first");
  rig.expect_ended(HttpEnd::kOk, 2);
}

TEST_P(HttpHedgeTest, BothBreakOff) {
  policy.on = {RetryOn::kConnectFailure};
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  const Pair pair = hedged();
  pair.first.cancel();
  rig.settle();
  EXPECT_FALSE(stream.over());
  pair.second.cancel();
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 502);
  rig.expect_ended(HttpEnd::kUpstreamReset);
}

// As many attempts as the policy has, with a hedge each, as long as there are endpoints.
TEST_P(HttpHedgeTest, BothBreakOffAndRequestIsRetried) {
  policy.on = {RetryOn::kReset};
  policy.attempts = 4;
  rig.start();
  PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
  stream.send("body", true);
  {
    const Pair pair = hedged();
    pair.first.cancel();
    rig.settle();
    EXPECT_EQ(request_count(), 2u);
    pair.second.cancel();
  }
  rig.until([&] { return request_count() == 3; });
  rig.pass(250ms);
  rig.until([&] { return request_count() == 4; });
  PeerStream& last = rig.request_at(other, 1);
  rig.wait_over(last);
  EXPECT_EQ(last.body, "body");
  last.respond(200, "the fourth");
  rig.expect_response(stream, 200, "the fourth");
  EXPECT_EQ(rig.upstream_counters().hedges.value(), 2u);
  EXPECT_EQ(rig.upstream_counters().retries.value(), 1u);
}

// The last attempt has no hedge, even if it still waits for its connection, as it does in HTTP/2.
TEST_P(HttpHedgeTest, AttemptsAreBounded) {
  policy.on = {RetryOn::kReset};
  policy.attempts = 3;
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request();
  const Pair pair = hedged();
  one.silent = other.silent = true;
  pair.first.connection->break_off();
  rig.settle();
  pair.second.connection->break_off();
  const auto connections = [&] { return one.connections.size() + other.connections.size(); };
  rig.until([&] { return connections() == 3; });
  rig.pass(10s);
  EXPECT_EQ(connections(), 3u);
  EXPECT_EQ(rig.upstream_counters().hedges.value(), 1u);
  one.silent = other.silent = false;
}

TEST_P(HttpHedgeTest, SecondCannotBeReached) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& slow = rig.request_at(first());
  second().stop();
  rig.pass(250ms);
  const size_t index = &second() == &other ? 1 : 0;
  rig.until([&] { return rig.connect_errors(ConnectError::kRefused, index) == 1; });
  rig.pass(10s);
  EXPECT_FALSE(stream.over());
  slow.respond(200, "the first");
  rig.expect_response(stream, 200, "the first");
  expect_hedges(0, 0);
}

TEST_P(HttpHedgeTest, FirstTimesOut) {
  policy.on = {RetryOn::kTimeout};
  policy.try_timeout = 1s;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  const Pair pair = hedged();
  rig.pass(850ms);
  rig.wait_cancelled(pair.first);
  EXPECT_FALSE(stream.over());
  pair.second.respond(200, "the second");
  rig.expect_response(stream, 200, "the second");
  // It has the same timeout.
  next_request();
  PeerStream& slow = rig.connect().send_request();
  const Pair both = hedged();
  rig.pass(850ms);
  rig.wait_cancelled(both.first);
  rig.pass(250ms);
  EXPECT_TRUE(slow.over());
  EXPECT_EQ(slow.head.status, 504);
  rig.expect_ended(HttpEnd::kResponseTimeout);
}

TEST_P(HttpHedgeTest, ClientsThatLeave) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  const Pair pair = hedged();
  stream.cancel();
  rig.wait_cancelled(pair.first);
  rig.wait_cancelled(pair.second);
  rig.expect_ended(HttpEnd::kClientReset);
}

TEST_P(HttpHedgeTest, RequestTimeout) {
  route.request_timeout = 1s;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  const Pair pair = hedged();
  rig.pass(1s);
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 504);
  rig.wait_cancelled(pair.first);
  rig.wait_cancelled(pair.second);
  rig.expect_ended(HttpEnd::kRequestTimeout);
}

// A response is complete only with its final head.
TEST_P(HttpHedgeTest, InterimResponsesDoNotWin) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& slow = rig.request_at(first());
  slow.respond(103, {}, false);
  rig.until([&] { return stream.interim.size() == 1; });
  const Pair pair = hedged();
  pair.second.respond(103, {}, false);
  rig.settle();
  EXPECT_FALSE(pair.first.reset);
  pair.second.respond(200, "the second");
  rig.expect_response(stream, 200, "the second");
  EXPECT_EQ(stream.interim.size(), 1u);
}

// ---- Connections that are not ready yet ----

// HTTP/2 waits for the endpoint's SETTINGS.
TEST_P(HttpHedgeTest, FirstWaitsForItsConnection) {
  one.silent = other.silent = true;
  rig.start();
  PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
  stream.send("body", true);
  rig.until([&] { return one.connections.size() + other.connections.size() == 1; });
  rig.settle();
  HttpOrigin& slow = one.connections.empty() ? other : one;
  HttpOrigin& fast = one.connections.empty() ? one : other;
  rig.pass(250ms);
  fast.silent = false;
  PeerStream& request = rig.request_at(fast);
  rig.wait_over(request);
  EXPECT_EQ(request.body, "body");
  request.respond(200, "fast");
  rig.expect_response(stream, 200, "fast");
  slow.silent = false;
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpHedgeTest, BothWaitAndTheFirstFails) {
  one.silent = other.silent = true;
  policy.on = {RetryOn::kRefused};
  rig.start();
  PeerStream& stream = rig.connect().send_request("PUT", "/", {}, false);
  stream.send("body", true);
  rig.until([&] { return one.connections.size() + other.connections.size() == 1; });
  rig.settle();
  HttpOrigin& slow = one.connections.empty() ? other : one;
  HttpOrigin& fast = one.connections.empty() ? one : other;
  rig.pass(250ms);
  rig.until([&] { return fast.connections.size() == 1; });
  slow.connections[0]->break_off();
  rig.settle();
  EXPECT_FALSE(stream.over());
  fast.silent = false;
  PeerStream& request = rig.request_at(fast);
  rig.wait_over(request);
  EXPECT_EQ(request.body, "body");
  request.respond(200, "fast");
  rig.expect_response(stream, 200, "fast");
  rig.expect_ended(HttpEnd::kOk);
}

TEST_P(HttpHedgeTest, BothWaitAndTheClientLeaves) {
  one.silent = other.silent = true;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.until([&] { return one.connections.size() + other.connections.size() == 1; });
  rig.settle();
  rig.pass(250ms);
  rig.until([&] { return one.connections.size() + other.connections.size() == 2; });
  stream.cancel();
  rig.expect_ended(HttpEnd::kClientReset);
  one.silent = other.silent = false;
  rig.settle();
}

// ---- Attribution ----

TEST_P(HttpHedgeTest, CookieNamesTheWinner) {
  rig.upstream().sticky.emplace();
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  hedged().second.respond(200, "the second");
  HttpOrigin& winner = second();
  rig.expect_response(stream, 200, "the second");
  const std::string cookie = stream.field("set-cookie");
  const size_t before = winner.requests.size();
  PeerStream& again = rig.connect().send_request("GET", "/", {{"cookie", cookie.substr(0, cookie.find(';'))}});
  rig.request_at(winner, before).respond(200, "kept");
  rig.expect_response(again, 200, "kept");
  EXPECT_EQ(again.field("set-cookie"), "");
}

// The winner's errors are its own, and the other one is not blamed for being slow.
TEST_P(HttpHedgeTest, ErrorsCountForTheWinner) {
  rig.upstream().ejection.emplace().consecutive_errors = 1;
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  hedged().second.respond(500, "an error");
  rig.expect_response(stream, 500, "an error");
  const size_t loser = &first() == &other ? 1 : 0;
  EXPECT_FALSE(rig.upstream_state().endpoint(1 - loser).up(0));
  EXPECT_TRUE(rig.upstream_state().endpoint(loser).up(0));
}

// ---- Storms ----

// Everything is slow, and each request would have its hedge: the upstream gets little more than the clients' requests.
TEST_P(HttpHedgeTest, HedgesAreBounded) {
  rig.upstream().retry_budget = {.percent = 20, .min = 3};
  rig.start();
  constexpr size_t kRequests = 60;
  HttpPeer& client = rig.connect();
  for (size_t i = 0; i < kRequests; ++i) {
    const size_t before = request_count();
    const size_t first_of_other = other.requests.size();
    PeerStream& stream = client.send_request();
    rig.until([&] { return request_count() > before; });
    PeerStream& slow = other.requests.size() > first_of_other ? *other.requests.back() : *one.requests.back();
    rig.until([&] { return slow.has_head; });
    rig.pass(201ms);
    slow.respond(200, {}, true);
    rig.wait_over(stream);
    EXPECT_EQ(stream.head.status, 200);
  }
  // In ten seconds of it there are at most 49 requests.
  EXPECT_LE(rig.upstream_counters().requests.value(), kRequests * 120 / 100 + 2 * 3);
  EXPECT_GE(rig.upstream_counters().hedges.value(), kRequests / 10);
  EXPECT_GT(rig.upstream_counters().retries_over_budget.value(), 0u);
}

SLUICE_EACH_VERSION(HttpHedgeTest);

}  // namespace
}  // namespace sluice
