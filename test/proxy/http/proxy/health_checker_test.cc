// Checks of endpoints, against servers that use the proxy's own codecs. The test sets the time.

#include "proxy/http/proxy/health_checker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "proxy/http/proxy/grpc_health.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using namespace std::string_literals;  // NOLINT(google-build-using-namespace)
using test::HttpOrigin;
using test::HttpRig;
using test::PeerStream;

/// Each version of HTTP towards the endpoints.
class HealthCheckerTest : public testing::TestWithParam<bool> {
 protected:
  HealthCheckerTest() {
    check().interval = 10s;
    check().timeout = 2s;
    check().http.emplace();
    rig.upstream().max_fails = 0;
  }
  config::HealthCheck& check() {
    auto& check = rig.upstream().health_check;
    return check ? *check : check.emplace();
  }
  bool http2() const { return GetParam(); }
  // The next check, once its head has arrived.
  PeerStream& next(HttpOrigin& origin) { return rig.request_at(origin, responded_++); }
  // Responds to the next check, once it is due.
  void respond(HttpOrigin& origin, uint16_t status, std::string_view body = "well") {
    const uint64_t before = rig.health().checks.value();
    if (before > 0) rig.pass(11s);
    next(origin).respond(status, body);
    rig.until([&] { return rig.health().checks.value() == before + 1; });
  }
  bool healthy(size_t index = 0) { return rig.health(index).healthy.load(); }
  uint64_t checks(size_t index = 0) { return rig.health(index).checks.value(); }
  uint64_t failed(size_t index = 0) { return rig.health(index).failed_checks.value(); }

  HttpRig rig{{.client_http2 = false, .upstream_http2 = GetParam()}};
  size_t responded_ = 0;
};

TEST_P(HealthCheckerTest, FirstAtOnceThenEveryInterval) {
  check().http->path = "/healthz?x=y";
  check().http->host = "inner.test";
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  PeerStream& first = next(origin);
  EXPECT_TRUE(healthy());  // Until the first result.
  EXPECT_EQ(first.head.method(), "GET");
  EXPECT_EQ(first.head.path(), "/healthz?x=y");
  EXPECT_EQ(first.head.authority(), "inner.test");
  EXPECT_EQ(first.field("user-agent"), "sluice-health-check");
  first.respond(204, {}, true);
  rig.until([&] { return checks() == 1; });
  rig.until([&] { return origin.connections[0]->gone(); });
  EXPECT_FALSE(origin.connections[0]->was_reset());
  rig.pass(9900ms);
  EXPECT_EQ(origin.requests.size(), 1u);
  for (int i = 0; i < 5; ++i) respond(origin, 200);
  rig.until([&] { return origin.connections.back()->gone(); });
  EXPECT_EQ(checks(), 6u);
  EXPECT_EQ(failed(), 0u);
  EXPECT_EQ(origin.connections.size(), 6u);
  EXPECT_TRUE(healthy());
}

TEST_P(HealthCheckerTest, HostIsTheAddressByDefault) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  EXPECT_EQ(next(origin).head.authority(), "127.0.0.1:" + std::to_string(origin.port()));
}

TEST_P(HealthCheckerTest, Thresholds) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  respond(origin, 503);
  EXPECT_FALSE(healthy());  // The first result is enough.
  respond(origin, 200);
  respond(origin, 503);
  respond(origin, 200);
  EXPECT_FALSE(healthy());
  respond(origin, 200);
  EXPECT_TRUE(healthy());
  EXPECT_GT(rig.upstream_state().endpoint(0).up_since_ms.load(), 0u);
  respond(origin, 500);
  respond(origin, 500);
  EXPECT_TRUE(healthy());
  respond(origin, 500);
  EXPECT_FALSE(healthy());
  EXPECT_EQ(checks(), 8u);
  EXPECT_EQ(failed(), 5u);
}

TEST_P(HealthCheckerTest, ExpectedStatuses) {
  check().healthy_after = check().unhealthy_after = 1;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  for (const auto& [status, expected] : {std::pair{302, true}, {400, false}, {200, true}, {404, false}, {399, true}}) {
    respond(origin, static_cast<uint16_t>(status));
    EXPECT_EQ(healthy(), expected) << status;
  }
}

TEST_P(HealthCheckerTest, ConfiguredStatuses) {
  check().healthy_after = check().unhealthy_after = 1;
  check().http->status = {404, 401};
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  for (const auto& [status, expected] : {std::pair{200, false}, {404, true}, {403, false}, {401, true}}) {
    respond(origin, static_cast<uint16_t>(status));
    EXPECT_EQ(healthy(), expected) << status;
  }
}

TEST_P(HealthCheckerTest, ExpectedBody) {
  check().healthy_after = check().unhealthy_after = 1;
  check().http->body = "all good";
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  respond(origin, 200, "is all good?");
  EXPECT_TRUE(healthy());
  respond(origin, 200, "all go");
  EXPECT_FALSE(healthy());
  respond(origin, 200, std::string(60'000, 'x') + "all good" + std::string(1'000'000, 'x'));
  EXPECT_TRUE(healthy());
  respond(origin, 200, std::string(65'536, 'x') + "all good");  // Beyond the part that is searched.
  EXPECT_FALSE(healthy());
  // It is found before the end, across the boundary of two pieces.
  rig.pass(11s);
  PeerStream& slow = next(origin);
  slow.respond(200, {}, false);
  slow.send("it is all g");
  rig.settle();
  EXPECT_EQ(checks(), 4u);
  slow.send("ood");
  rig.until([&] { return checks() == 5; });
  EXPECT_TRUE(healthy());
  rig.pass(11s);
  next(origin).respond(200, {}, true);  // No body at all.
  rig.until([&] { return checks() == 6; });
  EXPECT_FALSE(healthy());
}

// An endpoint that accepts connections and sends nothing, or not all of its response.
TEST_P(HealthCheckerTest, TimesOut) {
  HttpOrigin& origin = rig.add_origin();
  origin.silent = true;
  rig.start();
  rig.pass(1900ms);
  EXPECT_TRUE(healthy());
  rig.pass(200ms);
  rig.until([&] { return failed() == 1; });
  EXPECT_FALSE(healthy());
}

TEST_P(HealthCheckerTest, TimesOutDuringAResponse) {
  check().http->body = "all good";
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  PeerStream& stream = next(origin);
  stream.respond(200, {}, false);
  stream.send("all");
  rig.settle();
  EXPECT_EQ(checks(), 0u);
  rig.pass(2100ms);
  rig.until([&] { return failed() == 1; });
  EXPECT_FALSE(healthy());
}

TEST_P(HealthCheckerTest, FailedConnections) {
  check().unhealthy_after = 1;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  respond(origin, 200);
  origin.stop();
  rig.pass(11s);
  rig.until([&] { return failed() == 1; });
  EXPECT_FALSE(healthy());
  EXPECT_EQ(checks(), 2u);
}

TEST_P(HealthCheckerTest, BrokenOff) {
  check().healthy_after = 1;
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  next(origin).cancel(ResetReason::kInternal);
  rig.until([&] { return failed() == 1; });
  EXPECT_FALSE(healthy());
  respond(origin, 200);
  EXPECT_TRUE(healthy());
  rig.pass(11s);
  next(origin);
  origin.connections.back()->break_off();
  rig.until([&] { return failed() == 2; });
}

TEST_P(HealthCheckerTest, ConnectionOnly) {
  check().http.reset();
  check().unhealthy_after = 1;
  HttpOrigin& origin = rig.add_origin();
  origin.silent = true;
  rig.start();
  rig.until([&] { return checks() == 1; });
  EXPECT_TRUE(healthy());
  rig.pass(11s);
  rig.until([&] { return checks() == 2; });
  origin.stop();
  rig.pass(11s);
  rig.until([&] { return failed() == 1; });
  EXPECT_FALSE(healthy());
}

TEST_P(HealthCheckerTest, AnotherPort) {
  HttpRig other{{.client_http2 = false, .upstream_http2 = http2()}};
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& of_checks = other.add_origin();
  check().port = of_checks.port();
  rig.start();
  rig.until([&] {
    of_checks.turn();
    if (of_checks.requests.size() == 1 && of_checks.requests[0]->has_head && !of_checks.requests[0]->sent_end) {
      of_checks.requests[0]->respond(200, "well");
    }
    return checks() == 1;
  });
  EXPECT_EQ(failed(), 0u);
  EXPECT_EQ(origin.connections.size(), 0u);
}

// Each endpoint has its own checks. When everything ends during a check, nothing is left, which the rig verifies.
TEST_P(HealthCheckerTest, EndsDuringChecks) {
  rig.add_origin();
  HttpOrigin& silent = rig.add_origin();
  silent.silent = true;
  rig.start();
  rig.settle();
  EXPECT_EQ(checks(0), 0u);
  EXPECT_EQ(checks(1), 0u);
}

// Nothing is known about an endpoint that replaced another, and late results about the old one do not count for it.
TEST_P(HealthCheckerTest, AnotherEndpoint) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  respond(origin, 503);
  EXPECT_FALSE(healthy());
  rig.upstream_state().endpoint(0).begin_anew(0);
  EXPECT_TRUE(healthy());
  respond(origin, 200);
  EXPECT_TRUE(healthy());
  rig.pass(11s);
  PeerStream& old = next(origin);
  rig.upstream_state().endpoint(0).begin_anew(0);
  old.respond(503, "ill");
  rig.settle();
  EXPECT_EQ(checks(), 2u);
  respond(origin, 503);  // Its first one.
  EXPECT_FALSE(healthy());
}

// A new address of a name is checked at once, and no more when it is gone; another address in its place is another
// endpoint.
TEST_P(HealthCheckerTest, FollowsNames) {
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& other = rig.add_origin();
  rig.upstream().endpoints = {{.address = config::EndpointAddress::parse("app.test:80").value()}};
  rig.upstream().resolve.max_addresses = 1;
  rig.start();
  rig.pass(11s);
  rig.resolve(0, {origin.port()});
  respond(origin, 503);
  EXPECT_FALSE(healthy());
  rig.pass(11s);
  PeerStream& late = next(origin);
  rig.resolve(0, {other.port()});
  rig.request_at(other).respond(200, "well");
  rig.until([&] { return checks(1) == 1; });
  EXPECT_TRUE(healthy(1));
  late.respond(503, "ill");
  rig.until([&] { return origin.connections.back()->gone(); });
  rig.pass(11s);
  rig.request_at(other, 1).respond(200, "well");
  rig.until([&] { return checks(1) == 2; });
  EXPECT_EQ(origin.requests.size(), 2u);
}

// ---- Effects on requests ----

TEST_P(HealthCheckerTest, RequestsPassOverUnhealthyEndpoints) {
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& other = rig.add_origin();
  rig.start();
  next(origin).respond(200, "well");
  rig.request_at(other).respond(200, "well");
  rig.until([&] { return checks(0) == 1 && checks(1) == 1; });
  // A connection to each is kept for later.
  for (int i = 0; i < 2; ++i) {
    PeerStream& stream = rig.connect().send_request();
    rig.until([&] { return origin.requests.size() + other.requests.size() == static_cast<size_t>(3 + i); });
    for (HttpOrigin* const each : {&origin, &other}) {
      if (!each->requests.back()->sent_end) each->requests.back()->respond(200, "fine");
    }
    rig.expect_response(stream, 200, "fine");
  }
  ASSERT_EQ(origin.requests.size(), 2u);
  for (size_t i = 0; i < 3; ++i) {
    rig.pass(11s);
    rig.request_at(origin, 2 + i).respond(503, "ill");
    rig.request_at(other, 2 + i).respond(200, "well");
    rig.until([&] { return failed(0) == i + 1 && checks(1) == i + 2; });
  }
  EXPECT_FALSE(healthy(0));
  for (size_t i = 0; i < 10; ++i) {
    PeerStream& stream = rig.connect().send_request();
    rig.request_at(other, 5 + i).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  }
  EXPECT_EQ(origin.requests.size(), 5u);
  rig.until([&] { return origin.connections[1]->gone(); });  // The kept connection.
  EXPECT_FALSE(origin.connections[1]->was_reset());
}

TEST_P(HealthCheckerTest, AllAreTriedWhenNoneIsHealthy) {
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& other = rig.add_origin();
  rig.start();
  next(origin).respond(500, "ill");
  rig.request_at(other).respond(500, "ill");
  rig.until([&] { return !healthy(0) && !healthy(1); });
  for (int i = 0; i < 4; ++i) {
    PeerStream& stream = rig.connect().send_request();
    rig.until([&] { return origin.requests.size() + other.requests.size() == static_cast<size_t>(3 + i); });
    for (HttpOrigin* const each : {&origin, &other}) {
      if (!each->requests.back()->sent_end) each->requests.back()->respond(200, "fine");
    }
    rig.expect_response(stream, 200, "fine");
  }
  EXPECT_EQ(origin.requests.size(), 3u);
  EXPECT_EQ(other.requests.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(, HealthCheckerTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& each) { return each.param ? "Http2" : "Http1"; });

// ---- gRPC ----

class GrpcCheckTest : public testing::Test {
 protected:
  GrpcCheckTest() {
    config::HealthCheck& check = rig.upstream().health_check.emplace();
    check.healthy_after = check.unhealthy_after = 1;
    check.grpc.emplace().service = "a.B";
  }
  PeerStream& next(HttpOrigin& origin) {
    if (n_ > 0) rig.pass(6s);
    return rig.request_at(origin, n_++);
  }
  // Whether it counts as healthy after this.
  bool after(PeerStream& stream, const std::string& body, std::string_view status) {
    stream.respond(200, {{"content-type", "application/grpc"}}, false);
    stream.send(body);
    stream.send_trailers({{"grpc-status", status}});
    rig.until([&] { return rig.health().checks.value() == n_; });
    return rig.health().healthy.load();
  }

  HttpRig rig{{.client_http2 = false, .upstream_http2 = true}};
  size_t n_ = 0;
};

TEST_F(GrpcCheckTest, SendsAndReads) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  PeerStream& first = next(origin);
  rig.until([&] { return first.over(); });
  EXPECT_EQ(first.head.method(), "POST");
  EXPECT_EQ(first.head.path(), "/grpc.health.v1.Health/Check");
  EXPECT_EQ(first.field("content-type"), "application/grpc");
  EXPECT_EQ(first.field("te"), "trailers");
  EXPECT_EQ(first.body, grpc_health_request("a.B"));
  EXPECT_TRUE(after(first, "\0\0\0\0\x02\x08\x01"s, "0"));
  EXPECT_FALSE(after(next(origin), "\0\0\0\0\x02\x08\x02"s, "0"));  // NOT_SERVING
  EXPECT_TRUE(after(next(origin), "\0\0\0\0\x02\x08\x01"s, "0"));
  EXPECT_FALSE(after(next(origin), "\0\0\0\0\x02\x08\x01"s, "14"));  // An error, whatever it sent before.
  EXPECT_TRUE(after(next(origin), "\0\0\0\0\x02\x08\x01"s, "0"));
  EXPECT_FALSE(after(next(origin), "\0\0\0\0"s, "0"));  // Incomplete.
}

TEST_F(GrpcCheckTest, NoSuchService) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  // A response of trailers only.
  next(origin).respond(200, {{"content-type", "application/grpc"}, {"grpc-status", "12"}}, true);
  rig.until([&] { return rig.health().checks.value() == 1; });
  EXPECT_FALSE(rig.health().healthy.load());
}

TEST_F(GrpcCheckTest, NotGrpc) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  next(origin).respond(404, "no such page");
  rig.until([&] { return rig.health().checks.value() == 1; });
  EXPECT_FALSE(rig.health().healthy.load());
  EXPECT_TRUE(after(next(origin), "\0\0\0\0\x02\x08\x01"s, "0"));
  PeerStream& page = next(origin);
  page.respond(200, "<html>");
  rig.until([&] { return rig.health().checks.value() == 3; });
  EXPECT_FALSE(rig.health().healthy.load());
}

// ---- Responses to requests ----

class EjectedRequestsTest : public test::HttpRigTest {
 protected:
  EjectedRequestsTest() {
    rig.config().idle_timeout = rig.config().stream_idle_timeout = rig.config().body_timeout = 100h;
    rig.upstream().pool.idle_timeout = 100h;
    rig.upstream().ejection.emplace().consecutive_errors = 3;
  }
  // One request, which `origin` must get; `respond` responds to it there.
  template <typename Respond>
  PeerStream& serve(HttpOrigin& origin, Respond respond) {
    PeerStream& stream = rig.connect().send_request();
    respond(rig.request_at(origin, origin.requests.size()));
    rig.wait_over(stream);
    return stream;
  }
  bool out(size_t index = 0) { return rig.health(index).ejected_until_ms.load() != 0; }
};

TEST_P(EjectedRequestsTest, ResponsesWith5xx) {
  HttpOrigin& first = rig.add_origin();
  HttpOrigin& second = rig.add_origin();
  rig.start();
  const auto serve_some = [&](int count, uint16_t status_of_first) {
    for (int i = 0; i < count; ++i) {
      const size_t before = first.requests.size() + second.requests.size();
      PeerStream& stream = rig.connect().send_request();
      rig.until([&] { return first.requests.size() + second.requests.size() == before + 1; });
      for (HttpOrigin* const each : {&first, &second}) {
        if (each->requests.empty() || each->requests.back()->sent_end) continue;
        each->requests.back()->respond(each == &first ? status_of_first : 200, "x");
      }
      rig.wait_over(stream);
    }
  };
  serve_some(12, 500);  // In turn, until one is ejected; from then on all go to the other.
  EXPECT_TRUE(out(0));
  EXPECT_EQ(first.requests.size(), 3u);
  EXPECT_EQ(second.requests.size(), 9u);
  rig.pass(31s);
  serve_some(4, 200);
  EXPECT_FALSE(out(0));
  EXPECT_EQ(first.requests.size(), 5u);
  EXPECT_EQ(rig.health(0).ejections.load(), 1u);
}

TEST_P(EjectedRequestsTest, RequestsWithoutAResponse) {
  rig.upstream().response_timeout = 5s;
  HttpOrigin& origin = rig.add_origin();
  rig.add_endpoint(1);  // An endpoint to fall back on. No request goes there, as it is unhealthy when one is chosen.
  rig.start();
  const auto others = [&](bool healthy) { rig.health(1).healthy.store(healthy); };
  others(false);
  serve(origin, [](PeerStream& request) { request.cancel(ResetReason::kInternal); });
  serve(origin, [&](PeerStream&) { rig.pass(6s); });
  EXPECT_EQ(rig.health(0).errors_in_a_row.load(), 2u);
  serve(origin, [](PeerStream& request) { request.respond(200, "x"); });
  EXPECT_EQ(rig.health(0).errors_in_a_row.load(), 0u);
  for (int i = 0; i < 3; ++i) {
    others(false);
    PeerStream& stream = rig.connect().post("x");  // It is not retried, whichever connection it used.
    PeerStream& request = rig.request_at(origin, origin.requests.size());
    others(true);
    request.connection->break_off();
    rig.wait_over(stream);
  }
  EXPECT_TRUE(out());
}

// A client that gives up says nothing about the endpoint; nor does an endpoint that refuses a stream.
TEST_P(EjectedRequestsTest, ErrorsOfOthersDoNotCount) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  for (int i = 0; i < 4; ++i) {
    PeerStream& stream = rig.connect().send_request();
    PeerStream& request = rig.request_at(origin, origin.requests.size());
    client_http2() ? stream.cancel() : stream.connection->break_off();
    rig.wait_cancelled(request);
    if (upstream_http2()) serve(origin, [](PeerStream& refused) { refused.cancel(ResetReason::kCancelled); });
  }
  EXPECT_EQ(rig.health(0).errors_in_a_row.load(), 0u);
  EXPECT_FALSE(out());
}

SLUICE_EACH_VERSION(EjectedRequestsTest);

}  // namespace
}  // namespace sluice
