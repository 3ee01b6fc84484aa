#include "alts_like/handshaker_negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "alts_like/handshaker_text.h"
#include "test/alts_like/handshaker_fake.h"
#include "test/support/buffers.h"

namespace sluice {
namespace {

using test::buffer_of;
using test::FakeDialect;
using test::FakeHandshake;
using test::FakeResponse;
using test::FakeResult;
using test::text_of;
using test::WireMessage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Status = AltsNegotiation::Status;

AltsOptions options(bool is_client) {
  AltsOptions made;
  made.is_client = is_client;
  return made;
}

class HandshakerNegotiationTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(pool.leaked(), 0u); }
  void receive(AltsNegotiation& negotiation, std::string_view bytes) {
    negotiation.receive(pool, buffer_of(pool, bytes));
  }

  ChunkPool pool{{.budget_bytes = size_t{16} << 20}};
  ChunkPool::Use use{&pool};
};

/// One side with its service.
struct Side {
  Side(bool is_client, FakeDialect dialect, bool consumes_parts)
      : negotiation(options(is_client)), service(dialect, consumes_parts) {}
  /// Lets the service work as long as there are requests. Returns the bytes for the peer.
  std::string advance() {
    std::string frames;
    while (const std::optional<std::string> request = negotiation.request()) {
      EXPECT_TRUE(negotiation.waiting());
      EXPECT_EQ(negotiation.request(), std::nullopt);
      negotiation.digest(service.respond(*request).bytes(), frames);
    }
    return frames;
  }
  AltsNegotiation negotiation;
  FakeHandshake service;
};

// ---- Both roles, cut anywhere

class HandshakerDialectTest : public HandshakerNegotiationTest,
                              public ::testing::WithParamInterface<std::tuple<FakeDialect, bool>> {};
INSTANTIATE_TEST_SUITE_P(Dialects, HandshakerDialectTest,
                         ::testing::Combine(::testing::Values(FakeDialect::kGo, FakeDialect::kCore), ::testing::Bool()),
                         [](const auto& p) {
                           return std::string(std::get<0>(p.param) == FakeDialect::kGo ? "Go" : "Core") +
                                  (std::get<1>(p.param) ? "ConsumingParts" : "ConsumingWholes");
                         });

TEST_P(HandshakerDialectTest, BothSidesCompleteWithAnyCuts) {
  const auto [dialect, parts] = GetParam();
  for (size_t piece = 1; piece <= 40; ++piece) {
    SCOPED_TRACE(piece);
    Side client(true, dialect, parts), server(false, dialect, parts);
    std::string to_server = client.advance(), to_client;
    for (int turn = 0; turn < 200 && (!to_server.empty() || !to_client.empty()); ++turn) {
      const std::string a = to_server.substr(0, piece), b = to_client.substr(0, piece);
      to_server.erase(0, a.size());
      to_client.erase(0, b.size());
      receive(server.negotiation, a);
      to_client += server.advance();
      receive(client.negotiation, b);
      to_server += client.advance();
      if (client.negotiation.status() == Status::kDone && !b.empty()) to_server += "first records";
    }
    ASSERT_EQ(client.negotiation.status(), Status::kDone) << client.negotiation.error();
    ASSERT_EQ(server.negotiation.status(), Status::kDone) << server.negotiation.error();
    const AltsResult at_client = client.negotiation.take_result(), at_server = server.negotiation.take_result();
    EXPECT_EQ(at_client.key_data, at_server.key_data);
    EXPECT_EQ(at_client.key_data.size(), 44u);
    EXPECT_EQ(at_client.peer_identity, dialect == FakeDialect::kGo ? "server@bar.com" : "peer_identity");
    EXPECT_EQ(at_server.peer_identity, dialect == FakeDialect::kGo ? "client@baz.com" : "peer_identity");
    EXPECT_EQ(at_server.local_identity, dialect == FakeDialect::kGo ? "" : "local_identity");
    EXPECT_EQ(at_server.application_protocol, "grpc");
    EXPECT_EQ(at_server.record_protocol, AltsProtocol::kAes128GcmRekey);
    EXPECT_EQ(at_client.max_frame_bytes, 16384u);
    EXPECT_TRUE(at_client.leftover.empty());
    // The bytes after the end of the handshake; more have not been received.
    EXPECT_TRUE(std::string_view("first records").starts_with(text_of(at_server.leftover)));
  }
}

TEST_P(HandshakerDialectTest, BytesAfterTheHandshakeAreLeftOver) {
  const auto [dialect, parts] = GetParam();
  Side server(false, dialect, parts);
  receive(server.negotiation, "ClientInit");
  server.advance();
  receive(server.negotiation, "ClientFin");
  EXPECT_EQ(server.advance(), "");
  receive(server.negotiation, "ishedfirst");
  const std::optional<std::string> request = server.negotiation.request();
  ASSERT_TRUE(request);
  receive(server.negotiation, " and second");  // While the service works.
  EXPECT_EQ(server.negotiation.request(), std::nullopt);
  std::string frames;
  ASSERT_EQ(server.negotiation.digest(server.service.respond(*request).bytes(), frames), Status::kDone);
  EXPECT_EQ(text_of(server.negotiation.take_result().leftover), "first and second");
}

TEST_F(HandshakerNegotiationTest, UnconsumedBytesAreSentAgainWithMore) {
  AltsNegotiation server(options(false));
  std::string frames;
  receive(server, "abc");
  WireMessage request = WireMessage::of(server.request().value());
  EXPECT_EQ(request.message(2).text(3), "abc");
  EXPECT_EQ(server.digest(FakeResponse{.bytes_consumed = 1}.bytes(), frames), Status::kInProgress);
  EXPECT_EQ(server.request(), std::nullopt);  // Nothing new.
  receive(server, "de");
  request = WireMessage::of(server.request().value());
  EXPECT_EQ(request.message(3).text(1), "bcde");
  receive(server, "f");
  EXPECT_EQ(server.digest(FakeResponse{.bytes_consumed = 4}.bytes(), frames), Status::kInProgress);
  request = WireMessage::of(server.request().value());
  EXPECT_EQ(request.message(3).text(1), "f");
}

// ---- Requests

TEST_F(HandshakerNegotiationTest, ClientStart) {
  AltsOptions wanted = options(true);
  wanted.application_protocols = {"grpc", "other"};
  wanted.record_protocols = {AltsProtocol::kAes128GcmRekey, AltsProtocol::kAes128Gcm};
  wanted.target_service_accounts = {"a@example.com", "b@example.com"};
  wanted.target_name = "service.example.com";
  wanted.local = {"192.0.2.1", 4000};
  wanted.remote = {"2001:db8::1", 443};
  wanted.max_frame_bytes = 65536;
  AltsNegotiation client(wanted);
  const WireMessage start = WireMessage::of(client.request().value()).message(1);
  const auto texts = [&](uint32_t field) {
    std::vector<std::string> found;
    for (auto [at, end] = start.bytes.equal_range(field); at != end; ++at) found.push_back(at->second);
    return found;
  };
  EXPECT_EQ(start.number(1), 2u);
  EXPECT_THAT(texts(2), ElementsAre("grpc", "other"));
  EXPECT_THAT(texts(3), ElementsAre("ALTSRP_GCM_AES128_REKEY", "ALTSRP_GCM_AES128"));
  EXPECT_THAT(texts(4), ElementsAre(test::bytes_field(1, "a@example.com"), test::bytes_field(1, "b@example.com")));
  EXPECT_EQ(start.message(6).text(1), "192.0.2.1");
  EXPECT_EQ(start.message(6).number(2), 4000u);
  EXPECT_EQ(start.message(6).number(3), 1u);
  EXPECT_EQ(start.message(7).text(1), "2001:db8::1");
  EXPECT_EQ(start.message(7).number(2), 443u);
  EXPECT_EQ(start.text(8), "service.example.com");
  for (const uint32_t version : {1u, 2u}) {
    EXPECT_EQ(start.message(9).message(version).number(1), 2u);
    EXPECT_EQ(start.message(9).message(version).number(2), 1u);
  }
  EXPECT_EQ(start.number(10), 65536u);
  EXPECT_FALSE(start.has(5));
  EXPECT_FALSE(start.has(11));
  EXPECT_FALSE(start.has(12));
}

TEST_F(HandshakerNegotiationTest, ServerStart) {
  AltsOptions wanted = options(false);
  wanted.local = {"192.0.2.1", 443};
  wanted.max_frame_bytes = 1;  // Clamped to its bounds.
  AltsNegotiation server(wanted);
  EXPECT_EQ(server.request(), std::nullopt);  // The client begins.
  receive(server, "hello");
  const WireMessage start = WireMessage::of(server.request().value()).message(2);
  EXPECT_EQ(start.text(1), "grpc");
  const WireMessage parameters = start.message(2);  // One entry of the map.
  EXPECT_EQ(parameters.number(1), 2u);
  EXPECT_EQ(parameters.message(2).text(1), "ALTSRP_GCM_AES128_REKEY");
  EXPECT_EQ(start.text(3), "hello");
  EXPECT_EQ(start.message(4).number(2), 443u);
  EXPECT_FALSE(start.has(5));
  EXPECT_EQ(start.message(6).message(1).number(1), 2u);
  EXPECT_EQ(start.number(7), 16384u);
}

// ---- Responses

/// A client's result from one response, or the error.
struct Ending {
  Status status;
  std::string error, frames;
  AltsResult result;
};
Ending end_with(const AltsOptions& wanted, const FakeResponse& response) {
  AltsNegotiation client(wanted);
  SLUICE_CHECK(client.request());
  Ending ending;
  ending.status = client.digest(response.bytes(), ending.frames);
  ending.error = client.error();
  if (ending.status == Status::kDone) ending.result = client.take_result();
  return ending;
}
std::string error_of(const std::function<void(FakeResult&)>& change, AltsOptions wanted = options(true)) {
  FakeResponse response{.result = FakeResult()};
  change(*response.result);
  const Ending ending = end_with(wanted, response);
  EXPECT_EQ(ending.status == Status::kFailed, !ending.error.empty());
  return ending.error;
}

TEST_F(HandshakerNegotiationTest, ResultsAreChecked) {
  EXPECT_EQ(error_of([](FakeResult&) {}), "");
  EXPECT_THAT(error_of([](FakeResult& r) { r.application_protocol = ""; }), HasSubstr("application protocol \"\""));
  EXPECT_THAT(error_of([](FakeResult& r) { r.application_protocol = "h2"; }), HasSubstr("\"h2\", which was not"));
  EXPECT_THAT(error_of([](FakeResult& r) { r.record_protocol = ""; }), HasSubstr("record protocol \"\""));
  EXPECT_THAT(error_of([](FakeResult& r) { r.record_protocol = "ALTSRP_GCM_AES128"; }), HasSubstr("was not offered"));
  EXPECT_THAT(error_of([](FakeResult& r) { r.key_data.resize(43); }), HasSubstr("43 bytes of keys"));
  EXPECT_EQ(error_of([](FakeResult& r) { r.key_data.resize(44); }), "");
  EXPECT_THAT(error_of([](FakeResult& r) { r.peer_account = ""; }), HasSubstr("did not identify the peer"));
  EXPECT_THAT(error_of([](FakeResult& r) { r.peer_account = "a\nb"; }), HasSubstr("malformed name: \"a?b\""));
  EXPECT_THAT(error_of([](FakeResult& r) { r.peer_account.assign(1025, 'a'); }), HasSubstr("malformed name"));
  EXPECT_THAT(error_of([](FakeResult& r) { r.local_account = "\x7f"; }), HasSubstr("malformed name"));
  EXPECT_EQ(error_of([](FakeResult& r) { r.local_account = ""; }), "");
  EXPECT_THAT(error_of([](FakeResult& r) { r.with_versions = false; }), HasSubstr("RPC versions"));
}

TEST_F(HandshakerNegotiationTest, VersionsMustOverlap) {
  const auto with = [](uint32_t max_major, uint32_t max_minor, uint32_t min_major, uint32_t min_minor) {
    return error_of([=](FakeResult& r) {
      std::tie(r.max_major, r.max_minor, r.min_major, r.min_minor) =
          std::tuple(max_major, max_minor, min_major, min_minor);
    });
  };
  EXPECT_EQ(with(2, 1, 2, 1), "");
  EXPECT_EQ(with(3, 0, 1, 5), "");
  EXPECT_EQ(with(2, 9, 2, 0), "");
  EXPECT_THAT(with(2, 0, 1, 0), HasSubstr("versions"));
  EXPECT_THAT(with(3, 0, 2, 2), HasSubstr("versions"));
  EXPECT_THAT(with(0, 0, 0, 0), HasSubstr("versions"));
}

TEST_F(HandshakerNegotiationTest, UnwantedPeerIsRefusedHereToo) {
  AltsOptions wanted = options(true);
  wanted.target_service_accounts = {"a@example.com", "peer@example.com"};
  EXPECT_EQ(error_of([](FakeResult&) {}, wanted), "");
  EXPECT_THAT(error_of([](FakeResult& r) { r.peer_account = "b@example.com"; }, wanted),
              HasSubstr("the peer is \"b@example.com\", none of target_identities"));
  EXPECT_THAT(error_of([](FakeResult& r) { r.peer_hostname = "a@example.com"; }, wanted),
              HasSubstr("none of target_identities"));
}

TEST_F(HandshakerNegotiationTest, PeerMayBeAHost) {
  FakeResponse response{.result = FakeResult()};
  response.result->peer_hostname = "host.example.com";
  EXPECT_EQ(end_with(options(true), response).result.peer_identity, "host.example.com");
}

TEST_F(HandshakerNegotiationTest, ProtocolWithShorterKeys) {
  AltsOptions wanted = options(true);
  wanted.record_protocols = {AltsProtocol::kAes128GcmRekey, AltsProtocol::kAes128Gcm};
  FakeResponse response{.result = FakeResult()};
  response.result->record_protocol = "ALTSRP_GCM_AES128";
  response.result->key_data.resize(16);
  const Ending ending = end_with(wanted, response);
  EXPECT_EQ(ending.result.record_protocol, AltsProtocol::kAes128Gcm);
  EXPECT_EQ(ending.result.key_data.size(), 16u);
  response.result->key_data.resize(15);
  EXPECT_THAT(end_with(wanted, response).error, HasSubstr("15 bytes of keys"));
}

TEST_F(HandshakerNegotiationTest, FrameSizeIsTheSmallerOneWithinBounds) {
  const auto agreed = [](size_t ours, uint32_t theirs) {
    AltsOptions wanted = options(true);
    wanted.max_frame_bytes = ours;
    FakeResponse response{.result = FakeResult()};
    response.result->max_frame_bytes = theirs;
    return end_with(wanted, response).result.max_frame_bytes;
  };
  EXPECT_EQ(agreed(1 << 20, 0), 16384u);
  EXPECT_EQ(agreed(1 << 20, 1), 16384u);
  EXPECT_EQ(agreed(1 << 20, 65536), 65536u);
  EXPECT_EQ(agreed(32768, 65536), 32768u);
  EXPECT_EQ(agreed(SIZE_MAX, UINT32_MAX), size_t{1} << 20);
}

TEST_F(HandshakerNegotiationTest, FramesAreSentEvenWhenTheServiceRefuses) {
  FakeResponse response{.out_frames = "sorry", .status = {{7, "no\nsuch peer"}}};
  const Ending ending = end_with(options(true), response);
  EXPECT_EQ(ending.status, Status::kFailed);
  EXPECT_EQ(ending.frames, "sorry");
  EXPECT_EQ(ending.error, "the handshaker service refused: PERMISSION_DENIED: no?such peer");
  response.status = {{4242, std::string(10'000, 'x')}};
  EXPECT_THAT(end_with(options(true), response).error, HasSubstr("refused: 4242: xxx"));
  EXPECT_LT(end_with(options(true), response).error.size(), 400u);
}

TEST_F(HandshakerNegotiationTest, MissingStatusIsNoFailure) {
  EXPECT_EQ(end_with(options(true), FakeResponse{.result = FakeResult(), .status = std::nullopt}).status,
            Status::kDone);
}

TEST_F(HandshakerNegotiationTest, FalseResultsAreDetected) {
  std::string frames;
  {
    AltsNegotiation client(options(true));
    EXPECT_EQ(client.digest(FakeResponse().bytes(), frames), Status::kFailed);
    EXPECT_THAT(client.error(), HasSubstr("without a request"));
  }
  {
    AltsNegotiation client(options(true));
    SLUICE_CHECK(client.request());
    EXPECT_EQ(client.digest("\xff\xff", frames), Status::kFailed);
    EXPECT_THAT(client.error(), HasSubstr("malformed HandshakerResp"));
    EXPECT_EQ(client.request(), std::nullopt);
  }
  EXPECT_THAT(end_with(options(true), FakeResponse{.bytes_consumed = 1}).error, HasSubstr("consumed 1 bytes of 0"));
  {
    AltsNegotiation server(options(false));
    receive(server, "hello");
    SLUICE_CHECK(server.request());
    receive(server, "more that was not offered");
    EXPECT_EQ(server.digest(FakeResponse{.bytes_consumed = 6, .result = FakeResult()}.bytes(), frames),
              Status::kFailed);
    EXPECT_THAT(server.error(), HasSubstr("consumed 6 bytes of 5"));
  }
  EXPECT_THAT(end_with(options(true), FakeResponse{.out_frames = std::string(300'000, 'x')}).error,
              HasSubstr("more than 262144 bytes for the peer"));
}

// ---- Bounds

TEST_F(HandshakerNegotiationTest, PeerMustWaitForTheService) {
  AltsNegotiation server(options(false));
  const std::string piece(65536, 'x');
  for (size_t i = 0; i < AltsNegotiation::kMaxPendingBytes / piece.size(); ++i) receive(server, piece);
  EXPECT_EQ(server.status(), Status::kInProgress);
  EXPECT_EQ(WireMessage::of(server.request().value()).message(2).text(3).size(), AltsNegotiation::kMaxInBytes);
  receive(server, "x");
  EXPECT_EQ(server.status(), Status::kFailed);
  EXPECT_THAT(server.error(), HasSubstr("more than 524288 bytes before the handshake was done"));
}

TEST_F(HandshakerNegotiationTest, ServiceThatConsumesNothingFails) {
  AltsNegotiation server(options(false));
  receive(server, std::string(65536, 'x'));
  receive(server, "y");
  SLUICE_CHECK(server.request());
  std::string frames;
  EXPECT_EQ(server.digest(FakeResponse().bytes(), frames), Status::kFailed);
  EXPECT_THAT(server.error(), HasSubstr("consumed none of 65536 bytes"));
}

TEST_F(HandshakerNegotiationTest, EndlessSlowHandshakeEnds) {
  AltsNegotiation server(options(false));
  std::string frames;
  uint32_t requests = 0;
  for (; server.status() == Status::kInProgress && requests < 1000; ++requests) {
    receive(server, "x");
    if (server.request()) server.digest(FakeResponse{.bytes_consumed = 1}.bytes(), frames);
  }
  EXPECT_EQ(requests, AltsNegotiation::kMaxRequests + 1);
  EXPECT_THAT(server.error(), HasSubstr("more than 256 pieces"));
}

TEST_F(HandshakerNegotiationTest, TotalOfOutFramesIsBounded) {
  AltsNegotiation server(options(false));
  std::string frames;
  int responses = 0;
  for (; server.status() == Status::kInProgress && responses < 1000; ++responses) {
    receive(server, "x");
    SLUICE_CHECK(server.request());
    server.digest(FakeResponse{.out_frames = std::string(65536, 'x'), .bytes_consumed = 1}.bytes(), frames);
  }
  EXPECT_EQ(responses, 5);
  EXPECT_EQ(frames.size(), AltsNegotiation::kMaxOutBytes);
}

TEST(HandshakerTextTest, CodesHaveNames) {
  EXPECT_EQ(grpc_code_name(0), "OK");
  EXPECT_EQ(grpc_code_name(14), "UNAVAILABLE");
  EXPECT_EQ(grpc_code_name(16), "UNAUTHENTICATED");
  EXPECT_EQ(grpc_code_name(17), "17");
}

}  // namespace
}  // namespace sluice
