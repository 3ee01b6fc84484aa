// What a session does when the process is short of memory, or its worker has too many requests.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "proxy/http/proxy/http_session.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using config::Priority;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

constexpr size_t kMiB = size_t{1} << 20;
constexpr config::OverloadMemory kMarks{.reduce = 80, .close = 90, .refuse = 95};

class OverloadTest : public test::HttpRigTest {
 protected:
  OverloadTest() { rig.config().idle_timeout = 100s; }

  void set_memory(uint64_t percent) {
    const MemoryUse use{.used = percent * kMiB, .limit = 100 * kMiB};
    const MemoryLevel level = next_memory_level(rig.overload_state.level(), use, kMarks);
    rig.overload_state.set_memory(level, use, kMarks);
    const ChunkPool::Use pool(&rig.loop().worker().pool());
    rig.loop().worker().set_scarce(level != MemoryLevel::kNormal);
    if (level != MemoryLevel::kNormal) rig.acceptor().review_memory();
  }
  PeerStream& serve(HttpPeer& client, HttpOrigin& origin) {
    PeerStream& stream = client.send_request();
    rig.request_at(origin, served_++).respond(200, "fine");
    rig.expect_response(stream, 200, "fine");
    return stream;
  }
  uint64_t actions(OverloadAction action) { return rig.overload_counters.actions[static_cast<size_t>(action)].value(); }
  /// Makes the worker refuse most requests.
  void make_slow() {
    rig.overload_state.set_delay({.target = 100ms, .interval = 500ms, .refuse = Priority::kNormal});
    for (uint64_t ms = 1000; ms < 30'000; ms += 1000) rig.overload.note_turn(ms, 1000, 0);
    ASSERT_TRUE(rig.overload.sheds());
  }

  size_t served_ = 0;
};

SLUICE_EACH_VERSION(OverloadTest);

TEST_P(OverloadTest, ConnectionsGoOnWhileThereIsMemory) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  set_memory(79);
  serve(client, origin);
  serve(client, origin);
  for (int i = 0; i < kOverloadActionCount; ++i) EXPECT_EQ(actions(static_cast<OverloadAction>(i)), 0u);
}

TEST_P(OverloadTest, ConnectionsEndWithTheirResponse) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  serve(client, origin);
  set_memory(80);
  serve(client, origin);
  rig.until([&] { return client.gone(); });
  EXPECT_FALSE(client.was_reset());
  EXPECT_EQ(actions(client_http2() ? OverloadAction::kGoaway : OverloadAction::kCloseAfterResponse), 1u);
}

TEST_P(OverloadTest, IdleTimeoutsAreReduced) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& client = rig.connect();
  serve(client, origin);
  rig.pass(9s);
  set_memory(94);
  rig.pass(1s);
  EXPECT_FALSE(client.gone());
  rig.pass(20s);
  rig.until([&] { return client.gone(); });
  rig.expect_session_ended(SessionEnd::kIdleTimeout);
  EXPECT_EQ(actions(OverloadAction::kReduceTimeouts), 1u);
}

TEST_P(OverloadTest, NewConnectionsAreRefusedAtTheLastMark) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  set_memory(94);
  serve(rig.connect(), origin);
  set_memory(95);
  HttpPeer& refused = rig.connect();
  rig.until([&] { return refused.gone(); });
  EXPECT_EQ(actions(OverloadAction::kRefuseConnection), 1u);
  EXPECT_EQ(rig.counters().refused[static_cast<size_t>(Refusal::kOverload)].value(), 1u);
  set_memory(50);
  serve(rig.connect(), origin);
}

TEST_P(OverloadTest, ConnectionsThatHoldMuchAreClosed) {
  HttpOrigin& origin = rig.add_origin();
  rig.start();
  HttpPeer& reader = rig.connect();
  PeerStream& small = reader.send_request();
  rig.request_at(origin, served_++).respond(200, {}, false);
  rig.until([&] { return small.has_head; });
  HttpPeer& slow = rig.connect();
  slow.send_request();
  PeerStream& large = rig.request_at(origin, served_++);
  slow.reads = false;
  large.respond(200, {}, false);
  for (int i = 0; i < 16; ++i) {
    if (large.codec_stream->queued() < kMiB) large.send(std::string(kMiB, 'x'));
    rig.settle(20);
  }
  set_memory(89);
  rig.pass(100ms);
  EXPECT_EQ(rig.sum_of_ends(), 0u);
  set_memory(90);
  rig.pass(100ms);
  rig.until([&] { return rig.sum_of_ends() > 0; });
  EXPECT_EQ(rig.ended(HttpEnd::kOverload), 1u);
  EXPECT_EQ(rig.session_ends(SessionEnd::kOverload), 1u);
  EXPECT_EQ(actions(OverloadAction::kCloseConnection), 1u);
  EXPECT_GE(rig.overload_counters.closed_bytes.value(), 64u * 1024);
  EXPECT_FALSE(reader.gone()) << "it holds nothing";
  rig.wait_cancelled(large);
}

TEST_P(OverloadTest, RequestsAreRefusedByPriority) {
  HttpOrigin& origin = rig.add_origin();
  rig.config().forward.clear();
  const auto route = [&](const std::string& path, Priority priority) {
    config::HttpRoute made;
    made.match.emplace().path.emplace().exact = path;
    made.forward = "origin";
    made.priority = priority;
    rig.config().routes.push_back(std::move(made));
  };
  route("/high", Priority::kHigh);
  route("/low", Priority::kLow);
  route("/normal", Priority::kNormal);
  rig.config().routes.emplace_back().match.emplace().path.emplace().exact = "/ready";
  rig.config().routes.back().readiness = true;
  rig.start();
  make_slow();
  HttpPeer& client = rig.connect();
  PeerStream& low = client.send_request("GET", "/low");
  rig.wait_over(low);
  EXPECT_EQ(low.head.status, 503);
  EXPECT_EQ(low.field("retry-after"), "1");
  EXPECT_EQ(actions(OverloadAction::kRefuseRequest), 1u);
  PeerStream& high = client.send_request("GET", "/high");
  rig.request_at(origin, served_++).respond(200, "fine");
  rig.expect_response(high, 200, "fine");
  PeerStream& ready = client.send_request("GET", "/ready");
  rig.wait_over(ready);
  EXPECT_EQ(ready.head.status, 200);
  uint64_t refused = 0;
  for (int i = 0; i < 3; ++i) {
    PeerStream& normal = client.send_request("GET", "/normal");
    rig.until([&] { return normal.over() || origin.requests.size() > served_; });
    if (!normal.over()) rig.request_at(origin, served_++).respond(200, "fine");
    rig.wait_over(normal);
    refused += normal.head.status == 503;
  }
  EXPECT_GE(refused, 2u) << "of 3, as 98 of 100 are refused";
  EXPECT_EQ(rig.ended(HttpEnd::kOverload), refused + 1);
}

// A refusal costs nearly as much as a small request. Defect: at twice the load, a worker did little but refuse.
TEST_P(OverloadTest, RefusalsArePaced) {
  HttpOrigin& origin = rig.add_origin();
  rig.config().forward.clear();
  for (const auto& [path, priority] : {std::pair("/high", Priority::kHigh), std::pair("/low", Priority::kLow)}) {
    config::HttpRoute made;
    made.match.emplace().path.emplace().exact = path;
    made.forward = "origin";
    made.priority = priority;
    rig.config().routes.push_back(std::move(made));
  }
  rig.start();
  make_slow();
  HttpPeer& client = rig.connect();
  for (int i = 0; i < 64; ++i) {
    PeerStream& low = client.send_request("GET", "/low");
    rig.wait_over(low);
    EXPECT_EQ(low.head.status, 503) << "the first ones at once";
  }
  PeerStream& waits = client.send_request("GET", "/low");
  rig.pass(900ms);
  EXPECT_FALSE(waits.over());
  rig.pass(200ms);
  rig.wait_over(waits);
  EXPECT_EQ(waits.head.status, 503);

  PeerStream& paced = client.send_request("GET", "/low");
  rig.settle(20);
  EXPECT_FALSE(paced.over());
  HttpPeer& other = rig.connect();
  for (uint64_t i = 0; i < PacedRefusals::kServedPerRefusal; ++i) {
    PeerStream& high = other.send_request("GET", "/high");
    rig.request_at(origin, served_++).respond(200, "fine");
    rig.expect_response(high, 200, "fine");
  }
  rig.pass(20ms);
  rig.wait_over(paced);
  EXPECT_EQ(paced.head.status, 503) << "one for so many requests that were served";

  // The client leaves, and memory gets short.
  HttpPeer& leaves = rig.connect();
  leaves.send_request("GET", "/low");
  PeerStream& last = client.send_request("GET", "/low");
  rig.settle(20);
  leaves.close();
  rig.settle(20);
  EXPECT_FALSE(last.over());
  set_memory(80);
  rig.pass(20ms);
  rig.wait_over(last);
  EXPECT_EQ(last.head.status, 503) << "while memory is short nothing waits";
}

}  // namespace
}  // namespace sluice
