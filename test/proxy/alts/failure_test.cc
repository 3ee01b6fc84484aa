// Errors of a HandshakerService, and the errors of the handshakes that wait for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <string>

#include "test/proxy/alts/sides.h"

namespace sluice {
namespace {

using test::FakeResponse;
using test::FakeResult;
using test::FakeService;
using test::Side;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Role = HandshakerCall::Role;
using Status = Handshake::Status;

class HandshakerFailureTest : public test::HandshakerFixture {
 protected:
  std::string name() const { return "the handshaker service " + fake.address.text() + ' '; }
  /// Returns the error of a client's handshake that has received nothing, or the server's flight.
  std::string error_of_client(bool with_flight = false) {
    Side client(*this, true);
    EXPECT_TRUE(until([&] {
      if (with_flight && client.sent == "ClientInit" && client.steps == 2) client.give("ServerInitServerFinished");
      return client.over();
    }));
    EXPECT_EQ(client.status, Status::kFailed);
    sent_ = client.sent;
    return client.handshake->error();
  }
  /// The same where the service calls `deed` for each call.
  std::string error_after(std::function<void(FakeService::Call&)> action) {
    fake.on_request = [action](FakeService::Call& call, const std::string&) {
      action(call);
      return true;
    };
    return error_of_client();
  }
  /// The service still works for the next handshake.
  void expect_it_works() {
    fake.on_request = nullptr;
    fake.on_call = nullptr;
    const int accepted = fake.accepted;
    handshakes(1);
    EXPECT_EQ(fake.accepted, accepted) << "the connection did no wrong";
  }

  std::string sent_;
};

// ---- The service is absent

TEST_F(HandshakerFailureTest, NoListener) {
  test::ClosedPort closed;
  const std::string address = "127.0.0.1:" + std::to_string(closed.port());
  HandshakerService nowhere(*loop, config::Address::parse(address).value());
  const uint64_t began = worker().now_ms();
  for (int i = 0; i < 3; ++i) {
    Side one(*this, true, &nowhere), other(*this, true, &nowhere);
    ASSERT_TRUE(until([&] { return one.over() && other.over(); }));
    EXPECT_EQ(one.handshake->error(), "the handshaker service " + address + " cannot be reached: Connection refused");
    EXPECT_EQ(other.handshake->error(), one.handshake->error());
  }
  EXPECT_GE(worker().now_ms() - began, 2 * HandshakerService::kReconnectMs);
  nowhere.close();
  EXPECT_TRUE(until([&] { return nowhere.idle(); }));
}

TEST_F(HandshakerFailureTest, NoDescriptors) {
  Side client(*this, true);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  worker().turn(0);
  worker().turn(0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(until([&] { return client.over(); }));
  EXPECT_EQ(client.handshake->error(), name() + "cannot be reached: Too many open files");
}

TEST_F(HandshakerFailureTest, ServiceAcceptsAndIsSilent) {
  fake.speaks_http = false;
  EXPECT_EQ(error_of_client(), name() + "did not respond in time");  // After kSettingsTimeoutMs.
}

TEST_F(HandshakerFailureTest, ServiceClosesAtOnce) {
  fake.speaks_http = false;
  Side client(*this, true);
  ASSERT_TRUE(until([&] {
    for (const auto& c : fake.connections) c->peer.close();
    return client.over();
  }));
  EXPECT_THAT(client.handshake->error(), StartsWith(name()));
}

TEST_F(HandshakerFailureTest, ServiceDoesNotSpeakHttp2) {
  fake.speaks_http = false;
  fake.greeting = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
  EXPECT_THAT(error_of_client(), StartsWith(name() + "violated HTTP/2: "));
}

TEST_F(HandshakerFailureTest, ServiceSendsGarbageLater) {
  fake.on_request = [](FakeService::Call& call, const std::string&) {
    call.connection.to_send += std::string("\x00\x00\x05\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff\xff", 14);  // HPACK?
    return true;
  };
  EXPECT_THAT(error_of_client(), StartsWith(name() + "violated HTTP/2"));
}

// ---- The service refuses

TEST_F(HandshakerFailureTest, HandshakeStatus) {
  EXPECT_EQ(error_after([](FakeService::Call& call) {
              FakeService::send_response(call, FakeResponse{.out_frames = "alert", .status = {{16, "who are you?"}}});
              FakeService::end(call, "16", "who are you?");
            }),
            "the handshaker service refused: UNAUTHENTICATED: who are you? (handshaker service: " +
                fake.address.text() + ")");
  EXPECT_EQ(sent_, "alert");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, CallStatus) {
  EXPECT_EQ(error_after([](FakeService::Call& call) { FakeService::end(call, "14", "no%20more%0A\x80\x81"); }),
            name() + "ended the call: UNAVAILABLE: no more???");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, TrailersOnly) {
  fake.on_call = [](FakeService::Call& call) {
    FakeService::head_only(call, {{":status", "200"},
                                  {"content-type", "application/grpc"},
                                  {"grpc-status", "12"},
                                  {"grpc-message", "unknown service"}});
    return true;
  };
  fake.on_request = [](FakeService::Call&, const std::string&) { return true; };
  EXPECT_EQ(error_of_client(), name() + "ended the call: UNIMPLEMENTED: unknown service");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, HttpStatus) {
  EXPECT_EQ(error_after([](FakeService::Call& call) {
              FakeService::head_only(call, {{":status", "503"}, {"content-type", "text/plain"}});
            }),
            name() + "responded with HTTP status 503");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, WrongContentType) {
  EXPECT_EQ(error_after([](FakeService::Call& call) {
              FakeService::head_only(call, {{":status", "200"}, {"content-type", "text/html"}});
            }),
            name() + "does not speak gRPC: it responded with the content type \"text/html\"");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, TooManyHeaders) {
  EXPECT_EQ(error_after([](FakeService::Call& call) {
              FakeService::head_only(call, {{":status", "200"},
                                            {"content-type", "application/grpc"},
                                            {"grpc-message", std::string(10'000, 'a')},
                                            {"x", std::string(10'000, 'b')}});
            }),
            name() + "sent more than 16384 bytes of headers");
  expect_it_works();
}

// ---- The service violates the protocol

TEST_F(HandshakerFailureTest, WrongResult) {
  EXPECT_THAT(error_after([](FakeService::Call& call) {
                FakeService::send_response(call, FakeResponse{.bytes_consumed = 100});
              }),
              HasSubstr("consumed 100 bytes of 0 (handshaker service: " + fake.address.text()));
  expect_it_works();
}

TEST_F(HandshakerFailureTest, InvalidMessage) {
  EXPECT_THAT(
      error_after([](FakeService::Call& call) { FakeService::respond(call, FakeService::framed("\xff\xff\xff")); }),
      HasSubstr("malformed HandshakerResp"));
  expect_it_works();
}

TEST_F(HandshakerFailureTest, CompressedMessage) {
  EXPECT_EQ(error_after([](FakeService::Call& call) { FakeService::respond(call, std::string("\1\0\0\0\1x", 6)); }),
            name() + "sent a compressed or malformed gRPC message");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, MessageTooLong) {
  EXPECT_EQ(error_after([](FakeService::Call& call) { FakeService::respond(call, std::string("\0\0\2\0\1", 5)); }),
            name() + "sent a message of 131073 bytes, more than 131072");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, UnexpectedResponse) {
  Side client(*this, true);
  fake.on_request = [](FakeService::Call& call, const std::string&) {
    const std::string response = FakeService::framed(FakeResponse{.out_frames = "x"}.bytes());
    FakeService::respond(call, response + response);
    return true;
  };
  ASSERT_TRUE(until([&] { return client.over(); }));
  EXPECT_EQ(client.sent, "x");  // The first response was valid.
  EXPECT_EQ(client.handshake->error(), name() + "sent a response without a request");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, EarlyEnd) {
  EXPECT_EQ(error_after([](FakeService::Call& call) { FakeService::end(call); }),
            name() + "ended the call before the handshake was done");
  EXPECT_EQ(error_after([](FakeService::Call& call) {
              FakeService::respond(call, std::string("\0\0\0\0\2x", 6));
              FakeService::end(call);
            }),
            name() + "ended the call within a message");
  expect_it_works();
}

TEST_F(HandshakerFailureTest, EndBetweenTwoSteps) {
  Side client(*this, true);
  FakeService::Call* call = nullptr;
  fake.on_request = [&](FakeService::Call& c, const std::string&) {
    call = &c;
    return false;
  };
  ASSERT_TRUE(until([&] { return client.sent == "ClientInit"; }));
  FakeService::end(*call, "4", "too slow");
  ASSERT_TRUE(until([&] { return client.over(); }));
  EXPECT_EQ(client.handshake->error(), name() + "ended the call: DEADLINE_EXCEEDED: too slow");
}

TEST_F(HandshakerFailureTest, Reset) {
  EXPECT_EQ(error_after([](FakeService::Call& call) { FakeService::reset(call, NGHTTP2_INTERNAL_ERROR); }),
            name() + "reset the call: INTERNAL_ERROR");
  expect_it_works();
}

// ---- The service dies

TEST_F(HandshakerFailureTest, ServiceDiesDuringHandshake) {
  fake.on_request = [&](FakeService::Call& call, const std::string& request) {
    if (call.requests == 1) return false;
    static_cast<void>(request);
    call.connection.peer.reset();
    return true;
  };
  EXPECT_THAT(error_of_client(/*with_flight=*/true), StartsWith(name()));
  fake.on_request = nullptr;
  handshakes(1);
  EXPECT_EQ(fake.accepted, 2);
}

TEST_F(HandshakerFailureTest, GoawayWithError) {
  fake.on_request = [](FakeService::Call& call, const std::string&) {
    const std::string why = "too_many_pings";
    nghttp2_submit_goaway(call.connection.session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_ENHANCE_YOUR_CALM,
                          reinterpret_cast<const uint8_t*>(why.data()), why.size());
    return true;
  };
  Side one(*this, true), other(*this, true);
  ASSERT_TRUE(until([&] { return one.over() && other.over(); }));
  for (const Side* side : {&one, &other}) {
    EXPECT_EQ(side->handshake->error(), name() + "ended the connection: ENHANCE_YOUR_CALM: too_many_pings");
  }
  fake.on_request = nullptr;
  handshakes(1);
}

// ---- The service does not respond

TEST_F(HandshakerFailureTest, AbandonedCallIsCanceled) {
  fake.on_request = [](FakeService::Call&, const std::string&) { return true; };
  auto client = std::make_unique<Side>(*this, true);
  ASSERT_TRUE(until([&] { return fake.calls == 1 && fake.open_calls() == 1; }));
  client.reset();
  EXPECT_EQ(service->open_calls(Role::kClient), 0u);
  ASSERT_TRUE(until([&] { return fake.open_calls() == 0; }));
  EXPECT_EQ(fake.resets, 1);
  expect_it_works();
}

}  // namespace
}  // namespace sluice
