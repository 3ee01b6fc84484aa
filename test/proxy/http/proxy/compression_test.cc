// Compressed responses, between any two versions of HTTP.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "proxy/http/proxy/exchange.h"
#include "test/proxy/compression/decoders.h"
#include "test/proxy/http/proxy/session_rig.h"

namespace sluice {
namespace {

using test::decode;
using test::Decoded;
using test::FieldList;
using test::HttpOrigin;
using test::HttpPeer;
using test::PeerStream;

std::string lines(size_t bytes) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < bytes) text += "line " + std::to_string(random() % 1000) + " of a text\n";
  text.resize(bytes);
  return text;
}

class HttpCompression : public test::HttpRigTest {
 protected:
  HttpCompression() : origin(rig.add_origin()) { rig.config().compression.emplace(); }

  PeerStream& send_request(HttpPeer& client, std::string_view accepted = "gzip", std::string_view method = "GET") {
    return client.send_request(method, "/", {{"accept-encoding", accepted}});
  }
  PeerStream& next_request() { return rig.request_at(origin, requests_++); }
  uint64_t compressed(ContentCoding coding) { return rig.http().compressed[static_cast<size_t>(coding)].value(); }
  void expect_decoded(const PeerStream& stream, ContentCoding coding, std::string_view text) {
    rig.wait_over(stream);
    EXPECT_FALSE(stream.reset);
    EXPECT_EQ(stream.field("content-encoding"), content_coding_name(coding));
    const Decoded decoded = decode(coding, stream.body);
    EXPECT_TRUE(decoded.ended);
    EXPECT_TRUE(decoded.text == text) << decoded.text.size() << " of " << text.size();
  }
  void expect_plain(const PeerStream& stream, std::string_view text) {
    rig.expect_response(stream, 200, text);
    EXPECT_EQ(stream.field("content-encoding"), "");
  }

  HttpOrigin& origin;

 private:
  size_t requests_ = 0;
};

TEST_P(HttpCompression, EachCoding) {
  rig.start();
  HttpPeer& client = rig.connect();
  const std::string text = lines(100'000);
  for (const ContentCoding coding : {ContentCoding::kGzip, ContentCoding::kBrotli, ContentCoding::kZstd}) {
    PeerStream& stream = send_request(client, content_coding_name(coding));
    PeerStream& got = next_request();
    EXPECT_EQ(got.field("accept-encoding"), content_coding_name(coding));
    const std::string length = std::to_string(text.size());
    got.respond(200, {{"content-type", "text/plain"}, {"content-length", length}, {"etag", "\"a\""}}, false);
    got.send(text, true);
    expect_decoded(stream, coding, text);
    EXPECT_LT(stream.body.size(), text.size() / 2);
    EXPECT_EQ(stream.field("content-length"), "");
    EXPECT_EQ(stream.field("vary"), "accept-encoding");
    EXPECT_EQ(stream.field("etag"), "W/\"a\"");
    EXPECT_EQ(compressed(coding), 1u);
  }
  rig.expect_ended(HttpEnd::kOk, 3);
  EXPECT_EQ(rig.http().compression_in_bytes.value(), 3 * text.size());
  EXPECT_EQ(rig.http().compression_out_bytes.value(), rig.http().response_bytes.value());
  EXPECT_LT(rig.http().response_bytes.value(), 3 * text.size() / 2);
}

TEST_P(HttpCompression, UncompressedResponses) {
  config::HttpRoute& off = rig.config().routes.emplace_back();
  off.match.emplace().path.emplace().prefix = "/off";
  off.forward = "origin";
  off.compression = false;
  rig.config().routes.emplace_back().forward = std::exchange(rig.config().forward, "");
  rig.start();
  HttpPeer& client = rig.connect();
  const std::string text = lines(5000);
  const auto expect_as_it_is = [&](std::string_view path, FieldList request_fields, FieldList response_fields,
                                   bool varies) {
    PeerStream& stream = client.send_request("POST", path, request_fields);  // Like all calls of gRPC.
    PeerStream& got = next_request();
    got.respond(200, response_fields, false);
    got.send(text, true);
    rig.expect_response(stream, 200, text);
    EXPECT_EQ(stream.field("vary"), varies ? "accept-encoding" : "");
  };
  constexpr std::pair<std::string_view, std::string_view> kGzip = {"accept-encoding", "gzip"},
                                                          kText = {"content-type", "text/plain"};
  expect_as_it_is("/", {}, {kText}, true);
  expect_as_it_is("/", {{"accept-encoding", "gzip;q=0"}}, {kText}, true);
  expect_as_it_is("/", {kGzip}, {{"content-type", "image/png"}}, false);
  expect_as_it_is("/", {kGzip}, {kText, {"cache-control", "no-transform"}}, false);
  expect_as_it_is("/off", {kGzip}, {kText}, false);
  expect_as_it_is("/", {kGzip, {"content-type", "application/grpc"}}, {kText}, false);
  PeerStream& encoded = send_request(client);
  PeerStream& got = next_request();
  got.respond(200, {kText, {"content-encoding", "br"}}, false);
  got.send(text, true);
  rig.expect_response(encoded, 200, text);
  EXPECT_EQ(encoded.field("content-encoding"), "br");
  EXPECT_EQ(compressed(ContentCoding::kGzip), 0u);
}

// Its fields are those of the uncompressed body: there is none to compress.
TEST_P(HttpCompression, HeadAndResponsesWithoutBodies) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& head = send_request(client, "gzip", "HEAD");
  next_request().respond(200, {{"content-type", "text/plain"}, {"content-length", "5000"}}, true);
  rig.expect_response(head, 200, "");
  EXPECT_EQ(head.field("content-length"), "5000");
  EXPECT_EQ(head.field("content-encoding"), "");
  EXPECT_EQ(head.field("vary"), "accept-encoding");
  for (const uint16_t status : {uint16_t{204}, uint16_t{304}}) {
    PeerStream& stream = send_request(client);
    next_request().respond(status, {{"content-type", "text/plain"}, {"etag", "\"a\""}}, true);
    rig.expect_response(stream, status, "");
    EXPECT_EQ(stream.field("content-encoding"), "");
    EXPECT_EQ(stream.field("etag"), "\"a\"");
  }
}

// The route's own request changes stay between the proxy and the upstream.
TEST_P(HttpCompression, UpstreamNeedNotSupportIt) {
  rig.config().request_headers = {{.name = config::FieldName::parse("accept-encoding").value(), .remove = true}};
  rig.start();
  PeerStream& stream = send_request(rig.connect());
  PeerStream& got = next_request();
  EXPECT_EQ(got.field("accept-encoding"), "");
  const std::string text = lines(2000);
  got.respond(200, {{"content-type", "text/html"}}, false);
  got.send(text, true);
  expect_decoded(stream, ContentCoding::kGzip, text);
}

// Each event arrives as soon as the upstream is silent.
TEST_P(HttpCompression, EventsAreNotDelayed) {
  rig.start();
  for (const ContentCoding coding : {ContentCoding::kGzip, ContentCoding::kBrotli, ContentCoding::kZstd}) {
    PeerStream& stream = send_request(rig.connect(), content_coding_name(coding));
    PeerStream& got = next_request();
    got.respond(200, {{"content-type", "text/event-stream"}}, false);
    std::string text;
    for (int i = 0; i < 5; ++i) {
      const std::string event = "data: " + std::to_string(i) + "\n\n";
      text += event;
      got.send(event);
      EXPECT_TRUE(rig.until([&] { return decode(coding, stream.body).text == text; }));
    }
    got.send("", true);
    expect_decoded(stream, coding, text);
  }
}

TEST_P(HttpCompression, TrailersFollowTheBody) {
  rig.start();
  PeerStream& stream = send_request(rig.connect(), "br");
  PeerStream& got = next_request();
  const std::string text = lines(30'000);
  got.respond(200, {{"content-type", "text/plain"}}, false);
  got.send(text);
  got.send_trailers({{"x-sum", "1"}});
  expect_decoded(stream, ContentCoding::kBrotli, text);
  EXPECT_EQ(stream.trailers.value("x-sum"), "1");
}

TEST_P(HttpCompression, EmptyBody) {
  rig.start();
  PeerStream& stream = send_request(rig.connect());
  PeerStream& got = next_request();
  got.respond(200, {{"content-type", "text/plain"}}, false);
  got.send("", true);
  expect_decoded(stream, ContentCoding::kGzip, "");
}

// No more at once than are allowed; further responses pass uncompressed, and are counted.
TEST_P(HttpCompression, SimultaneousCompressionsAreBounded) {
  rig.config().compression->max_streams = 1;
  rig.start();
  const std::string text = lines(3000);
  PeerStream& first = send_request(rig.connect());
  PeerStream& first_got = next_request();
  first_got.respond(200, {{"content-type", "text/plain"}}, false);
  rig.until([&] { return first.has_head; });
  PeerStream& second = send_request(rig.connect());
  PeerStream& second_got = next_request();
  second_got.respond(200, {{"content-type", "text/plain"}}, false);
  second_got.send(text, true);
  expect_plain(second, text);
  EXPECT_EQ(second.field("vary"), "accept-encoding");
  EXPECT_EQ(rig.http().compression_refused.value(), 1u);
  first_got.send(text, true);
  expect_decoded(first, ContentCoding::kGzip, text);
  PeerStream& third = send_request(rig.connect());
  PeerStream& third_got = next_request();
  third_got.respond(200, {{"content-type", "text/plain"}}, false);
  third_got.send(text, true);
  expect_decoded(third, ContentCoding::kGzip, text);
}

// A client that takes nothing stops the upstream, and what waits is bounded.
TEST_P(HttpCompression, BackPressure) {
  rig.config().buffer_high = config::Size{64 * 1024};
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = send_request(client, "zstd");
  PeerStream& got = next_request();
  got.respond(200, {{"content-type", "text/plain"}}, false);
  rig.until([&] { return stream.has_head; });
  client.reads = false;
  std::mt19937 random(5);
  std::string noise(24'000'000, '\0');  // As large when it is compressed, and more than sockets hold.
  for (char& c : noise) c = static_cast<char>(random());
  got.send(noise);
  rig.settle(400);
  EXPECT_LT(rig.http().compression_in_bytes.value(), noise.size() / 2);
  // buffer_high, what the kernel had received when reading stopped (the large ring), and the chunk being filled.
  EXPECT_TRUE(rig.holds_at_most((64 << 10) + (1 << 20) + (64 << 10))) << rig.loop()->pool().out_bytes();
  client.reads = true;
  got.send("", true);
  expect_decoded(stream, ContentCoding::kZstd, noise);
}

// A response that has begun must not look complete.
TEST_P(HttpCompression, UpstreamBreaksOff) {
  rig.start();
  PeerStream& stream = send_request(rig.connect());
  PeerStream& got = next_request();
  got.respond(200, {{"content-type", "text/plain"}}, false);
  got.send(lines(200'000));
  rig.until([&] { return stream.has_head; });
  got.cancel(ResetReason::kInternal);
  rig.wait_over(stream);
  EXPECT_TRUE(stream.reset);
  rig.expect_ended(HttpEnd::kUpstreamReset);
}

TEST_P(HttpCompression, ClientLeaves) {
  rig.start();
  HttpPeer& client = rig.connect();
  PeerStream& stream = send_request(client);
  PeerStream& got = next_request();
  got.respond(200, {{"content-type", "text/plain"}}, false);
  got.send(lines(500'000));
  rig.until([&] { return stream.has_head; });
  client.break_off();
  rig.wait_cancelled(got);
  rig.expect_ended(HttpEnd::kClientReset);
}

SLUICE_EACH_VERSION(HttpCompression);

}  // namespace
}  // namespace sluice
