// Rate limits of listeners and routes, as requests see them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "test/proxy/auth/token_maker.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using test::FieldList;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

class HttpRateLimits : public test::HttpRigTest {
 protected:
  HttpRateLimits() : origin(rig.add_origin()) {}
  ~HttpRateLimits() override { std::remove(file.c_str()); }

  config::RateLimit& limit(std::string name, std::string_view rate, uint32_t burst) {
    return rig.rate_limits.emplace_back(
        config::RateLimit{.name = std::move(name), .rate = config::Rate::parse(rate).value(), .burst = burst});
  }
  config::HttpRoute& route(std::string prefix) {
    rig.config().forward.clear();
    config::HttpRoute& made = rig.config().routes.emplace_back();
    made.match.emplace().path.emplace().prefix = std::move(prefix);
    made.forward = "origin";
    return made;
  }

  void served(HttpPeer& client, std::string_view path = "/", FieldList fields = {}) {
    PeerStream& stream = client.send_request("GET", path, fields);
    rig.request_at(origin, requests_++).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
  }
  PeerStream& refused(HttpPeer& client, std::string_view path = "/", FieldList fields = {}, uint16_t status = 429) {
    PeerStream& stream = client.send_request("GET", path, fields);
    rig.wait_over(stream);
    EXPECT_EQ(stream.head.status, status);
    return stream;
  }

  /// Whether Retry-After is this much, less what the machine has taken meanwhile.
  static bool waits_at_most(const PeerStream& stream, int seconds) {
    const int wait = std::stoi("0" + stream.field("retry-after"));
    return wait <= seconds && wait > seconds - 300;
  }

  HttpOrigin& origin;
  const std::string file = absl::StrCat(testing::TempDir(), "rate_limits_", getpid());

 private:
  size_t requests_ = 0;
};

// A refusal costs the client nothing but this response: its connection goes on.
TEST_P(HttpRateLimits, RefusesOverTheBurst) {
  limit("api", "2/h", 2);
  rig.config().rate_limits = {"api"};
  rig.config().idle_timeout = std::chrono::hours(1);
  rig.start();
  HttpPeer& client = rig.connect();
  served(client);
  served(client);
  PeerStream& stream = refused(client);
  EXPECT_TRUE(waits_at_most(stream, 1800)) << stream.field("retry-after");
  EXPECT_EQ(stream.field("ratelimit-policy"), "\"api\";q=2;w=3600");
  EXPECT_EQ(stream.field("ratelimit"), "\"api\";r=0;t=" + stream.field("retry-after"));
  EXPECT_EQ(stream.body, "too many requests\n");
  rig.pass(std::chrono::seconds(1000));
  PeerStream& later = refused(client);
  // Rounded up to a tick, which is a 256th of the emission interval.
  EXPECT_TRUE(waits_at_most(later, 808)) << later.field("retry-after");
  rig.pass(std::chrono::seconds(800));
  served(client);
  EXPECT_EQ(rig.rate_limit().limited.value(), 2u);
  EXPECT_EQ(rig.ended(HttpEnd::kRateLimited), 2u);
  EXPECT_EQ(rig.counters().accepted.value(), 1u);
}

TEST_P(HttpRateLimits, DryRunRefusesNothing) {
  limit("api", "1/h", 1).dry_run = true;
  rig.config().rate_limits = {"api"};
  rig.start();
  HttpPeer& client = rig.connect();
  for (int i = 0; i < 3; ++i) served(client);
  EXPECT_EQ(rig.rate_limit().limited.value(), 0u);
  EXPECT_EQ(rig.rate_limit().dry_run.value(), 2u);
}

TEST_P(HttpRateLimits, StatusIsConfigurable) {
  limit("api", "1/h", 1).status = 503;
  rig.config().rate_limits = {"api"};
  rig.start();
  HttpPeer& client = rig.connect();
  served(client);
  refused(client, "/", {}, 503);
}

// Both levels apply; a limit that both name counts once.
TEST_P(HttpRateLimits, ListenerAndRoute) {
  limit("all", "3/h", 3);
  limit("some", "1/h", 1);
  rig.config().rate_limits = {"all"};
  route("/some").rate_limits = {"all", "some"};
  route("/");
  rig.start();
  HttpPeer& client = rig.connect();
  served(client, "/some");
  EXPECT_EQ(refused(client, "/some").field("ratelimit-policy"), "\"some\";q=1;w=3600");
  served(client, "/");  // The refused request counts for the limit before.
  EXPECT_EQ(refused(client, "/").field("ratelimit-policy"), "\"all\";q=3;w=3600");
  EXPECT_EQ(rig.rate_limit(0).limited.value(), 1u);
  EXPECT_EQ(rig.rate_limit(1).limited.value(), 1u);
}

// Also requests that no route takes count, so that a scan is limited.
TEST_P(HttpRateLimits, WithoutRoute) {
  limit("all", "1/h", 1);
  rig.config().rate_limits = {"all"};
  route("/some");
  rig.start();
  HttpPeer& client = rig.connect();
  refused(client, "/x", {}, 404);
  refused(client, "/y", {}, 429);
}

TEST_P(HttpRateLimits, KeysOfFields) {
  limit("key", "1/h", 1).key.emplace().header = config::FieldName::parse("x-key").value();
  limit("cookie", "1/h", 1).key.emplace().cookie = "session";
  route("/header").rate_limits = {"key"};
  route("/cookie").rate_limits = {"cookie"};
  rig.start();
  HttpPeer& client = rig.connect();
  served(client, "/header", {{"x-key", "a"}});
  refused(client, "/header", {{"x-key", "a"}});
  served(client, "/header", {{"x-key", "b"}});
  served(client, "/header");
  refused(client, "/header");
  served(client, "/cookie", {{"cookie", "other=1; session=a"}});
  refused(client, "/cookie", {{"cookie", "session=a; other=2"}});
  served(client, "/cookie", {{"cookie", "session=b"}});
}

TEST_P(HttpRateLimits, KeyOfTheRoute) {
  limit("each", "1/h", 1).key.emplace().route = true;
  rig.config().rate_limits = {"each"};
  route("/a");
  route("/b");
  rig.start();
  HttpPeer& client = rig.connect();
  served(client, "/a");
  served(client, "/b");
  refused(client, "/a");
  refused(client, "/b");
}

// The client is who a trusted proxy says it is.
TEST_P(HttpRateLimits, ClientsBehindAProxy) {
  limit("api", "1/h", 1);
  rig.config().rate_limits = {"api"};
  rig.config().trusted_hops = 1;
  rig.start();
  HttpPeer& client = rig.connect();
  served(client, "/", {{"x-forwarded-for", "192.0.2.1"}});
  served(client, "/", {{"x-forwarded-for", "192.0.2.2"}});
  refused(client, "/", {{"x-forwarded-for", "192.0.2.1"}});
}

// Guesses of passwords are limited before they are checked.
TEST_P(HttpRateLimits, ComesBeforePasswords) {
  std::ofstream(file) << "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
  limit("api", "2/h", 2);
  config::HttpRoute& closed = route("/");
  closed.rate_limits = {"api"};
  closed.auth.emplace().basic.emplace().users_file = file;
  rig.start();
  HttpPeer& client = rig.connect();
  refused(client, "/", {}, 401);
  refused(client, "/", {}, 401);
  refused(client, "/", {}, 429);
}

TEST_P(HttpRateLimits, KeyOfAClaim) {
  const test::TokenMaker maker("ES256");
  std::ofstream(file) << maker.jwks();
  limit("tenant", "1/h", 1).key.emplace().jwt_claim = "tenant";
  config::HttpRoute& closed = route("/");
  closed.rate_limits = {"tenant"};
  config::JwtAuth& jwt = closed.auth.emplace().jwt.emplace();
  jwt.jwks_file = file;
  jwt.claims = {{"tenant", config::FieldName::parse("x-tenant").value()}};
  rig.start();
  const auto token = [&](std::string_view claims) {
    return absl::StrCat("Bearer ", maker.token(absl::StrCat("{\"exp\":9999999999", claims, "}")));
  };
  HttpPeer& client = rig.connect();
  const std::string first = token(",\"tenant\":\"a\",\"sub\":\"x\""), second = token(",\"tenant\":\"a\",\"sub\":\"y\""),
                    other = token(",\"tenant\":\"b\""), none = token("");
  served(client, "/", {{"authorization", first}});
  refused(client, "/", {{"authorization", second}});
  served(client, "/", {{"authorization", other}});
  served(client, "/", {{"authorization", none}, {"x-tenant", "c"}});
  refused(client, "/", {{"authorization", none}, {"x-tenant", "d"}});
  refused(client, "/", {}, 401);
}

TEST_P(HttpRateLimits, GrpcCalls) {
  limit("api", "1/h", 1);
  rig.config().rate_limits = {"api"};
  rig.start();
  HttpPeer& client = rig.connect();
  served(client);
  PeerStream& stream = client.send_request("POST", "/x/y", {{"content-type", "application/grpc"}, {"te", "trailers"}});
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 200);
  EXPECT_EQ(stream.field("grpc-status"), "8");
  EXPECT_TRUE(waits_at_most(stream, 3600));
}

// A body that is still on its way is not forwarded, and nothing of it is kept.
TEST_P(HttpRateLimits, RefusedWithABody) {
  limit("api", "1/h", 1);
  rig.config().rate_limits = {"api"};
  rig.start();
  served(rig.connect());
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.post(std::string(100'000, 'x'), /*end=*/false);
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 429);
  EXPECT_EQ(origin.requests.size(), 1u);
}

// ---- Delays ----

// A request over the rate waits for its turn, and the one that would wait too long is refused.
TEST_P(HttpRateLimits, Delays) {
  limit("api", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"api"};
  rig.start();
  served(rig.connect());
  HttpPeer& client = rig.connect();
  PeerStream& waits = client.send_request();
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  PeerStream& none = refused(rig.connect());
  EXPECT_TRUE(waits_at_most(none, 60)) << none.field("retry-after");
  rig.pass(std::chrono::seconds(50));
  EXPECT_FALSE(waits.over());
  EXPECT_EQ(origin.requests.size(), 1u);
  rig.pass(std::chrono::seconds(11));
  rig.request_at(origin, 1).respond(200, "late");
  rig.expect_response(waits, 200, "late");
  EXPECT_EQ(rig.rate_limit().limited.value(), 1u);
  EXPECT_EQ(rig.rate_limit().delayed.value(), 1u);
}

// Of several limits the longest wait counts, and each of them only once.
TEST_P(HttpRateLimits, DelaysOfTwoLimits) {
  limit("short", "2/m", 1).delay = std::chrono::seconds(60);
  limit("long", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"short", "long"};
  rig.start();
  served(rig.connect());
  PeerStream& waits = rig.connect().send_request();
  rig.until([&] { return rig.rate_limit(1).delayed.value() == 1; });
  rig.pass(std::chrono::seconds(35));
  EXPECT_EQ(origin.requests.size(), 1u);
  rig.pass(std::chrono::seconds(26));
  rig.request_at(origin, 1).respond(200, "late");
  rig.expect_response(waits, 200, "late");
  EXPECT_EQ(rig.rate_limit(0).delayed.value(), 1u);
  EXPECT_EQ(rig.rate_limit(1).delayed.value(), 1u);
}

TEST_P(HttpRateLimits, DryRunDelaysNothing) {
  config::RateLimit& api = limit("api", "1/h", 1);
  api.delay = std::chrono::minutes(1);
  api.dry_run = true;
  limit("slow", "1/m", 1).delay = std::chrono::minutes(1);
  rig.rate_limits.back().dry_run = true;
  rig.config().rate_limits = {"api", "slow"};
  rig.start();
  HttpPeer& client = rig.connect();
  served(client);
  served(client);
  EXPECT_EQ(rig.rate_limit(0).dry_run.value(), 1u);
  EXPECT_EQ(rig.rate_limit(1).dry_run.value(), 0u);
  EXPECT_EQ(rig.rate_limit(1).dry_run_delayed.value(), 1u);
  EXPECT_EQ(rig.rate_limit(1).delayed.value(), 0u);
}

// The body waits at the client: no more of it arrives than was under way.
TEST_P(HttpRateLimits, DelayedBodyStaysAtTheClient) {
  limit("api", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"api"};
  rig.config().body_timeout = std::chrono::seconds(10);
  rig.config().stream_idle_timeout = std::chrono::seconds(20);
  rig.start();
  served(rig.connect());
  const std::string body(4'000'000, 'x');
  PeerStream& stream = rig.connect().post(body);
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  rig.settle(200);
  EXPECT_TRUE(rig.holds_at_most(400'000));
  for (int i = 0; i < 6; ++i) rig.pass(std::chrono::seconds(10));
  rig.pass(std::chrono::seconds(2));
  PeerStream& request = rig.request_at(origin, 1);
  rig.until([&] { return request.ended; });
  EXPECT_TRUE(request.body == body) << request.body.size();
  request.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
}

TEST_P(HttpRateLimits, ClientLeavesWhileItsRequestWaits) {
  limit("api", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"api"};
  rig.start();
  served(rig.connect());
  HttpPeer& client = rig.connect();
  client.send_request();
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  client.close();
  rig.settle();
  rig.pass(std::chrono::seconds(2));  // Before that, a half-close is no end.
  rig.expect_ended(HttpEnd::kClientReset);
  rig.pass(std::chrono::seconds(60));
  EXPECT_EQ(origin.requests.size(), 1u);
}

TEST_P(HttpRateLimits, RequestTimesOutWhileItWaits) {
  limit("api", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"api"};
  rig.config().request_timeout = std::chrono::seconds(20);
  rig.start();
  served(rig.connect());
  PeerStream& stream = rig.connect().send_request();
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  rig.pass(std::chrono::seconds(21));
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 504);
  rig.expect_ended(HttpEnd::kRequestTimeout);
  rig.pass(std::chrono::seconds(60));
  EXPECT_EQ(origin.requests.size(), 1u);
}

// A request that waits is in progress: a connection that drains completes it, and the end of the process cuts it.
TEST_P(HttpRateLimits, DrainWaitsForDelayedRequests) {
  limit("api", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"api"};
  rig.start();
  served(rig.connect());
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  rig.drain();
  rig.pass(std::chrono::seconds(61));
  rig.request_at(origin, 1).respond(200, "late");
  rig.expect_response(stream, 200, "late");
  rig.until([&] { return client.gone(); });
}

TEST_P(HttpRateLimits, ShutdownEndsDelayedRequests) {
  limit("api", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"api"};
  rig.start();
  served(rig.connect());
  rig.connect().send_request();
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  rig.shut_down();
  rig.expect_ended(HttpEnd::kShutdown);
  EXPECT_EQ(origin.requests.size(), 1u);
}

// An upgrade is a request like others. Its tunnel has no timeout of a request.
TEST_P(HttpRateLimits, DelayedUpgrade) {
  limit("api", "1/m", 1).delay = std::chrono::seconds(60);
  rig.config().rate_limits = {"api"};
  rig.config().request_timeout = std::chrono::seconds(20);
  rig.start();
  served(rig.connect());
  HttpPeer& client = rig.connect_greeted();
  PeerStream& stream = client.websocket();
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  rig.pass(std::chrono::seconds(61));
  PeerStream& request = rig.request_at(origin, 1);
  request.respond(200, {}, false);
  rig.until([&] { return stream.has_head; });
  stream.send("question");
  rig.until([&] { return request.body == "question"; });
  client.break_off();
  rig.wait_cancelled(request);
}

SLUICE_EACH_VERSION(HttpRateLimits);

// Only the stream that is over the rate waits.
class Http2RateLimits : public HttpRateLimits {};
INSTANTIATE_TEST_SUITE_P(, Http2RateLimits, testing::Values(test::Versions{true, false}, test::Versions{true, true}),
                         [](const testing::TestParamInfo<test::Versions>& each) { return test::name_of(each.param); });

TEST_P(Http2RateLimits, OtherStreamsGoOn) {
  limit("slow", "1/m", 1).delay = std::chrono::seconds(60);
  route("/slow").rate_limits = {"slow"};
  route("/");
  rig.start();
  HttpPeer& client = rig.connect();
  served(client, "/slow");
  PeerStream& waits = client.send_request("GET", "/slow", {});
  rig.until([&] { return rig.rate_limit().delayed.value() == 1; });
  for (int i = 0; i < 3; ++i) served(client);
  EXPECT_FALSE(waits.over());
  rig.pass(std::chrono::seconds(61));
  rig.request_at(origin, 4).respond(200, "late");
  rig.expect_response(waits, 200, "late");
}

}  // namespace
}  // namespace sluice
