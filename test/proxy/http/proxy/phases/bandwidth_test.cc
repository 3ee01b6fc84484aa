// Limits of bandwidth: bodies that wait for their turn, between any two versions of HTTP.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "test/proxy/compression/decoders.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::FieldList;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

// Time also passes while the test runs: so much more may have come than the steps of the test admit.
constexpr size_t kSlack = 15'000;

class HttpBandwidth : public test::HttpRigTest {
 protected:
  HttpBandwidth() : origin(rig.add_origin()) {
    config::Http& config = rig.config();
    config.idle_timeout = config.send_timeout = config.stream_idle_timeout = config.tunnel_timeout = 1h;
    config.body_timeout = config.stuck_timeout = config.header_timeout = 1h;
    rig.upstream().response_timeout = rig.upstream().pool.idle_timeout = 1h;
  }

  /// 1,000 bytes a second.
  config::RateLimit& limit(uint64_t burst = 1000, std::string name = "bytes") {
    return rig.rate_limits.emplace_back(
        config::RateLimit{.name = std::move(name), .rate = config::Rate::parse("1KB/s").value(), .burst = burst});
  }
  void start(std::vector<std::string> response, std::vector<std::string> request = {}) {
    rig.config().response_bandwidth = std::move(response);
    rig.config().request_bandwidth = std::move(request);
    rig.start();
  }
  /// Lets the time pass in steps that are short enough for the burst.
  void flow(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 250ms) rig.pass(250ms);
  }
  template <class Done>
  bool flow_until(const Done& done) {
    for (int i = 0; i < 1000 && !done(); ++i) rig.pass(250ms);
    return done();
  }
  PeerStream& begin_response(PeerStream& stream, std::string_view body, bool end = true) {
    PeerStream& request = rig.request_at(origin, requests_++);
    request.respond(200, {}, false);
    request.send(body, end);
    rig.until([&] { return stream.has_head; });
    rig.settle();
    return request;
  }
  uint64_t pauses(size_t index = 0) { return rig.rate_limit(index).pauses.value(); }

  HttpOrigin& origin;

 private:
  size_t requests_ = 0;
};

TEST_P(HttpBandwidth, PacesAResponse) {
  limit();
  start({"bytes"});
  const std::string body(60'000, 'x');
  PeerStream& stream = rig.connect().send_request();
  begin_response(stream, body);
  EXPECT_GE(stream.body.size(), 700u);  // The burst, in whole pieces.
  EXPECT_LE(stream.body.size(), 1000 + kSlack);
  flow(10s);
  EXPECT_GE(stream.body.size(), 10'000u);
  EXPECT_LE(stream.body.size(), 11'000 + kSlack);
  EXPECT_FALSE(stream.over());
  EXPECT_TRUE(flow_until([&] { return stream.over(); }));
  rig.expect_response(stream, 200, body);
  EXPECT_EQ(rig.rate_limit().bytes.value(), 60'000u);
  EXPECT_GT(rig.rate_limit().delayed_bytes.value(), 40'000u);
  EXPECT_GE(pauses(), 150u);
}

TEST_P(HttpBandwidth, PacesARequest) {
  limit();
  start({}, {"bytes"});
  const std::string body(60'000, 'x');
  PeerStream& stream = rig.connect().post(body);
  PeerStream& request = rig.request_at(origin);
  rig.settle();
  EXPECT_LE(request.body.size(), 1000 + kSlack);
  flow(10s);
  EXPECT_GE(request.body.size(), 10'000u);
  EXPECT_LE(request.body.size(), 11'000 + kSlack);
  EXPECT_TRUE(flow_until([&] { return request.ended; }));
  EXPECT_TRUE(request.body == body);
  request.respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
  EXPECT_EQ(rig.rate_limit().bytes.value(), 60'000u);
}

// What is within the burst does not wait, nor do responses without a body.
TEST_P(HttpBandwidth, WithinTheBurst) {
  limit(10'000);
  start({"bytes"}, {"bytes"});
  HttpPeer& client = rig.connect();
  PeerStream& first = client.post(std::string(3000, 'q'));
  PeerStream& request = rig.request_at(origin, 0);
  rig.until([&] { return request.ended; });
  request.respond(200, std::string(3000, 'a'));
  rig.expect_response(first, 200, std::string(3000, 'a'));
  PeerStream& second = client.send_request("HEAD");
  rig.request_at(origin, 1).respond(200, {{"content-length", "1000000"}}, true);
  rig.expect_response(second, 200, "");
  EXPECT_EQ(pauses(), 0u);
  EXPECT_EQ(rig.rate_limit().bytes.value(), 6000u);
}

// The surplus waits at the endpoint. When the client leaves, the endpoint is freed.
TEST_P(HttpBandwidth, SurplusWaitsAtTheEndpoint) {
  limit();
  start({"bytes"});
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  PeerStream& request = begin_response(stream, std::string(8'000'000, 'x'), /*end=*/false);
  rig.settle(200);
  flow(5s);
  EXPECT_TRUE(rig.holds_at_most(500'000));
  EXPECT_GE(stream.body.size(), 5000u);
  client.break_off();
  rig.wait_cancelled(request);
  rig.expect_ended(HttpEnd::kClientReset);
}

TEST_P(HttpBandwidth, SurplusWaitsAtTheClient) {
  limit();
  start({}, {"bytes"});
  rig.config().body_timeout = 1s;
  HttpPeer& client = rig.connect();
  client.post(std::string(8'000'000, 'x'));
  PeerStream& request = rig.request_at(origin);
  rig.settle(200);
  flow(5s);
  EXPECT_TRUE(rig.holds_at_most(500'000));
  EXPECT_GE(request.body.size(), 5000u);
  client.break_off();
  rig.wait_cancelled(request);
  rig.expect_ended(HttpEnd::kClientReset);
}

// Many bodies share the rate of a key, and none of them is idle while it waits.
TEST_P(HttpBandwidth, BodiesOfAKeyShareTheRate) {
  limit();
  rig.config().stream_idle_timeout = rig.config().send_timeout = 4s;
  start({"bytes"});
  std::vector<PeerStream*> streams;
  for (size_t i = 0; i < 30; ++i) {
    streams.push_back(&rig.connect().send_request());
    rig.request_at(origin, i).respond(200, std::string(1000, 'x'));
  }
  rig.settle();
  flow(15s);
  size_t bytes = 0, largest = 0;
  for (const PeerStream* stream : streams) {
    bytes += stream->body.size();
    largest = std::max(largest, stream->body.size());
  }
  EXPECT_GE(bytes, 14'000u);
  EXPECT_LE(bytes, 16'000 + kSlack);
  for (PeerStream* stream : streams) {
    EXPECT_TRUE(flow_until([&] { return stream->over(); }));
    EXPECT_FALSE(stream->reset);
    EXPECT_EQ(stream->body.size(), 1000u);
  }
  rig.expect_ended(HttpEnd::kOk, 30);
}

TEST_P(HttpBandwidth, KeysDoNotSlowEachOther) {
  limit(2000).key.emplace().header = config::FieldName::parse("x-key").value();
  start({"bytes"});
  PeerStream& slow = rig.connect().send_request("GET", "/", {{"x-key", "a"}});
  begin_response(slow, std::string(60'000, 'x'));
  const uint64_t before = pauses();
  EXPECT_GE(before, 1u);
  PeerStream& other = rig.connect().send_request("GET", "/", {{"x-key", "b"}});
  begin_response(other, std::string(1500, 'y'));
  rig.expect_response(other, 200, std::string(1500, 'y'));
  EXPECT_FALSE(slow.over());
  EXPECT_EQ(rig.rate_limit().limited.value(), 0u);
}

// The slowest limit counts.
TEST_P(HttpBandwidth, ListenerAndRoute) {
  rig.rate_limits.push_back({.name = "fast", .rate = config::Rate::parse("1MB/s").value()});
  limit();
  rig.config().forward.clear();
  rig.config().routes.resize(1);
  rig.config().routes[0].forward = "origin";
  rig.config().routes[0].response_bandwidth = {"fast", "bytes"};
  start({"fast"});
  PeerStream& stream = rig.connect().send_request();
  begin_response(stream, std::string(60'000, 'x'));
  flow(5s);
  EXPECT_LE(stream.body.size(), 6000 + kSlack);
  EXPECT_EQ(rig.rate_limit(0).pauses.value(), 0u);
  EXPECT_EQ(rig.rate_limit(0).bytes.value(), rig.rate_limit(1).bytes.value());
}

TEST_P(HttpBandwidth, DryRunOnlyCounts) {
  limit().dry_run = true;
  start({"bytes"}, {"bytes"});
  PeerStream& stream = rig.connect().post(std::string(5000, 'q'));
  PeerStream& request = rig.request_at(origin);
  rig.until([&] { return request.ended; });
  request.respond(200, std::string(60'000, 'x'));
  rig.expect_response(stream, 200, std::string(60'000, 'x'));
  EXPECT_EQ(pauses(), 0u);
  EXPECT_EQ(rig.rate_limit().delayed_bytes.value(), 0u);
  EXPECT_EQ(rig.rate_limit().bytes.value(), 65'000u);
  EXPECT_GT(rig.rate_limit().dry_run_delayed_bytes.value(), 40'000u);
}

// What arrived before the endpoint failed goes to the client at its pace; then the response breaks off.
TEST_P(HttpBandwidth, EndpointFailsWhileTheBodyWaits) {
  limit();
  config::Ejection& ejection = rig.upstream().ejection.emplace();
  ejection.consecutive_errors = 1;
  ejection.max_share = 100;
  rig.add_origin();  // The only endpoint would not be ejected.
  start({"bytes"});
  PeerStream& stream = rig.connect().send_request();
  PeerStream& request = begin_response(stream, std::string(20'000, 'x'), /*end=*/false);
  request.connection->break_off();
  rig.settle();
  EXPECT_FALSE(stream.over());
  EXPECT_TRUE(flow_until([&] { return stream.over(); }));
  EXPECT_TRUE(stream.reset);
  EXPECT_GT(stream.body.size(), 700u);
  rig.until([&] { return rig.sum_of_ends() == 1; });
  EXPECT_EQ(rig.ended(HttpEnd::kOk), 0u);
  EXPECT_EQ(rig.health().ejections.load(), 0u);  // It may have given up on us.
}

TEST_P(HttpBandwidth, RequestTimeoutCounts) {
  limit();
  rig.config().request_timeout = 20s;
  start({"bytes"});
  PeerStream& stream = rig.connect().send_request();
  PeerStream& request = begin_response(stream, std::string(60'000, 'x'), /*end=*/false);
  flow(21s);
  rig.wait_over(stream);
  EXPECT_TRUE(stream.reset);
  rig.wait_cancelled(request);
  rig.expect_ended(HttpEnd::kRequestTimeout);
}

TEST_P(HttpBandwidth, DrainCompletesAndShutdownCuts) {
  limit();
  start({"bytes"});
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  begin_response(stream, std::string(20'000, 'x'));
  PeerStream& cut = rig.connect().send_request();
  begin_response(cut, std::string(8'000'000, 'x'));
  rig.drain();
  EXPECT_TRUE(flow_until([&] { return stream.over(); }));
  rig.expect_response(stream, 200, std::string(20'000, 'x'));
  EXPECT_FALSE(cut.over());
  rig.shut_down();
  rig.expect_ended(HttpEnd::kShutdown);
}

// A client that takes nothing stops the body before the limit does: nothing is counted for it.
TEST_P(HttpBandwidth, ClientThatDoesNotRead) {
  rig.rate_limits.push_back(
      {.name = "bytes", .rate = config::Rate::parse("1GiB/s").value(), .burst = config::Burst(uint64_t{8} << 30)});
  start({"bytes"});
  rig.config().send_timeout = 30s;
  HttpPeer& client = rig.connect();
  PeerStream& stream = client.send_request();
  rig.until([&] { return rig.http().requests.value() == 1; });
  client.reads = false;
  PeerStream& request = rig.request_at(origin);
  request.respond(200, {}, false);
  request.send(std::string(30'000'000, 'x'), true);
  rig.settle(300);
  EXPECT_LT(rig.rate_limit().bytes.value(), 20'000'000u);
  client.reads = true;
  EXPECT_TRUE(rig.until([&] { return stream.over(); }));
  EXPECT_EQ(stream.body.size(), 30'000'000u);
}

TEST_P(HttpBandwidth, TrailersComeLast) {
  limit();
  start({"bytes"}, {"bytes"});
  PeerStream& stream = rig.connect().send_request("POST", "/", {{"te", "trailers"}}, false);
  stream.send(std::string(3000, 'q'));
  stream.send_trailers({{"x-sum", "1"}});
  PeerStream& request = rig.request_at(origin);
  EXPECT_TRUE(flow_until([&] { return request.ended; }));
  EXPECT_EQ(request.body.size(), 3000u);
  EXPECT_EQ(request.trailers.value("x-sum"), "1");
  request.respond(200, {}, false);
  request.send(std::string(3000, 'a'));
  request.send_trailers({{"x-sum", "2"}});
  EXPECT_TRUE(flow_until([&] { return stream.over(); }));
  EXPECT_EQ(stream.body.size(), 3000u);
  EXPECT_EQ(stream.trailers.value("x-sum"), "2");
}

TEST_P(HttpBandwidth, PacesATunnel) {
  limit();
  limit(1000, "up");
  start({"bytes"}, {"up"});
  PeerStream& stream = rig.connect_greeted().websocket();
  PeerStream& request = rig.request_at(origin);
  request.respond(200, {}, false);
  rig.until([&] { return stream.has_head; });
  stream.send(std::string(20'000, 'q'));
  request.send(std::string(20'000, 'a'));
  rig.settle();
  flow(2s);
  EXPECT_FALSE(request.body.empty());
  EXPECT_FALSE(stream.body.empty());
  EXPECT_LE(request.body.size(), 3000 + kSlack);
  EXPECT_LE(stream.body.size(), 3000 + kSlack);
  EXPECT_TRUE(flow_until([&] { return stream.body.size() == 20'000 && request.body.size() == 20'000; }));
  request.send("", true);
  stream.send("", true);
  rig.wait_over(stream);
  rig.expect_ended(HttpEnd::kOk);
}

// What is counted is what the client gets.
TEST_P(HttpBandwidth, CompressedResponse) {
  limit();
  rig.config().compression.emplace();
  start({"bytes"});
  std::string text;
  for (uint32_t i = 0, random = 1; i < 8000; ++i, random = random * 1664525 + 1013904223) {
    text += std::to_string(random % 1000) + " ";
  }
  PeerStream& stream = rig.connect().send_request("GET", "/", {{"accept-encoding", "gzip"}});
  PeerStream& request = rig.request_at(origin);
  request.respond(200, {{"content-type", "text/plain"}}, false);
  request.send(text, true);
  rig.settle();
  EXPECT_TRUE(flow_until([&] { return stream.over(); }));
  const test::Decoded decoded = test::decode(ContentCoding::kGzip, stream.body);
  EXPECT_TRUE(decoded.ended && decoded.text == text) << decoded.text.size();
  EXPECT_EQ(rig.rate_limit().bytes.value(), stream.body.size());
  EXPECT_GE(pauses(), 10u);
}

// A buffer frees the endpoint, as for a slow client.
TEST_P(HttpBandwidth, BufferedResponse) {
  limit();
  rig.config().forward.clear();
  rig.config().routes.resize(1);
  rig.config().routes[0].forward = "origin";
  rig.config().routes[0].buffer.emplace().responses = {8 << 20};
  start({"bytes"});
  rig.add_desk();
  PeerStream& stream = rig.connect().send_request();
  PeerStream& request = begin_response(stream, std::string(1'000'000, 'x'));
  rig.until([&] { return rig.upstream_state().endpoint(0).active.load() == 0; });
  EXPECT_TRUE(request.ended);
  flow(5s);
  EXPECT_FALSE(stream.over());
  EXPECT_GE(stream.body.size(), 5000u);
  EXPECT_LE(stream.body.size(), 6000 + kSlack);
}

TEST_P(HttpBandwidth, BufferedRequest) {
  limit();
  rig.config().forward.clear();
  rig.config().routes.resize(1);
  rig.config().routes[0].forward = "origin";
  rig.config().routes[0].buffer.emplace().requests = {8 << 20};
  start({}, {"bytes"});
  rig.add_desk();
  const std::string body(20'000, 'x');
  PeerStream& stream = rig.connect().post(body);
  rig.settle();
  flow(2s);
  EXPECT_TRUE(origin.requests.empty());
  EXPECT_TRUE(flow_until([&] { return !origin.requests.empty() && origin.requests[0]->ended; }));
  EXPECT_TRUE(origin.requests[0]->body == body);
  origin.requests[0]->respond(200, "fine");
  rig.expect_response(stream, 200, "fine");
}

TEST_P(HttpBandwidth, OwnResponse) {
  limit();
  rig.config().forward.clear();
  rig.config().routes.resize(1);
  rig.config().routes[0].respond.emplace().body = std::string(5000, 'x');
  start({"bytes"});
  PeerStream& stream = rig.connect().send_request();
  rig.until([&] { return stream.has_head; });
  EXPECT_FALSE(stream.over());
  EXPECT_TRUE(flow_until([&] { return stream.over(); }));
  rig.expect_response(stream, 200, std::string(5000, 'x'));
  EXPECT_GE(pauses(), 3u);
}

// A body that is refused while it waits does not hold up the response.
TEST_P(HttpBandwidth, ResponseBeforeTheBody) {
  limit();
  start({}, {"bytes"});
  PeerStream& stream = rig.connect().post(std::string(30'000, 'x'), /*end=*/false);
  PeerStream& request = rig.request_at(origin);
  rig.settle();
  request.respond(403, "no");
  rig.wait_over(stream);
  EXPECT_EQ(stream.head.status, 403);
  EXPECT_EQ(stream.body, "no");  // In HTTP/2 a reset follows: the rest of the body is not wanted.
  rig.expect_ended(HttpEnd::kOk);
}

SLUICE_EACH_VERSION(HttpBandwidth);

}  // namespace
}  // namespace sluice
