// Blame for errors: nothing that a client chooses counts against an endpoint, ends a pooled connection that it does not
// use, or changes what another client gets. Faults of owners: fault_test.cc.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::HttpOrigin;
using test::HttpPeer;
using test::HttpRig;
using test::PeerStream;

void set_times(HttpRig& rig) {
  config::Http& config = rig.config();
  config.idle_timeout = config.send_timeout = config.stream_idle_timeout = 100h;
  config.body_timeout = config.stuck_timeout = config.header_timeout = 100h;
  rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 100h;
}

// Two endpoints, each of which is ejected after its first error.
class BlameTest : public test::HttpRigTest {
 protected:
  BlameTest() : origin(rig.add_origin()), second(rig.add_origin()) {
    set_times(rig);
    config::Ejection& ejection = rig.upstream().ejection.emplace();
    ejection.consecutive_errors = ejection.gateway_errors = 1;
    ejection.max_share = 100;
  }
  void expect_nobody_ejected() {
    rig.settle();
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(rig.health(i).ejections.load(), 0u) << i;
  }
  void expect_ejected(size_t index) {
    rig.settle();
    EXPECT_EQ(rig.health(index).ejections.load(), 1u);
  }
  // As the client sends it: an extended CONNECT, or an upgrade.
  PeerStream& request_protocol(HttpPeer& client, std::string_view protocol, bool end) {
    PeerStream& stream = client.open();
    stream.request("CONNECT", "/", {}, protocol, end);
    return stream;
  }
  uint64_t opened() { return rig.upstream_counters().connections_opened.value(); }

  HttpOrigin &origin, &second;  // Used in turn.
};

// Defect: an extended CONNECT for any :protocol went to the endpoint, where it could not be written; this counted as
// the endpoint's error.
TEST_P(BlameTest, OnlyWebsocketsAreAccepted) {
  if (!client_http2()) return;  // It cannot send one: any other Upgrade is ignored.
  rig.start();
  HttpPeer& client = rig.connect_greeted();
  for (const char* const protocol : {"evil", "connect-udp", "WEBSOCKETS"}) {
    PeerStream& stream = request_protocol(client, protocol, /*end=*/false);
    rig.wait_over(stream);
    EXPECT_EQ(stream.head.status, 501) << protocol;
    stream.release();
  }
  rig.expect_ended(HttpEnd::kNotAllowed, 3);
  expect_nobody_ejected();
  EXPECT_EQ(opened(), 0u);
}

// Defect: the same for a CONNECT that ended before the tunnel was open.
TEST_P(BlameTest, TunnelsThatEndBeforeTheyBegin) {
  if (!client_http2()) return;
  rig.start();
  HttpPeer& client = rig.connect_greeted();
  PeerStream& stream = request_protocol(client, "websocket", /*end=*/true);
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 400);
  rig.expect_ended(HttpEnd::kBadRequest);
  expect_nobody_ejected();
  EXPECT_EQ(opened(), 0u);
}

// Its end may also come later, but before the endpoint has accepted the tunnel.
TEST_P(BlameTest, TunnelsThatEndBeforeTheyAreAccepted) {
  if (!client_http2() || upstream_http2()) return;
  rig.start();
  HttpPeer& client = rig.connect_greeted();
  PeerStream& stream = request_protocol(client, "websocket", /*end=*/false);
  rig.until([&] { return opened() == 1; });
  rig.settle();
  stream.send("", /*end=*/true);
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 400);
  rig.expect_ended(HttpEnd::kBadRequest);
  expect_nobody_ejected();
}

// Defect: a plain 200 to an upgrade was a 502, and an error of the endpoint. RFC 9110 section 7.8 lets a server ignore
// an upgrade.
TEST_P(BlameTest, UpgradesMayBeIgnored) {
  if (upstream_http2()) return;  // There 2xx accepts the tunnel.
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  rig.until([&] { return origin.requests.size() == 1; });
  // Not the response of the origin's codec to an upgrade.
  origin.connections[0]->socket.send_some("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain");
  rig.wait_over(stream);
  if (client_http2()) {
    EXPECT_EQ(stream.head.status, 502) << "a 2xx would be a yes: RFC 8441 section 5";
    rig.expect_ended(HttpEnd::kUpstreamRefused);
  } else {
    EXPECT_EQ(stream.head.status, 200);
    EXPECT_TRUE(stream.head.ignores_upgrade);
    EXPECT_EQ(stream.body, "plain");
    rig.expect_ended(HttpEnd::kOk);
  }
  if (stream.codec_stream) stream.release();
  EXPECT_EQ(rig.http().tunnels.value(), 0u);
  expect_nobody_ejected();
}

// The status that the HTTP/1.1 client gets is the one that is counted.
TEST_P(BlameTest, WebsocketsAreCountedByWhatTheClientGets) {
  rig.start();
  PeerStream& stream = rig.connect_greeted().websocket();
  rig.request_at(origin).respond(200, {}, false);
  rig.until([&] { return stream.has_head; });
  stream.send("", true);
  origin.requests[0]->send("", true);
  rig.expect_ended(HttpEnd::kOk);
  EXPECT_EQ(rig.http().statuses[1].value(), client_http2() ? 0u : 1u);
  EXPECT_EQ(rig.http().statuses[2].value(), client_http2() ? 1u : 0u);
}

// Defect: an endpoint that stopped waiting for the rest of a request (its own timeout: it closes, or resets the stream)
// was ejected for it, so a few slow clients could have all endpoints ejected.
TEST_P(BlameTest, EndpointsMayTimeOutSlowClients) {
  rig.start();
  for (const bool lost : {false, true}) {
    PeerStream& stream = rig.connect().post("a part", /*end=*/false);
    HttpOrigin* chosen = nullptr;
    rig.until([&] {
      for (HttpOrigin* const each : {&origin, &second}) {
        if (!each->requests.empty() && each->requests.back()->body == "a part") chosen = each;
      }
      return chosen != nullptr;
    });
    PeerStream& request = *chosen->requests.back();
    lost ? request.connection->break_off() : request.cancel(ResetReason::kInternal);
    chosen->requests.clear();
    rig.wait_over(stream);
    EXPECT_EQ(stream.head.status, 502);
    if (stream.codec_stream) stream.release();
  }
  rig.expect_ended(HttpEnd::kUpstreamReset, 2);
  expect_nobody_ejected();
}

// An endpoint that breaks off a complete request is ejected.
TEST_P(BlameTest, EndpointsThatBreakOffAreEjected) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.request_at(origin);
  origin.connections.back()->break_off();
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 502);
  expect_ejected(0);
}

// Defect: an endpoint that rejected a request as malformed (RFC 9113 section 8.1.1) was ejected for it.
TEST_P(BlameTest, EndpointsMayRejectMalformedRequests) {
  if (!upstream_http2()) return;
  config::HttpRoute route;
  route.forward = "origin";
  route.retry.emplace().on = {config::RetryOn::kReset};
  rig.config().forward.clear();
  rig.config().routes = {route};
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.request_at(origin).cancel(ResetReason::kMalformed);
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 502);
  rig.expect_ended(HttpEnd::kUpstreamRefused);
  EXPECT_EQ(rig.http().retries.value(), 0u) << "it would be rejected again";
  expect_nobody_ejected();
}

// 501 and 505 concern the method and the version that the client chose.
TEST_P(BlameTest, MethodsUnknownToEndpoints) {
  rig.start();
  PeerStream& stream = rig.connect().send_request();
  rig.request_at(origin).respond(501, "no such method");
  rig.expect_response(stream, 501, "no such method");
  expect_nobody_ejected();
}

// Defect: SETTINGS_MAX_HEADER_LIST_SIZE was ignored. Endpoints respond to a longer head with GOAWAY, which ends the
// requests of other clients.
TEST_P(BlameTest, HeadsLargerThanTheEndpointAccepts) {
  if (!upstream_http2()) return;
  origin.options.header_list = 4096;
  rig.start();
  PeerStream& other = rig.connect().send_request();
  PeerStream& request = rig.request_at(origin);
  HttpPeer& client = rig.connect();
  PeerStream& turn_of_second = client.send_request();
  rig.request_at(second).respond(200, "fine");
  rig.expect_response(turn_of_second, 200, "fine");
  const std::string big(10'000, 'x');
  PeerStream& large = client.send_request("GET", "/", {{"x-big", big}});
  rig.wait_over(large);
  EXPECT_EQ(large.head.status, 400);
  request.respond(200, "fine");
  rig.expect_response(other, 200, "fine");
  EXPECT_EQ(origin.connections.size(), 1u);
  EXPECT_EQ(origin.requests.size(), 1u);
  expect_nobody_ejected();
  rig.expect_ended(HttpEnd::kBadRequest);
}

SLUICE_EACH_VERSION(BlameTest);

}  // namespace
}  // namespace sluice
