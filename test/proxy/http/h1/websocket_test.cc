// WebSockets between the versions of HTTP: an Upgrade on one side is an extended CONNECT on the other (RFC 8441).

#include "proxy/http/h1/websocket.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "test/proxy/http/h1/rig.h"

namespace sluice {
namespace {

using Status = HttpCodec::Status;

std::string upgrade(std::string_view fields = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n") {
  return "GET /chat HTTP/1.1\nHost: a\nUpgrade: WebSocket\nConnection: keep-alive, Upgrade\n" + std::string(fields) +
         "Sec-WebSocket-Version: 13\nSec-WebSocket-Protocol: chat\n\n";
}

class WebsocketTest : public test::Http1Test {
 protected:
  WebsocketTest() : server_(pool_, options_, counters_, origin_), client_(pool_, client_options_, counters_) {
    origin_.responds = false;
  }
  Status receive(std::string_view text) { return server_.receive(test::heap_buffer_of(test::wire(text))); }
  std::string sent() { return test::shown(test::flushed(server_)); }
  Head websocket_head() {
    Head head = request_head("CONNECT", "/chat");
    EXPECT_TRUE(head.set(pool_, Head::Part::kProtocol, "websocket"));
    return with(std::move(head), "sec-websocket-version", "13");
  }
  // The client's request as it was written, and its response.
  std::string agreement(std::string_view request) {
    const std::string_view name = "sec-websocket-key: ";
    const size_t at = request.find(name);
    EXPECT_NE(at, std::string_view::npos);
    const http1::WebsocketAccept accept = http1::websocket_accept(request.substr(at + name.size(), 24));
    return "HTTP/1.1 101 x\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Accept: " +
           std::string(accept.data(), accept.size()) + "\nSec-WebSocket-Protocol: chat\n\n";
  }

  test::Http1Origin origin_;
  Http1Server server_;
  test::Http1Recorder recorder_;
  Http1Client client_;
};

// RFC 6455 section 1.3.
TEST_F(WebsocketTest, Keys) {
  const http1::WebsocketAccept accept = http1::websocket_accept("dGhlIHNhbXBsZSBub25jZQ==");
  EXPECT_EQ(std::string_view(accept.data(), accept.size()), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  const http1::WebsocketKey a = http1::new_websocket_key(), b = http1::new_websocket_key();
  EXPECT_TRUE(http1::is_websocket_key({a.data(), a.size()}));
  EXPECT_NE(a, b);
  for (const char* const key : {"", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ===", "dGhlIHNhbXBsZSBub25jZR==",
                                "dGhlIHNhbXBsZSBub25j Q==", "dGhlIHNhbXBsZSBub25jZQaa"}) {
    EXPECT_FALSE(http1::is_websocket_key(key)) << key;
  }
}

TEST_F(WebsocketTest, ServerTranslatesUpgrade) {
  receive(upgrade());
  EXPECT_EQ(origin_.text, "GET http a /chat >websocket {sec-websocket-version: 13; sec-websocket-protocol: chat}");
  origin_.stream->send_head(with(response_head(200), "sec-websocket-protocol", "chat"), false);
  EXPECT_EQ(sent(),
            "HTTP/1.1 101 Switching Protocols\nconnection: upgrade\nupgrade: websocket\n"
            "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\nsec-websocket-protocol: chat\n\n");
  receive("ping");
  EXPECT_EQ(origin_.body_bytes, 4u);
  origin_.stream->send_body(body_of("pong"), false);
  EXPECT_EQ(sent(), "pong");
  EXPECT_FALSE(server_.output_ended());
  origin_.stream->send_body(body_of("bye"), true);
  EXPECT_EQ(sent(), "bye");
  EXPECT_TRUE(server_.output_ended());
  EXPECT_EQ(server_.streams(), 1u) << "the other half goes on";
  receive("bye");
  EXPECT_EQ(server_.receive_end(), Status::kOpen);
  EXPECT_TRUE(origin_.text.ends_with(" 'pingbye'."));
  origin_.stream->release();
  EXPECT_EQ(server_.receive(Buffer()), Status::kEnded);
}

TEST_F(WebsocketTest, DataAfterAnUpgradeWaitsForTheResponse) {
  receive(upgrade() + "early");
  EXPECT_EQ(origin_.body_bytes, 0u);
  receive("bytes");
  EXPECT_EQ(origin_.body_bytes, 0u);
  origin_.stream->send_head(response_head(101), false);  // Treated like 200.
  server_.receive(Buffer());
  EXPECT_TRUE(origin_.text.ends_with(" 'earlybytes"));
  origin_.stream->release();
}

TEST_F(WebsocketTest, WaitingDataIsBounded) {
  receive(upgrade() + std::string(options_.limits.pipelined_bytes, 'x'));
  EXPECT_FALSE(server_.wants_bytes());
  origin_.stream->send_head(response_head(200), false);
  EXPECT_TRUE(server_.wants_bytes());
  origin_.stream->release();
}

TEST_F(WebsocketTest, RefusalEndsTheConnection) {
  receive(upgrade() + "GET /evil HTTP/1.1\nHost: a\n\n");
  origin_.stream->send_head(with(response_head(403), "content-length", "2"), false);
  origin_.stream->send_body(body_of("no"), true);
  EXPECT_EQ(sent(), "HTTP/1.1 403 Forbidden\ncontent-length: 2\nconnection: close\n\nno");
  EXPECT_EQ(server_.streams(), 0u);
  origin_.stream->release();
  EXPECT_EQ(server_.receive(Buffer()), Status::kEnded);
  EXPECT_EQ(origin_.heads, 1);
}

TEST_F(WebsocketTest, InvalidUpgrades) {
  const auto outcome = [this](std::string_view raw) {
    test::Http1Origin origin;
    origin.responds = false;
    Http1Server server(pool_, options_, counters_, origin);
    server.receive(test::heap_buffer_of(test::wire(raw)));
    return origin.text + (server.status() == Status::kFailed ? "!" + std::string(server.error()) : "");
  };
  const std::string no_key = "!a websocket upgrade without a valid key";
  EXPECT_EQ(outcome(upgrade("")), no_key);
  EXPECT_EQ(outcome(upgrade("Sec-WebSocket-Key: x\n")), no_key);
  EXPECT_EQ(
      outcome(upgrade("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n")),
      no_key);
  const std::string key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n";
  EXPECT_EQ(outcome(upgrade(key + "Content-Length: 1\n")), "!a websocket upgrade with a body");
  EXPECT_EQ(outcome(upgrade(key + "Transfer-Encoding: chunked\n")), "!a websocket upgrade with a body");
  EXPECT_EQ(outcome(upgrade(key + "Content-Length: 0\n")),
            "GET http a /chat >websocket {sec-websocket-version: 13; sec-websocket-protocol: chat}");
  // Not for this hop, and therefore ignored.
  EXPECT_EQ(outcome("GET / HTTP/1.0\nHost: a\nUpgrade: websocket\nConnection: upgrade\n" + key + "\n"),
            "GET http a /.");
  EXPECT_EQ(outcome("POST / HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: upgrade\n" + key + "\n"),
            "POST http a /.");
  EXPECT_EQ(outcome("GET / HTTP/1.1\nHost: a\nUpgrade: websocket\n" + key + "\n"), "GET http a /.");
}

TEST_F(WebsocketTest, ClientTranslatesExtendedConnect) {
  HttpStream& stream = *client_.open_stream(recorder_);
  stream.send_head(with(websocket_head(), "sec-websocket-protocol", "chat"), false);
  const std::string request = test::flushed(client_);
  EXPECT_TRUE(
      request.starts_with("GET /chat HTTP/1.1\r\nhost: a\r\nsec-websocket-version: 13\r\n"
                          "sec-websocket-protocol: chat\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                          "sec-websocket-key: "))
      << request;
  // Data sent before the response waits for it.
  stream.send_body(body_of("early"), false);
  EXPECT_FALSE(client_.has_output());
  EXPECT_EQ(stream.queued(), 5u);
  client_.receive(test::heap_buffer_of(test::wire(agreement(request)) + "hello"));
  EXPECT_EQ(recorder_.text, "200 {sec-websocket-protocol: chat} 'hello");
  EXPECT_EQ(test::flushed(client_), "early");
  client_.receive_end();
  EXPECT_TRUE(recorder_.text.ends_with(" 'hello'."));
  stream.send_body(Buffer(), true);
  stream.release();
  EXPECT_EQ(client_.receive(Buffer()), Status::kEnded);
}

TEST_F(WebsocketTest, MissingVersionIsAdded) {
  HttpStream& stream = *client_.open_stream(recorder_);
  Head head = request_head("GET", "/");
  ASSERT_TRUE(head.set(pool_, Head::Part::kProtocol, "websocket"));
  stream.send_head(head, false);
  EXPECT_NE(test::flushed(client_).find("sec-websocket-version: 13\r\n"), std::string::npos);
  stream.release();
}

TEST_F(WebsocketTest, RefusedClientDropsWaitingData) {
  HttpStream& stream = *client_.open_stream(recorder_);
  stream.send_head(websocket_head(), false);
  test::flushed(client_);
  stream.send_body(body_of("early"), false);
  client_.receive(test::heap_buffer_of("HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_EQ(recorder_.text, "404 {content-length: 0}.");
  EXPECT_EQ(test::flushed(client_), "");
  stream.send_body(body_of("late"), true);
  EXPECT_EQ(test::flushed(client_), "");
  stream.release();
  EXPECT_EQ(client_.status(), Status::kOpen);
}

// Defect: the connection failed, though the endpoint had seen nothing of the request.
TEST_F(WebsocketTest, OtherProtocolsCannotBeRequested) {
  HttpStream& stream = *client_.open_stream(recorder_);
  Head head = request_head("CONNECT", "/");
  ASSERT_TRUE(head.set(pool_, Head::Part::kProtocol, "connect-udp"));
  stream.send_head(head, false);
  EXPECT_EQ(client_.receive(Buffer()), Status::kOpen);
  EXPECT_EQ(recorder_.text, " reset: unsendable");
  EXPECT_FALSE(client_.has_output());
  stream.release();
  test::Http1Recorder next;
  HttpStream* const again = client_.open_stream(next);
  ASSERT_NE(again, nullptr);
  again->send_head(request_head("GET", "/"), true);
  test::flushed(client_);
  client_.receive(test::heap_buffer_of("HTTP/1.1 204 x\r\n\r\n"));
  EXPECT_EQ(next.text, "204.");
  again->release();
}

// A server sends 200 only where the head has the flag that the 200 does not accept the upgrade.
TEST_F(WebsocketTest, ServerForwardsIgnoredUpgrade) {
  receive(upgrade() + "GET /evil HTTP/1.1\nHost: a\n\n");
  Head head = with(response_head(200), "content-length", "2");
  head.ignores_upgrade = true;
  origin_.stream->send_head(head, false);
  origin_.stream->send_body(body_of("ok"), true);
  EXPECT_EQ(sent(), "HTTP/1.1 200 OK\ncontent-length: 2\nconnection: close\n\nok");
  origin_.stream->release();
  EXPECT_EQ(server_.receive(Buffer()), Status::kEnded);
  EXPECT_EQ(origin_.heads, 1) << "what is behind the upgrade is nobody's";
}

// From one connection of HTTP/1.1 to another, as a proxy does.
TEST_F(WebsocketTest, AcrossAHop) {
  receive(upgrade());
  HttpStream& up = *client_.open_stream(recorder_);
  up.send_head(origin_.last, false);
  const std::string request = test::flushed(client_);
  EXPECT_EQ(request.find("dGhlIHNhbXBsZSBub25jZQ=="), std::string::npos) << "each hop has a key of its own";
  client_.receive(test::heap_buffer_of(test::wire(agreement(request))));
  origin_.stream->send_head(recorder_.last, false);
  EXPECT_EQ(sent(),
            "HTTP/1.1 101 Switching Protocols\nconnection: upgrade\nupgrade: websocket\n"
            "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\nsec-websocket-protocol: chat\n\n");
  up.release();
  origin_.stream->release();
}

// Defect: a tunnel whose connection had failed ended in order for the other side; and so did one that was cut in TLS
// without close_notify (RFC 8446 section 6.1), which anyone on the path can do.
TEST_F(WebsocketTest, LostTunnelIsReset) {
  for (const auto how : {HttpCodec::End::kOrderly, HttpCodec::End::kCut, HttpCodec::End::kLost}) {
    Http1Client client(pool_, client_options_, counters_);
    test::Http1Recorder recorder;
    HttpStream& stream = *client.open_stream(recorder);
    stream.send_head(websocket_head(), false);
    client.receive(test::heap_buffer_of(test::wire(agreement(test::flushed(client)) + "hello")));
    client.receive_end(how);
    EXPECT_TRUE(recorder.text.ends_with(how == HttpCodec::End::kOrderly ? "'hello'." : "'hello' reset: lost"))
        << recorder.text;
    stream.release();
  }
}

// Defect: half of a tunnel that was reset ended in order, where the other half did not.
TEST_F(WebsocketTest, ResetTunnelIsCut) {
  receive(upgrade());
  origin_.stream->send_head(response_head(200), false);
  origin_.stream->send_body(body_of("half"), false);
  sent();
  origin_.stream->reset(ResetReason::kConnectionLost);
  EXPECT_FALSE(server_.output_ended());
  EXPECT_TRUE(server_.output_cut());
  EXPECT_NE(server_.status(), Status::kOpen);
  origin_.stream->release();
}

// Defect: a 2xx response of the proxy's own was written as 101, and its body was the tunnel.
TEST_F(WebsocketTest, OwnResponseDoesNotAcceptTheUpgrade) {
  for (const uint16_t status : {uint16_t{200}, uint16_t{204}}) {
    test::Http1Origin origin;
    origin.responds = false;
    Http1Server server(pool_, options_, counters_, origin);
    server.receive(test::heap_buffer_of(test::wire(upgrade())));
    Head head = response_head(status);
    head.own = true;
    origin.stream->send_head(head, true);
    EXPECT_TRUE(test::flushed(server).starts_with("HTTP/1.1 " + std::to_string(status) + " ")) << status;
    EXPECT_FALSE(server.in_tunnel());
    origin.stream->release();
    EXPECT_EQ(server.receive(Buffer()), Status::kEnded);
  }
}

TEST_F(WebsocketTest, ConnectTunnels) {
  HttpStream& stream = *client_.open_stream(recorder_);
  stream.send_head(request_head("CONNECT", "", "b:443"), false);
  EXPECT_EQ(test::shown(test::flushed(client_)), "CONNECT b:443 HTTP/1.1\nhost: b:443\n\n");
  client_.receive(test::heap_buffer_of("HTTP/1.1 200 x\r\n\r\nhi"));
  EXPECT_EQ(recorder_.text, "200 'hi");
  stream.send_body(body_of("ho"), false);
  EXPECT_EQ(test::flushed(client_), "ho");
  stream.release();

  options_.allow_connect = true;
  receive("CONNECT b:443 HTTP/1.1\nHost: b:443\n\n");
  origin_.stream->send_head(response_head(200), false);
  EXPECT_EQ(sent(), "HTTP/1.1 200 OK\n\n");
  origin_.stream->send_body(body_of("hi"), false);
  EXPECT_EQ(sent(), "hi");
  origin_.stream->release();
}

}  // namespace
}  // namespace sluice
