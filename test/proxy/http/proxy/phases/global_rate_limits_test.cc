// Rate limits that a service counts (`global_rate_limits`): what it is told, and what becomes of its response, or of
// none. What calls of gRPC have in common is tested with `ext_authz`.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "test/proxy/http/proxy/session_rig.h"
#include "test/support/proto.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::grpc_framed;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;
using test::proto_bytes;
using test::proto_number;
using test::proto_pair;

class HttpGlobalRateLimits : public test::HttpRigTest {
 protected:
  HttpGlobalRateLimits() {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = config.header_timeout = 100h;
    config.forward.clear();
    route.forward = "origin";
    route.match.emplace().path.emplace().prefix = "/a";
    limits.to = "limits";
    limits.domain = "edge";
    limits.timeout = 60s;  // The test's time goes on by itself, too.
    config::RateEntry source;
    source.source = true;
    limits.descriptors = {{{source}}};
    services.response_timeout = rig.upstream().response_timeout = 100h;
  }

  static config::RateDescriptor of_header(std::string_view name) {
    config::RateEntry entry;
    entry.header = config::FieldName::parse(name).value();
    return {{entry}};
  }
  PeerStream& call(size_t n = 0) {
    PeerStream& asked = rig.request_at(service, n);
    rig.wait_over(asked);
    return asked;
  }
  static void respond(PeerStream& asked, std::string_view message) {
    asked.respond(200, {{"content-type", "application/grpc+proto"}}, false);
    asked.send(grpc_framed(message));
    asked.send_trailers({{"grpc-status", "0"}});
  }
  static std::string ok(std::string_view more = "") { return proto_number(1, 1).append(more); }
  static std::string over_limit(std::string_view more = "") { return proto_number(1, 2).append(more); }
  PeerStream& expect_served(PeerStream& stream, size_t n = 0) {
    PeerStream& got = rig.request_at(origin, n);
    rig.wait_over(got);
    got.respond(200, "served");
    rig.expect_response(stream, 200, "served");
    return got;
  }
  uint64_t count(GlobalRateLimitResult which) {
    return rig.http().global_rate_limits[static_cast<size_t>(which)].value();
  }
  void expect_counted(GlobalRateLimitResult result, uint64_t times = 1) {
    rig.until([&] { return count(result) >= times; });
    for (int i = 0; i < kGlobalRateLimitResultCount; ++i) {
      const auto which = static_cast<GlobalRateLimitResult>(i);
      EXPECT_EQ(count(which), which == result ? times : 0u) << global_rate_limit_result_name(which);
    }
  }

  config::Upstream& services =
      rig.upstreams.emplace_back(config::Upstream{.name = "limits", .protocol = config::Protocol::kHttp2});
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& service = rig.add_origin_of(1);
  config::HttpRoute& route = rig.config().routes.emplace_back();
  config::GlobalRateLimits& limits = rig.config().global_rate_limits.emplace();
};

TEST_P(HttpGlobalRateLimits, OneCallForAllDescriptors) {
  route.rate_limit_descriptors = {of_header("x-key"), of_header("x-none")};
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/a", {{"x-key", "k"}});
  PeerStream& asked = call();
  EXPECT_EQ(asked.head.path(), "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
  EXPECT_EQ(asked.field("grpc-timeout"), "60000m");
  EXPECT_EQ(asked.body,
            grpc_framed(proto_bytes(1, "edge") + proto_bytes(2, proto_pair(1, "remote_address", "127.0.0.1")) +
                        proto_bytes(2, proto_pair(1, "x-key", "k")) + proto_number(3, 1)));
  EXPECT_TRUE(origin.requests.empty());
  respond(asked, ok(proto_pair(3, "X-Left", "4") + proto_pair(4, "X-Counted", "yes")));
  EXPECT_EQ(expect_served(stream).field("x-counted"), "yes");
  EXPECT_EQ(stream.field("x-left"), "4");
  EXPECT_EQ(stream.field("ratelimit"), "");
  EXPECT_EQ(service.requests.size(), 1u);
  expect_counted(GlobalRateLimitResult::kOk);
}

TEST_P(HttpGlobalRateLimits, OverLimit) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request("GET", "/a");
  const std::string status =
      proto_bytes(2, proto_number(1, 2) + proto_bytes(2, proto_number(1, 5) + proto_number(2, 2)) +
                         proto_bytes(4, proto_number(1, 9)));
  respond(call(), over_limit(status + proto_pair(3, "X-Why", "much")));
  rig.expect_response(first, 429, "too many requests\n");
  EXPECT_EQ(first.field("retry-after"), "9");
  EXPECT_EQ(first.field("ratelimit-policy"), "\"edge\";q=5;w=60");
  EXPECT_EQ(first.field("ratelimit"), "\"edge\";r=0;t=9");
  EXPECT_EQ(first.field("x-why"), "much");
  PeerStream& second = client.send_request("GET", "/a");
  respond(call(1), over_limit(proto_bytes(5, "come again")));
  rig.expect_response(second, 429, "come again");
  EXPECT_EQ(second.field("content-type"), "text/plain");
  EXPECT_EQ(second.field("content-length"), "10");
  PeerStream& third = client.send_request("GET", "/a");
  respond(call(2), over_limit(proto_bytes(5, "{}") + proto_pair(3, "content-type", "application/json")));
  rig.expect_response(third, 429, "{}");
  EXPECT_EQ(third.field("content-type"), "application/json");
  expect_counted(GlobalRateLimitResult::kOverLimit, 3);
  rig.expect_ended(HttpEnd::kRateLimited, 3);
  EXPECT_TRUE(origin.connections.empty());
}

TEST_P(HttpGlobalRateLimits, CallsOfGrpc) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/a", {{"content-type", "application/grpc"}}, true);
  respond(call(), over_limit(proto_bytes(5, "come again")));
  rig.wait_over(stream);
  EXPECT_EQ(stream.field("grpc-status"), "8");
  EXPECT_EQ(stream.body, "");
}

TEST_P(HttpGlobalRateLimits, NothingToCount) {
  limits.descriptors = {of_header("x-key")};
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/a");
  expect_served(stream);
  EXPECT_TRUE(service.requests.empty());
  rig.expect_ended(HttpEnd::kOk);
}

// A flood of them costs the limit, too.
TEST_P(HttpGlobalRateLimits, RequestsWithoutARoute) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request("GET", "/other");
  respond(call(), ok());
  rig.expect_response(first, 404, "no route matches the request\n");
  PeerStream& second = client.send_request("GET", "/other");
  respond(call(1), over_limit());
  rig.expect_response(second, 429, "too many requests\n");
}

TEST_P(HttpGlobalRateLimits, FailuresAreAllowed) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request("GET", "/a");
  PeerStream& asked = call();
  rig.pass(60s);
  expect_served(first);
  rig.wait_cancelled(asked);
  expect_counted(GlobalRateLimitResult::kTimeout);
  PeerStream& second = client.send_request("GET", "/a");
  respond(call(1), "");
  expect_served(second, 1);
  PeerStream& third = client.send_request("GET", "/a");
  call(2).respond(200, {{"grpc-status", "14"}}, true);
  expect_served(third, 2);
  EXPECT_EQ(count(GlobalRateLimitResult::kError), 2u);
  rig.expect_ended(HttpEnd::kOk, 3);
}

TEST_P(HttpGlobalRateLimits, FailuresMayBeRefused) {
  limits.on_failure = config::OnFailure::kRefuse;
  service.stop();
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/a");
  rig.expect_response(stream, 503, "the service of rate limits did not respond as it should\n");
  expect_counted(GlobalRateLimitResult::kError);
  rig.expect_ended(HttpEnd::kRateLimitFailed);
}

TEST_P(HttpGlobalRateLimits, ClientsThatLeave) {
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request("GET", "/a");
  PeerStream& asked = call();
  client.break_off();
  rig.wait_cancelled(asked);
  expect_counted(GlobalRateLimitResult::kCancelled);
}

// First the limit, then the authorizer: what is over the limit is not judged.
TEST_P(HttpGlobalRateLimits, BeforeAuthorizers) {
  route.ext_authz.emplace().to = "limits";
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request("POST", "/a", {}, false);
  first.send("body", true);
  respond(call(), ok());
  PeerStream& check = call(1);
  EXPECT_EQ(check.head.path(), "/envoy.service.auth.v3.Authorization/Check");
  respond(check, "");
  EXPECT_EQ(expect_served(first).body, "body");
  PeerStream& second = client.send_request("GET", "/a");
  respond(call(2), over_limit());
  rig.expect_response(second, 429, "too many requests\n");
  EXPECT_EQ(service.requests.size(), 3u);
}

SLUICE_EACH_VERSION(HttpGlobalRateLimits);

}  // namespace
}  // namespace sluice
