// External authorization by gRPC (`ext_authz`): what the authorizer is told, what becomes of its response, and of one
// that is none. What it shares with `forward_auth` is tested there.
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
using test::FieldList;
using test::grpc_framed;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;
using test::proto_bytes;
using test::proto_number;
using test::proto_option;
using test::proto_pair;

constexpr std::string_view kFailed = "the authorization server did not respond as it should\n";

class HttpExtAuthz : public test::HttpRigTest {
 protected:
  HttpExtAuthz() {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = config.header_timeout = 100h;
    config.forward.clear();
    route.forward = "origin";
    rule.to = "auth";
    rule.timeout = 60s;  // The test's time goes on by itself, too.
    authorizers.response_timeout = rig.upstream().response_timeout = 100h;
  }

  PeerStream& call(size_t n = 0) {
    PeerStream& asked = rig.request_at(authorizer, n);
    rig.wait_over(asked);
    return asked;
  }
  /// Responds to a call with a CheckResponse.
  static void respond(PeerStream& asked, std::string_view message, std::string_view status = "0") {
    asked.respond(200, {{"content-type", "application/grpc"}}, false);
    asked.send(grpc_framed(message));
    asked.send_trailers({{"grpc-status", status}});
  }
  static std::string denied(std::string_view details) {
    return proto_bytes(1, proto_number(1, 7)) + proto_bytes(2, details);
  }
  PeerStream& expect_served(PeerStream& stream, size_t n = 0) {
    PeerStream& got = rig.request_at(origin, n);
    rig.wait_over(got);
    got.respond(200, "served");
    rig.expect_response(stream, 200, "served");
    return got;
  }
  void expect_counted(ForwardAuthResult result, uint64_t times = 1) {
    const auto count = [&](ForwardAuthResult which) {
      return rig.http().forward_auth[static_cast<size_t>(which)].value();
    };
    rig.until([&] { return count(result) >= times; });
    for (int i = 0; i < kForwardAuthResultCount; ++i) {
      const auto which = static_cast<ForwardAuthResult>(i);
      EXPECT_EQ(count(which), which == result ? times : 0u) << forward_auth_result_name(which);
    }
  }

  config::Upstream& authorizers =
      rig.upstreams.emplace_back(config::Upstream{.name = "auth", .protocol = config::Protocol::kHttp2});
  HttpOrigin& origin = rig.add_origin();
  HttpOrigin& authorizer = rig.add_origin_of(1);
  config::HttpRoute& route = rig.config().routes.emplace_back();
  config::ExtAuthz& rule = route.ext_authz.emplace();
};

TEST_P(HttpExtAuthz, Calls) {
  rule.timeout = 1500ms;
  rig.start();
  PeerStream& stream = rig.connect().send_request("DELETE", "/a/../b?c=d", {{"cookie", "s=1"}});
  PeerStream& asked = call();
  EXPECT_EQ(asked.head.method(), "POST");
  EXPECT_EQ(asked.head.path(), "/envoy.service.auth.v3.Authorization/Check");
  EXPECT_EQ(asked.head.authority(), "auth");
  EXPECT_EQ(asked.field("content-type"), "application/grpc");
  EXPECT_EQ(asked.field("te"), "trailers");
  EXPECT_EQ(asked.field("grpc-timeout"), "1500m");
  ASSERT_GT(asked.body.size(), 5u);
  EXPECT_EQ(asked.body, grpc_framed(asked.body.substr(5)));
  for (const std::string& part :
       {proto_bytes(2, "DELETE"), proto_pair(3, "cookie", "s=1"), proto_bytes(4, "/b?c=d"), proto_bytes(5, "a.test"),
        proto_bytes(6, "http"), proto_bytes(10, client_http2() ? "HTTP/2" : "HTTP/1.1"), proto_bytes(2, "127.0.0.1")}) {
    EXPECT_NE(asked.body.find(part), std::string::npos) << testing::PrintToString(part);
  }
  EXPECT_TRUE(origin.requests.empty());
  respond(asked, "");
  expect_served(stream);
  expect_counted(ForwardAuthResult::kAllowed);
}

TEST_P(HttpExtAuthz, ChangesOfFields) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("GET", "/", {{"x-user", "root"}, {"x-more", "a"}, {"cookie", "s=1"}});
  respond(call(), proto_bytes(3, proto_option(2, "X-User", "ann") +
                                     proto_option(2, "x-more", "b", proto_bytes(2, proto_number(1, 1))) +
                                     proto_bytes(5, "cookie") + proto_option(6, "X-Seen", "yes")));
  PeerStream& got = expect_served(stream);
  EXPECT_EQ(got.field("x-user"), "ann");
  EXPECT_EQ(got.head.fields.find("x-user", got.head.fields.find("x-user") + 1), Fields::npos);
  EXPECT_NE(got.head.fields.find("x-more", got.head.fields.find("x-more") + 1), Fields::npos);
  EXPECT_EQ(got.field("cookie"), "");
  EXPECT_EQ(stream.field("x-seen"), "yes");
}

TEST_P(HttpExtAuthz, Refusals) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request();
  respond(call(),
          denied(proto_bytes(1, proto_number(1, 302)) + proto_option(2, "Location", "/login") +
                 proto_option(2, "set-cookie", "a") + proto_option(2, "set-cookie", "b") + proto_bytes(3, "log in")));
  rig.expect_response(first, 302, "log in");
  EXPECT_EQ(first.field("location"), "/login");
  EXPECT_EQ(first.field("content-length"), "6");
  EXPECT_NE(first.head.fields.find("set-cookie", first.head.fields.find("set-cookie") + 1), Fields::npos);
  PeerStream& second = client.send_request();
  respond(call(1), proto_bytes(1, proto_number(1, 16)));
  rig.expect_response(second, 403, "");
  EXPECT_TRUE(origin.connections.empty());
  expect_counted(ForwardAuthResult::kRefused, 2);
  rig.expect_ended(HttpEnd::kAuthRefused, 2);
}

TEST_P(HttpExtAuthz, RefusedCallsOfGrpc) {
  rig.start();
  PeerStream& stream = rig.connect().send_request("POST", "/s/m", {{"content-type", "application/grpc"}}, true);
  respond(call(), denied(proto_bytes(1, proto_number(1, 401)) + proto_option(2, "x-why", "b") + proto_bytes(3, "no")));
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 200);
  EXPECT_EQ(stream.field("grpc-status"), "16");
  EXPECT_EQ(stream.field("content-type"), "application/grpc");
  EXPECT_EQ(stream.field("x-why"), "b");
  EXPECT_EQ(stream.body, "");
}

// Each of these is no verdict. The connection goes on, or is replaced.
TEST_P(HttpExtAuthz, Lies) {
  rig.start();
  const auto lie = [&](auto respond_with) {
    const size_t n = authorizer.requests.size();
    PeerStream& stream = rig.connect().send_request();
    respond_with(call(n));
    rig.expect_response(stream, 503, kFailed);
  };
  lie([](PeerStream& asked) { respond(asked, "\xff\xff"); });
  lie([](PeerStream& asked) { respond(asked, proto_bytes(3, proto_option(2, "host", "b"))); });
  lie([](PeerStream& asked) { respond(asked, "", "14"); });
  lie([](PeerStream& asked) { respond(asked, "", "x"); });
  lie([](PeerStream& asked) { asked.respond(500, "oops"); });
  lie([](PeerStream& asked) { asked.respond(200, "<html>"); });
  lie([](PeerStream& asked) {  // Trailers only.
    asked.respond(200, {{"content-type", "application/grpc"}, {"grpc-status", "7"}}, true);
  });
  lie([](PeerStream& asked) {  // The same, without a message.
    asked.respond(200, {{"content-type", "application/grpc"}, {"grpc-status", "0"}}, true);
  });
  lie([](PeerStream& asked) {  // No trailers.
    asked.respond(200, {{"content-type", "application/grpc"}}, false);
    asked.send(grpc_framed(""), true);
  });
  lie([](PeerStream& asked) {  // Two messages.
    asked.respond(200, {{"content-type", "application/grpc"}}, false);
    asked.send(grpc_framed("") + grpc_framed(""));
    asked.send_trailers({{"grpc-status", "0"}});
  });
  lie([](PeerStream& asked) {  // A compressed message.
    asked.respond(200, {{"content-type", "application/grpc"}}, false);
    asked.send(std::string_view("\1\0\0\0\0", 5));
    asked.send_trailers({{"grpc-status", "0"}});
  });
  lie([](PeerStream& asked) {  // Without an end.
    asked.respond(200, {{"content-type", "application/grpc"}}, false);
    asked.send(std::string(70'000, '\0'));
  });
  lie([](PeerStream& asked) { asked.cancel(ResetReason::kInternal); });
  expect_counted(ForwardAuthResult::kFailed, 13);
  rig.expect_ended(HttpEnd::kAuthFailed, 13);
  EXPECT_TRUE(origin.connections.empty());
}

TEST_P(HttpExtAuthz, Timeouts) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& first = client.send_request();
  PeerStream& asked = call();
  rig.pass(50s);
  EXPECT_FALSE(first.over());
  rig.pass(10s);
  rig.expect_response(first, 503, kFailed);
  rig.wait_cancelled(asked);
  PeerStream& second = client.send_request();
  respond(call(1), "", "4");  // DEADLINE_EXCEEDED
  rig.expect_response(second, 503, kFailed);
  expect_counted(ForwardAuthResult::kTimeout, 2);
}

TEST_P(HttpExtAuthz, FailuresMayBeAllowed) {
  rule.on_failure = config::OnFailure::kAllow;
  authorizer.stop();
  rig.start();
  PeerStream& stream = rig.connect().post("body");
  EXPECT_EQ(expect_served(stream).body, "body");
  expect_counted(ForwardAuthResult::kFailed);
  EXPECT_EQ(rig.http().forward_auth_unchecked.value(), 1u);
}

TEST_P(HttpExtAuthz, BodiesWaitAtTheClient) {
  rig.start();
  constexpr size_t kBytes = size_t{32} << 20;
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request("POST", "/", {}, false);
  stream.send(std::string(kBytes, 'b'), true);
  PeerStream& asked = call();
  rig.settle(100);
  EXPECT_TRUE(client.has_unsent() || stream.codec_stream->queued() > 0);
  respond(asked, "");
  PeerStream& got = rig.request_at(origin);
  rig.wait_over(got);
  EXPECT_EQ(got.body.size(), kBytes);
  got.respond(200, "served");
  rig.expect_response(stream, 200, "served");
}

TEST_P(HttpExtAuthz, ClientsThatLeave) {
  rig.start();
  HttpPeer& client = rig.connect();
  client.send_request();
  PeerStream& asked = call();
  client.break_off();
  rig.wait_cancelled(asked);
  expect_counted(ForwardAuthResult::kCancelled);
  rig.expect_ended(HttpEnd::kClientReset);
}

TEST_P(HttpExtAuthz, StreamsThatWereNotSeen) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  call().cancel(ResetReason::kRefused);
  respond(call(1), "");
  EXPECT_EQ(authorizer.requests[0]->body, authorizer.requests[1]->body);
  expect_served(stream);
  expect_counted(ForwardAuthResult::kAllowed);
}

SLUICE_EACH_VERSION(HttpExtAuthz);

}  // namespace
}  // namespace sluice
