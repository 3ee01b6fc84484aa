// Handshakes through a HandshakerService: successful ones, how many at once, and the connection to the service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test/proxy/alts/sides.h"

namespace sluice {
namespace {

using test::FakeDialect;
using test::FakeResponse;
using test::FakeResult;
using test::FakeService;
using test::Side;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Role = HandshakerCall::Role;
using Status = Handshake::Status;

class HandshakerServiceTest : public test::HandshakerFixture {};

// ---- Both roles

class HandshakerServiceDialectTest : public test::HandshakerFixture, public ::testing::WithParamInterface<FakeDialect> {
 protected:
  HandshakerServiceDialectTest() : HandshakerFixture(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Dialects, HandshakerServiceDialectTest,
                         ::testing::Values(FakeDialect::kGo, FakeDialect::kCore),
                         [](const auto& p) { return p.param == FakeDialect::kGo ? "Go" : "Core"; });

TEST_P(HandshakerServiceDialectTest, ClientAndServerComplete) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}}) {
    SCOPED_TRACE(piece);
    Side client(*this, true), server(*this, false);
    ASSERT_TRUE(until([&] {
      client.pass_on(server, piece);
      server.pass_on(client, piece);
      return client.over() && server.over();
    }));
    ASSERT_EQ(client.status, Status::kDone) << client.handshake->error();
    ASSERT_EQ(server.status, Status::kDone) << server.handshake->error();
    const Agreement agreed = server.handshake->agreement();
    const std::string peer = GetParam() == FakeDialect::kGo ? "client@baz.com" : "peer_identity";
    EXPECT_EQ(agreed.version, "ALTS");
    EXPECT_EQ(agreed.cipher, "ALTSRP_GCM_AES128_REKEY");
    EXPECT_EQ(agreed.alpn, "grpc");
    EXPECT_THAT(agreed.peer_names, ::testing::ElementsAre(peer));
    EXPECT_EQ(agreed.common_name, peer);
    EXPECT_TRUE(agreed.certified);
    EXPECT_EQ(server.handshake->local_identity(), GetParam() == FakeDialect::kGo ? "" : "local_identity");
    // The end of the handshake, if it is still in flight, and the first record.
    const std::unique_ptr<RecordLayer> of_client = client.handshake->finish(), of_server = server.handshake->finish();
    Buffer wire, plain;
    of_client->seal(worker().pool(), test::buffer_of(worker().pool(), "hello"), wire);
    if (GetParam() == FakeDialect::kGo) {
      // The record that grpc-go makes with these keys.
      EXPECT_EQ(test::text_of(wire), test::from_hex("1900000006000000d8b35d6f246088e243307e88a8be9979ca104c0724"));
    }
    EXPECT_EQ(of_server->open(worker().pool(), std::move(wire), plain), RecordLayer::Status::kOpen);
    EXPECT_EQ(test::text_of(plain), "hello");
  }
}

TEST_P(HandshakerServiceDialectTest, FirstRecordsMayComeWithHandshake) {
  Side server(*this, false);
  server.give("ClientInit");
  ASSERT_TRUE(until([&] { return !server.sent.empty(); }));
  EXPECT_EQ(server.status, Status::kNeedMore);
  const std::string record = "1900000006000000d8b35d6f246088e243307e88a8be9979ca104c0724";
  server.give("ClientFinished" + test::from_hex(record).substr(0, 11));
  EXPECT_TRUE(server.handshake->wants_bytes());
  ASSERT_TRUE(until([&] { return !server.handshake->wants_bytes(); }));
  server.give(test::from_hex(record).substr(11));  // While the service works, or just after.
  ASSERT_TRUE(until([&] { return server.over(); }));
  ASSERT_EQ(server.status, Status::kDone) << server.handshake->error();
  const std::unique_ptr<RecordLayer> records = server.handshake->finish();
  Buffer plain;
  const auto status = records->open(worker().pool(), std::move(server.received), plain);
  if (GetParam() == FakeDialect::kGo) {
    EXPECT_EQ(status, RecordLayer::Status::kOpen);
    EXPECT_EQ(test::text_of(plain), "hello");
  } else {
    EXPECT_EQ(status, RecordLayer::Status::kFailed);  // Other keys.
  }
}

TEST_F(HandshakerServiceTest, CallsFollowGrpc) {
  Side client(*this, true);
  client.start();
  ASSERT_TRUE(until([&] { return !client.sent.empty(); }));
  ASSERT_EQ(fake.headers.size(), 1u);
  EXPECT_EQ(fake.headers[0], (std::map<std::string, std::string>{{":method", "POST"},
                                                                 {":scheme", "http"},
                                                                 {":path", "/grpc.gcp.HandshakerService/DoHandshake"},
                                                                 {":authority", fake.address.text()},
                                                                 {"content-type", "application/grpc"},
                                                                 {"te", "trailers"},
                                                                 {"user-agent", "sluice"}}));
}

TEST_F(HandshakerServiceTest, UnixSocket) {
  const std::string path = ::testing::TempDir() + "/handshaker_" + std::to_string(getpid());
  ::unlink(path.c_str());
  {
    FakeService on_unix(path);
    HandshakerService its(*loop, on_unix.address);
    {
      Side client(*this, true, &its);
      client.start();
      ASSERT_TRUE(until([&] {
        on_unix.turn();
        return !client.sent.empty();
      }));
      EXPECT_EQ(on_unix.headers[0][":authority"], "localhost");
    }
    its.close();
    EXPECT_TRUE(until([&] { return its.idle(); }));
  }
  ::unlink(path.c_str());
}

TEST_F(HandshakerServiceTest, MessagesMayBeSplitOverFrames) {
  fake.data_frame_bytes = 1;
  handshakes(2);
}

TEST_F(HandshakerServiceTest, LongMessagesPassTheWindows) {
  const std::string frames(100'000, 'f');
  fake.on_request = [&](FakeService::Call& call, const std::string&) {
    FakeService::send_response(call, FakeResponse{.out_frames = frames});
    return true;
  };
  Side client(*this, true), server(*this, false);
  client.start();
  server.give(std::string(70'000, 'p'));  // More than the window; the messages are of up to 65,536 bytes.
  ASSERT_TRUE(until([&] { return client.sent.size() == frames.size() && server.sent.size() >= frames.size(); }));
  EXPECT_EQ(client.sent, frames);
}

// ---- Many handshakes

TEST_F(HandshakerServiceTest, AtMostAHundredAtATime) {
  std::vector<FakeService::Call*> held;
  fake.on_request = [&](FakeService::Call& call, const std::string& request) {
    if (call.requests > 1 || call.handshake.is_client || held.size() >= 1000) return false;
    held.push_back(&call);
    requests_.push_back(request);
    return true;
  };
  std::vector<std::unique_ptr<Side>> sides;
  for (int i = 0; i < 250; ++i) {
    sides.push_back(std::make_unique<Side>(*this, true));
    sides.back()->start();
  }
  ASSERT_TRUE(until([&] { return held.size() == 100 && service->waiting_calls(Role::kClient) == 150; }));
  settle();
  EXPECT_EQ(held.size(), 100u);
  EXPECT_EQ(service->open_calls(Role::kClient), 100u);
  EXPECT_EQ(service->waiting_calls(Role::kClient), 150u);
  // First in, first out: the first hundred have their calls.
  fake.on_request = nullptr;
  for (size_t i = 0; i < held.size(); ++i) fake.respond_as_usual(*held[i], requests_[i]);
  ASSERT_TRUE(until([&] {
    return std::all_of(sides.begin(), sides.begin() + 100, [](const auto& s) { return s->sent == "ClientInit"; });
  }));
  for (size_t i = 100; i < 250; ++i) ASSERT_EQ(sides[i]->sent, "");
  for (size_t i = 0; i < 100; ++i) sides[i]->give("ServerInitServerFinished");
  ASSERT_TRUE(
      until([&] { return std::all_of(sides.begin(), sides.begin() + 100, [](const auto& s) { return s->over(); }); }));
  for (size_t i = 100; i < 250; ++i) sides[i]->give("ServerInitServerFinished");
  ASSERT_TRUE(until([&] { return std::all_of(sides.begin(), sides.end(), [](const auto& s) { return s->over(); }); }));
  for (const auto& side : sides) EXPECT_EQ(side->status, Status::kDone) << side->handshake->error();
  EXPECT_LE(fake.most_calls, 200u);  // Finished calls may not have ended.
  EXPECT_EQ(fake.accepted, 1);
  EXPECT_EQ(fake.calls, 250);
  EXPECT_EQ(service->open_calls(Role::kClient), 0u);
  ASSERT_TRUE(until([&] { return fake.open_calls() == 0; }));
  EXPECT_EQ(fake.resets, 0);  // All calls ended in order.
}

TEST_F(HandshakerServiceTest, ServiceLimitIsKept) {
  fake.max_streams = 3;
  handshakes(20);
  EXPECT_EQ(fake.most_calls, 3u);
  EXPECT_EQ(fake.calls, 20);
  EXPECT_EQ(fake.accepted, 1);
}

TEST_F(HandshakerServiceTest, UnendedCallsGiveWay) {
  fake.max_streams = 2;
  fake.ends_with_client = false;
  handshakes(10);
  EXPECT_EQ(fake.calls, 10);
  EXPECT_LE(fake.most_calls, 2u);
  EXPECT_GE(fake.resets, 8);
}

TEST_F(HandshakerServiceTest, AbandonedHandshakeLeavesTheQueue) {
  fake.max_streams = 1;
  fake.on_request = [](FakeService::Call&, const std::string&) { return true; };
  auto first = std::make_unique<Side>(*this, true), second = std::make_unique<Side>(*this, true),
       third = std::make_unique<Side>(*this, true);
  for (Side* side : {first.get(), second.get(), third.get()}) side->start();
  ASSERT_TRUE(until([&] { return fake.calls == 1 && service->waiting_calls(Role::kClient) == 2; }));
  second.reset();
  EXPECT_EQ(service->waiting_calls(Role::kClient), 1u);
  fake.on_request = nullptr;
  first.reset();
  ASSERT_TRUE(until([&] { return third->sent == "ClientInit"; }));
  EXPECT_EQ(fake.resets, 1);
  EXPECT_EQ(fake.calls, 2);
}

TEST_F(HandshakerServiceTest, IdleCallGivesWay) {
  fake.max_streams = 1;
  Side resting(*this, true);
  ASSERT_TRUE(until([&] { return resting.sent == "ClientInit"; }));
  const uint64_t began = worker().now_ms();
  Side next(*this, true);
  ASSERT_TRUE(until([&] { return resting.over() && next.sent == "ClientInit"; }));
  EXPECT_GE(worker().now_ms() - began + 50, HandshakerService::kRestMs);
  EXPECT_THAT(resting.handshake->error(), HasSubstr("the peer sent nothing for a second while other handshakes wait"));
  EXPECT_EQ(next.status, Status::kNeedMore);
}

TEST_F(HandshakerServiceTest, IdleCallStaysWhereNoneWaits) {
  Side resting(*this, true);
  ASSERT_TRUE(until([&] { return resting.sent == "ClientInit"; }));
  Side next(*this, true);  // There is room for it.
  const uint64_t end = worker().now_ms() + HandshakerService::kRestMs + 200;
  ASSERT_TRUE(until([&] { return worker().now_ms() > end; }));
  EXPECT_FALSE(resting.over());
  resting.give("ServerInitServerFinished");
  ASSERT_TRUE(until([&] { return resting.over(); }));
  EXPECT_EQ(resting.status, Status::kDone) << resting.handshake->error();
}

// ---- The connection to the service

TEST_F(HandshakerServiceTest, UnusedServiceIsIdle) {
  HandshakerService unused(*loop, fake.address);
  settle();
  EXPECT_EQ(fake.accepted, 0);
  EXPECT_FALSE(unused.idle());
  unused.close();
  EXPECT_TRUE(unused.idle());
}

TEST_F(HandshakerServiceTest, CloseEndsAllCalls) {
  fake.max_streams = 1;
  fake.on_request = [](FakeService::Call&, const std::string&) { return true; };
  Side open(*this, true), waiting(*this, true);
  open.start();
  waiting.start();
  ASSERT_TRUE(until([&] { return fake.calls == 1 && service->waiting_calls(Role::kClient) == 1; }));
  service->close();
  ASSERT_TRUE(until([&] { return service->idle() && open.over() && waiting.over(); }));
  for (const Side* side : {&open, &waiting}) {
    EXPECT_EQ(side->status, Status::kFailed);
    EXPECT_THAT(side->handshake->error(), HasSubstr("the proxy is shutting down"));
  }
  Side late(*this, true);
  late.start();
  ASSERT_TRUE(until([&] { return late.over(); }));
  EXPECT_THAT(late.handshake->error(), HasSubstr("the proxy is shutting down"));
  ASSERT_TRUE(until([&] { return fake.connections.empty(); }));
}

TEST_F(HandshakerServiceTest, CloseWhileConnecting) {
  Side client(*this, true);
  client.start();
  worker().turn(0);
  service->close();
  ASSERT_TRUE(until([&] { return service->idle() && client.over(); }));
}

TEST_F(HandshakerServiceTest, ReconnectsWithBackoff) {
  handshakes(1);
  const uint64_t began = worker().now_ms();
  for (int round = 1; round <= 5; ++round) {
    ASSERT_EQ(fake.accepted, round);
    ASSERT_EQ(fake.connections.size(), 1u);
    fake.connections.front()->peer.reset();
    fake.turn();
    settle();
    handshakes(1);
  }
  EXPECT_EQ(fake.accepted, 6);
  EXPECT_GE(worker().now_ms() - began, 4 * HandshakerService::kReconnectMs);
}

TEST_F(HandshakerServiceTest, WaitingHandshakesSurviveALostConnection) {
  fake.max_streams = 1;
  fake.on_request = [](FakeService::Call&, const std::string&) { return true; };
  Side open(*this, true), waiting(*this, true);
  open.start();
  waiting.start();
  ASSERT_TRUE(until([&] { return fake.calls == 1 && service->waiting_calls(Role::kClient) == 1; }));
  fake.on_request = nullptr;
  fake.connections.front()->peer.close();
  ASSERT_TRUE(until([&] { return open.over() && waiting.sent == "ClientInit"; }));
  EXPECT_THAT(open.handshake->error(), AllOf(HasSubstr(fake.address.text()), HasSubstr("closed the connection")));
  EXPECT_EQ(waiting.status, Status::kNeedMore);
}

TEST_F(HandshakerServiceTest, DrainingServiceFinishesItsCalls) {
  Side open(*this, true);
  open.start();
  ASSERT_TRUE(until([&] { return open.sent == "ClientInit"; }));
  nghttp2_submit_goaway(fake.connections.front()->session, NGHTTP2_FLAG_NONE, 1, NGHTTP2_NO_ERROR, nullptr, 0);
  settle();
  Side next(*this, true);
  next.start();
  ASSERT_TRUE(until([&] { return next.sent == "ClientInit"; }));
  EXPECT_EQ(fake.accepted, 2);
  EXPECT_EQ(fake.connections.size(), 2u);
  open.give("ServerInitServerFinished");
  ASSERT_TRUE(until([&] { return open.over() && fake.connections.size() == 1; }));
  EXPECT_EQ(open.status, Status::kDone);
  next.give("ServerInitServerFinished");
  ASSERT_TRUE(until([&] { return next.over(); }));
  EXPECT_EQ(next.status, Status::kDone);
}

TEST_F(HandshakerServiceTest, UnprocessedCallIsRetried) {
  int refusals = 0;
  fake.on_call = [&](FakeService::Call& call) {
    if (refusals++ == 0) FakeService::reset(call, NGHTTP2_REFUSED_STREAM);
    return true;
  };
  fake.on_request = [&](FakeService::Call& call, const std::string&) { return call.id == 1; };
  Side client(*this, true);
  client.start();
  ASSERT_TRUE(until([&] { return client.sent == "ClientInit"; }));
  EXPECT_EQ(fake.calls, 2);
  EXPECT_EQ(fake.accepted, 1);
}

TEST_F(HandshakerServiceTest, UnprocessedCallIsRetriedOnce) {
  fake.on_call = [&](FakeService::Call& call) {
    FakeService::reset(call, NGHTTP2_REFUSED_STREAM);
    return true;
  };
  fake.on_request = [&](FakeService::Call&, const std::string&) { return true; };
  Side client(*this, true);
  client.start();
  ASSERT_TRUE(until([&] { return client.over(); }));
  EXPECT_THAT(client.handshake->error(), HasSubstr("reset the call: REFUSED_STREAM"));
  EXPECT_EQ(fake.calls, 2);
}

// ---- Costs

TEST_F(HandshakerServiceTest, IdleConnectionHoldsLittle) {
  handshakes(50);
  settle();
  EXPECT_EQ(fake.accepted, 1);
  EXPECT_EQ(service->open_calls(Role::kClient), 0u);
  const size_t chunks = loop->chunks_out();
  EXPECT_LE(chunks, 2u) << "the tables of both directions of HPACK, packed";
  handshakes(50);
  settle();
  EXPECT_EQ(loop->chunks_out(), chunks);
}

// Defect: calls beyond the last stream of a GOAWAY with an error were abandoned, though the service had not processed
// them.
TEST_F(HandshakerServiceTest, CallsUnprocessedByDrainingServiceAreRetried) {
  bool leaves = true;
  fake.on_request = [&](FakeService::Call& call, const std::string&) {
    if (!std::exchange(leaves, false)) return false;
    nghttp2_submit_goaway(call.connection.session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_INTERNAL_ERROR, nullptr, 0);
    return true;
  };
  handshakes(1);
  EXPECT_EQ(fake.accepted, 2);
}

}  // namespace
}  // namespace sluice
