// Calls for clients and for servers: each role has its own limit of calls to the handshaker service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "test/proxy/alts/sides.h"

namespace sluice {
namespace {

using test::FakeService;
using test::Side;
using ::testing::ElementsAre;
using Role = HandshakerCall::Role;
using Status = Handshake::Status;

class HandshakerRolesTest : public test::HandshakerFixture {
 protected:
  using Sides = std::vector<std::unique_ptr<Side>>;

  /// Begins handshakes that call the service, or wait for a call. Servers have received their clients' messages.
  Sides begin(int count, bool is_client) {
    Sides sides;
    for (int i = 0; i < count; ++i) {
      sides.push_back(std::make_unique<Side>(*this, is_client));
      if (!is_client) sides.back()->give("ClientInit");
    }
    return sides;
  }
  /// Holds the responses to first requests, and records the requests.
  void hold() {
    fake.on_request = [this](FakeService::Call& call, const std::string& request) {
      if (call.requests > 1) return false;
      held_.push_back(&call);
      requests_.push_back(request);
      return true;
    };
  }
  /// Releases the held responses, and responds to all later requests.
  void release_held() {
    fake.on_request = nullptr;
    for (size_t i = 0; i < held_.size(); ++i) fake.respond_as_usual(*held_[i], requests_[i]);
    held_.clear();
    requests_.clear();
  }
  static bool all(const Sides& sides, bool (*is)(const Side&)) {
    return std::all_of(sides.begin(), sides.end(), [is](const auto& side) { return is(*side); });
  }

  std::vector<FakeService::Call*> held_;
};

// Defect: 100 was the limit of both roles together, so that the clients of listeners could keep the proxy from
// connecting to its endpoints. In gRPC's own clients of the service each role has a limit of 100.
TEST_F(HandshakerRolesTest, EachRoleHasItsOwnLimit) {
  hold();
  const Sides clients = begin(150, true), servers = begin(130, false);
  ASSERT_TRUE(until([&] { return held_.size() == 200 && service->waiting_calls(Role::kServer) == 30; }));
  settle();
  EXPECT_EQ(held_.size(), 200u);
  EXPECT_EQ(service->open_calls(Role::kClient), 100u);
  EXPECT_EQ(service->open_calls(Role::kServer), 100u);
  EXPECT_EQ(service->waiting_calls(Role::kClient), 50u);
  EXPECT_EQ(service->waiting_calls(Role::kServer), 30u);
  EXPECT_EQ(fake.most_calls, 200u);

  release_held();
  std::vector<bool> served_clients(clients.size()), served_servers(servers.size());
  const auto advance = [&](const Sides& sides, std::vector<bool>& already, const std::string& flight) {
    for (size_t i = 0; i < sides.size(); ++i) {
      if (sides[i]->sent.empty() || already[i] || !sides[i]->handshake->wants_bytes()) continue;
      already[i] = true;
      sides[i]->give(flight);
    }
    return all(sides, [](const Side& side) { return side.over(); });
  };
  ASSERT_TRUE(until([&] {
    const bool clients_over = advance(clients, served_clients, "ServerInitServerFinished");
    return advance(servers, served_servers, "ClientFinished") && clients_over;
  }));
  for (const Sides* sides : {&clients, &servers}) {
    for (const auto& side : *sides) EXPECT_EQ(side->status, Status::kDone) << side->handshake->error();
  }
  EXPECT_EQ(fake.most_calls, 200u);
  EXPECT_EQ(fake.accepted, 1);
}

TEST_F(HandshakerRolesTest, ManyClientsDoNotBlockServers) {
  hold();
  const Sides clients = begin(150, true);
  ASSERT_TRUE(until([&] { return held_.size() == 100 && service->waiting_calls(Role::kClient) == 50; }));
  fake.on_request = nullptr;
  Side server(*this, false);
  server.give("ClientInit");
  ASSERT_TRUE(until([&] { return !server.sent.empty(); }));
  server.give("ClientFinished");
  ASSERT_TRUE(until([&] { return server.over(); }));
  EXPECT_EQ(server.status, Status::kDone) << server.handshake->error();
  EXPECT_EQ(service->open_calls(Role::kClient), 100u);
}

TEST_F(HandshakerRolesTest, ManyServersDoNotBlockClients) {
  hold();
  const Sides servers = begin(150, false);
  ASSERT_TRUE(until([&] { return held_.size() == 100 && service->waiting_calls(Role::kServer) == 50; }));
  fake.on_request = nullptr;
  handshakes(1);
  EXPECT_EQ(service->open_calls(Role::kServer), 100u);
}

TEST_F(HandshakerRolesTest, RolesAlternateAtTheServicesLimit) {
  fake.max_streams = 1;
  std::vector<bool> order;  // For each call, whether it is a client's.
  FakeService::Call* held = nullptr;
  bool all_wait = false;
  fake.on_request = [&](FakeService::Call& call, const std::string& request) {
    order.push_back(test::WireMessage::of(request).has(1));
    all_wait ? FakeService::end(call, "14", "no more") : void(held = &call);
    return true;
  };
  Sides clients = begin(3, true);
  ASSERT_TRUE(until([&] { return held && service->waiting_calls(Role::kClient) == 2; }));
  Sides servers = begin(2, false);
  ASSERT_TRUE(until([&] { return service->waiting_calls(Role::kServer) == 2; }));
  all_wait = true;
  FakeService::end(*held, "14", "no more");
  ASSERT_TRUE(until([&] {
    return all(clients, [](const Side& side) { return side.over(); }) &&
           all(servers, [](const Side& side) { return side.over(); });
  }));
  EXPECT_THAT(order, ElementsAre(true, false, true, false, true));
}

// An idle call gives its slot to one that waits, also of the other role if the service allows no more calls.
TEST_F(HandshakerRolesTest, IdleClientGivesWayToServer) {
  fake.max_streams = 1;
  Side resting(*this, true);
  ASSERT_TRUE(until([&] { return resting.sent == "ClientInit"; }));
  Side server(*this, false);
  server.give("ClientInit");
  ASSERT_TRUE(until([&] { return resting.over() && !server.sent.empty(); }));
  EXPECT_THAT(resting.handshake->error(), ::testing::HasSubstr("the peer sent nothing for a second"));
}

// ---- What the service receives

TEST_F(HandshakerRolesTest, ClientSendsServerNameAndDuration) {
  std::vector<test::WireMessage> requests;
  fake.on_request = [&](FakeService::Call&, const std::string& request) {
    requests.push_back(test::WireMessage::of(request));
    return false;
  };
  AltsOptions options;
  options.target_name = "app.internal:8443";
  Side client(*this, true, nullptr, options);
  ASSERT_TRUE(until([&] { return client.sent == "ClientInit"; }));
  const uint64_t sent_ms = worker().now_ms();
  ASSERT_TRUE(until([&] { return worker().now_ms() >= sent_ms + 30; }));
  client.give("ServerInitServerFinished");
  ASSERT_TRUE(until([&] { return client.over(); }));
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].message(1).text(8), "app.internal:8443");
  EXPECT_GE(requests[1].message(3).number(2), 30u);
  EXPECT_LE(requests[1].message(3).number(2), worker().now_ms() - sent_ms + 1);
}

}  // namespace
}  // namespace sluice
