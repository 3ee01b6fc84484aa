// A turn of the loop forwards a bounded number of requests; the others wait for the next one.

#include "proxy/http/proxy/forward_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "proxy/http/proxy/http_worker.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

constexpr size_t kTurn = ForwardQueue::kTurnRequests;

class ForwardQueueTest : public test::HttpRigTest {
 protected:
  ForwardQueueTest() : origin_(rig.add_origin()) {}

  void connect(size_t clients) {
    for (size_t i = 0; i < clients; ++i) clients_.push_back(&rig.connect_greeted());
  }
  /// A request of each client from the `first`-th on, up to the `end`-th. None has arrived yet.
  void send(size_t first, size_t end, std::string_view path = "/") {
    for (size_t i = first; i < end; ++i) streams_.push_back(&clients_[i]->send_request("GET", path));
  }
  /// How many requests have been forwarded and have no response.
  size_t forwarded() { return rig.upstream_state().endpoint(0).active.load(); }
  uint64_t wait_ms() { return rig.http_worker().forward_queue().wait_ms(); }
  /// Responds to the requests that have arrived since.
  static void respond(HttpOrigin& origin) {
    for (PeerStream* const each : origin.requests) {
      if (each->ended && !each->sent_end) each->respond(200, "fine");
    }
  }
  void respond_to_all() {
    rig.until([&] {
      respond(origin_);
      return origin_.requests.size() == streams_.size() && origin_.requests.back()->sent_end;
    });
    for (PeerStream* const each : streams_) rig.expect_response(*each, 200, "fine");
  }

  HttpOrigin& origin_;
  std::vector<HttpPeer*> clients_;
  std::vector<PeerStream*> streams_;
};

SLUICE_EACH_VERSION(ForwardQueueTest);

// Defect: a worker with 4,000 busy clients had all of their requests in flight, each on a connection of its own to the
// endpoint; it took a quarter more time for each request.
TEST_P(ForwardQueueTest, TurnForwardsSoMany) {
  rig.start();
  connect(2 * kTurn + 10);
  send(0, clients_.size());
  rig.until([&] { return forwarded() > 0; });
  EXPECT_EQ(forwarded(), kTurn);
  rig.settle(1);
  EXPECT_EQ(forwarded(), 2 * kTurn);
  rig.settle(1);
  EXPECT_EQ(forwarded(), clients_.size());
  respond_to_all();
}

// Defect: of 2,000 clients that sent their first requests at once, many got 503, as more requests waited for
// connections to be opened than pool.max_pending.
TEST_P(ForwardQueueTest, CrowdWaitsForConnectionsAFewAtATime) {
  if (upstream_http2()) return;  // Those wait until the endpoint has sent its settings.
  rig.upstream().pool.max_pending = 2 * kTurn;
  rig.start();
  connect(5 * kTurn);
  send(0, clients_.size());
  respond_to_all();
  EXPECT_EQ(rig.upstream_counters().pending_refused.value(), 0u);
}

// The wait counts as delay of the loop: see DelayControl.
TEST_P(ForwardQueueTest, WaitIsKnown) {
  rig.start();
  connect(2 * kTurn + 10);
  send(0, clients_.size());
  rig.until([&] { return forwarded() > 0; });
  EXPECT_EQ(wait_ms(), 0u);
  test::skip_time(70ms);
  rig.settle(1);
  EXPECT_EQ(forwarded(), 2 * kTurn);
  EXPECT_GE(wait_ms(), 70u);
  EXPECT_LT(wait_ms(), 1070u);
  rig.settle(1);
  EXPECT_EQ(wait_ms(), 0u);
  respond_to_all();
}

// A client with one request does not wait behind those that have sent many.
TEST_P(ForwardQueueTest, CrowdOfStreamsWaitsForItself) {
  if (!client_http2()) return;
  rig.upstream().pool.max_streams = 1000;
  rig.start();
  connect(5);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < kTurn; ++j) send(i, i + 1);
  }
  rig.until([&] { return forwarded() > 0; });
  EXPECT_EQ(forwarded(), kTurn);
  send(4, 5, "/alone");
  rig.settle(1);
  EXPECT_EQ(forwarded(), 2 * kTurn);
  rig.settle(1);
  EXPECT_EQ(forwarded(), 3 * kTurn);
  respond_to_all();
  size_t place = 0;
  while (origin_.requests[place]->head.path() != "/alone") ++place;
  EXPECT_LT(place, 3 * kTurn);
}

TEST_P(ForwardQueueTest, CancelledRequestsAreNotForwarded) {
  if (!client_http2()) return;  // A client of HTTP/1.1 that has closed its sending side still expects its response.
  rig.start();
  connect(2 * kTurn);
  send(0, clients_.size());
  rig.until([&] { return forwarded() > 0; });
  EXPECT_EQ(forwarded(), kTurn);
  for (HttpPeer* const client : clients_) client->close();
  rig.expect_ended(HttpEnd::kClientReset, clients_.size());
  EXPECT_LE(origin_.requests.size(), kTurn);
  for (PeerStream* const each : streams_) {
    if (each->codec_stream) each->release();
  }
}

TEST_P(ForwardQueueTest, HighPriorityDoesNotWait) {
  rig.config().forward.clear();
  config::HttpRoute high;
  high.match.emplace().path.emplace().exact = "/high";
  high.forward = "origin";
  high.priority = config::Priority::kHigh;
  rig.config().routes.push_back(high);
  rig.config().routes.emplace_back().forward = "origin";
  rig.start();
  connect(2 * kTurn + 1);
  send(0, 2 * kTurn);
  send(2 * kTurn, 2 * kTurn + 1, "/high");
  rig.until([&] { return forwarded() > 0; });
  EXPECT_EQ(forwarded(), kTurn + 1);
  respond_to_all();
}

// The wait for a turn is not the endpoint's: no hedge is sent for it.
TEST_P(ForwardQueueTest, WaitCausesNoHedge) {
  HttpOrigin& other = rig.add_origin();
  rig.config().forward.clear();
  config::HttpRoute hedged;
  hedged.match.emplace().path.emplace().exact = "/hedged";
  hedged.forward = "origin";
  hedged.retry.emplace().hedge_after = 200ms;
  rig.config().routes.push_back(hedged);
  rig.config().routes.emplace_back().forward = "origin";
  rig.start();
  connect(3 * kTurn + 1);
  send(0, 3 * kTurn);
  const auto in_progress = [&] { return forwarded() + rig.upstream_state().endpoint(1).active.load(); };
  rig.until([&] { return in_progress() > 0; });
  send(3 * kTurn, 3 * kTurn + 1, "/hedged");
  rig.settle(1);
  EXPECT_EQ(in_progress(), 2 * kTurn);
  test::skip_time(1s);
  rig.settle(1);
  EXPECT_EQ(in_progress(), 3 * kTurn) << "a hedge has an endpoint of its own";
  rig.settle(3);
  EXPECT_EQ(in_progress(), 3 * kTurn + 1);
  for (PeerStream* const each : streams_) {
    rig.until([&] {
      for (HttpOrigin* const origin : {&origin_, &other}) respond(*origin);
      return each->over();
    });
  }
  EXPECT_EQ(rig.upstream_counters().hedges.value(), 0u);
}

// The body waits with its head, also one that ends meanwhile.
TEST_P(ForwardQueueTest, BodyWaits) {
  rig.start();
  connect(kTurn + 1);
  send(0, kTurn);
  PeerStream& post = clients_.back()->send_request("POST", "/", {}, false);
  streams_.push_back(&post);
  post.send("first, ");
  rig.until([&] { return forwarded() > 0; });
  EXPECT_EQ(forwarded(), kTurn);
  post.send("last", true);
  respond_to_all();
  const auto is_post = [](const PeerStream* each) { return each->head.method() == "POST"; };
  EXPECT_EQ((*std::find_if(origin_.requests.begin(), origin_.requests.end(), is_post))->body, "first, last");
}

}  // namespace
}  // namespace sluice
