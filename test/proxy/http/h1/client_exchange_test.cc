// The requests that a client writes, and its exchanges: framing, early responses, ends.

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "test/proxy/http/h1/rig.h"

namespace sluice {
namespace {

using Status = HttpCodec::Status;

class ClientTest : public test::Http1Test {
 protected:
  ClientTest() : client_(pool_, client_options_, counters_) {}

  std::string sent() { return test::shown(test::flushed(client_)); }
  Status receive(std::string_view text) { return client_.receive(test::heap_buffer_of(test::wire(text))); }
  HttpStream& open() {
    stream_ = client_.open_stream(recorder_);
    EXPECT_NE(stream_, nullptr);
    return *stream_;
  }

  test::Http1Recorder recorder_;
  Http1Client client_;
  HttpStream* stream_ = nullptr;
};

TEST_F(ClientTest, RequestFraming) {
  const auto framing = [this](std::string_view method, bool end) {
    Http1Client client(pool_, client_options_, counters_);
    client.open_stream(recorder_)->send_head(request_head(method, "/x", "b"), end);
    return test::shown(test::flushed(client));
  };
  EXPECT_EQ(framing("GET", true), "GET /x HTTP/1.1\nhost: b\n\n");
  EXPECT_EQ(framing("DELETE", true), "DELETE /x HTTP/1.1\nhost: b\n\n");
  for (const std::string method : {"POST", "PUT", "PATCH"}) {
    EXPECT_EQ(framing(method, true), method + " /x HTTP/1.1\nhost: b\ncontent-length: 0\n\n");
  }
  EXPECT_EQ(framing("GET", false), "GET /x HTTP/1.1\nhost: b\ntransfer-encoding: chunked\n\n");
}

TEST_F(ClientTest, RequestWithLength) {
  open().send_head(with(with(request_head("PUT", "*"), "content-length", "5"), "te", "trailers"), false);
  stream_->send_body(body_of("hello"), true);
  EXPECT_EQ(sent(), "PUT * HTTP/1.1\nhost: a\ncontent-length: 5\nte: trailers\nconnection: te\n\nhello");
}

// Defect: an HTTP/2 Content-Length with leading zeros was forwarded unchanged.
TEST_F(ClientTest, LengthIsWrittenAsNumber) {
  open().send_head(with(request_head("POST", "/"), "content-length", "0010"), false);
  EXPECT_EQ(sent(), "POST / HTTP/1.1\nhost: a\ncontent-length: 10\n\n");
}

TEST_F(ClientTest, ConnectionsAreReused) {
  for (int i = 0; i < 3; ++i) {
    open().send_head(request_head("GET", "/"), true);
    sent();
    EXPECT_EQ(receive("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), Status::kOpen);
    EXPECT_EQ(client_.open_stream(recorder_), nullptr) << "not before the release";
    stream_->release();
    recorder_.ended = false;
  }
  EXPECT_EQ(recorder_.heads, 3);
}

// Defect: it ended the connection, so that a client that reset its requests at once used up the idle connections to an
// endpoint.
TEST_F(ClientTest, ReleasedBeforeItIsSent) {
  open().send_head(request_head("POST", "/first"), false);
  stream_->send_body(body_of("a"), false);
  stream_->reset(ResetReason::kCancelled);
  EXPECT_FALSE(recorder_.was_reset);
  stream_->release();
  EXPECT_EQ(sent(), "");
  EXPECT_EQ(client_.status(), Status::kOpen);
  open().send_head(request_head("GET", "/second"), true);
  EXPECT_EQ(sent(), "GET /second HTTP/1.1\nhost: a\n\n");
  EXPECT_EQ(receive("HTTP/1.1 204 No Content\n\n"), Status::kOpen);
  EXPECT_EQ(recorder_.heads, 1);
  stream_->release();
  EXPECT_NE(client_.open_stream(recorder_), nullptr);
}

TEST_F(ClientTest, ResponseBeforeRequestEnded) {
  open().send_head(request_head("POST", "/"), false);
  stream_->send_body(body_of("a"), false);
  EXPECT_EQ(sent(), "POST / HTTP/1.1\nhost: a\ntransfer-encoding: chunked\n\n1\na\n");
  EXPECT_EQ(receive("HTTP/1.1 413 x\nContent-Length: 0\n\n"), Status::kOpen);
  EXPECT_EQ(recorder_.text, "413 {content-length: 0}.");
  // The receiver may send the rest, and then the connection can be reused.
  stream_->send_body(body_of("b"), true);
  stream_->release();
  EXPECT_EQ(sent(), "1\nb\n0\n\n");
  EXPECT_NE(client_.open_stream(recorder_), nullptr);
}

TEST_F(ClientTest, ResponseBeforeRequestEndedAndReleased) {
  open().send_head(request_head("POST", "/"), false);
  sent();
  receive("HTTP/1.1 413 x\nContent-Length: 0\n\n");
  stream_->release();
  EXPECT_EQ(client_.status(), Status::kFailed);
}

// Defect: a response that a peer sent before any request was taken for the response to a request that was made at the
// same moment.
TEST_F(ClientTest, ResponseBeforeRequestWasSent) {
  open().send_head(request_head("GET", "/"), true);
  EXPECT_EQ(receive("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"), Status::kFailed);
  EXPECT_EQ(recorder_.text, " reset: malformed");
  stream_->release();
}

TEST_F(ClientTest, ConnectionEndsBeforeRequestWasSent) {  // The request may then be retried.
  open().send_head(request_head("GET", "/"), true);
  client_.receive_end();
  EXPECT_EQ(recorder_.text, " reset: lost");
  stream_->release();
}

TEST_F(ClientTest, ClosingResponseEndsTheRequest) {
  open().send_head(request_head("POST", "/"), false);
  sent();
  stream_->send_body(body_of("a"), false);
  receive("HTTP/1.1 413 x\nConnection: close\nContent-Length: 0\n\n");
  EXPECT_EQ(sent(), "") << "nobody reads it";
  EXPECT_EQ(client_.streams(), 0u);
  stream_->send_body(body_of("b"), true);
  EXPECT_EQ(sent(), "");
  stream_->release();
  EXPECT_EQ(client_.receive(Buffer()), Status::kEnded);
}

TEST_F(ClientTest, ResetDropsTheRequest) {
  open().send_head(request_head("GET", "/"), true);
  sent();
  stream_->reset(ResetReason::kCancelled);
  EXPECT_FALSE(recorder_.was_reset);
  stream_->release();
  EXPECT_NE(client_.status(), Status::kOpen);
  EXPECT_EQ(client_.open_stream(recorder_), nullptr);
}

TEST_F(ClientTest, InvalidRequestsAreNotWritten) {
  const auto refused = [this](Head head) {
    Http1Client client(pool_, client_options_, counters_);
    test::Http1Recorder recorder;
    client.open_stream(recorder)->send_head(head, true);
    EXPECT_EQ(client.receive(Buffer()), Status::kOpen);
    EXPECT_EQ(recorder.text, " reset: unsendable");
    return !client.has_output();
  };
  EXPECT_TRUE(refused(request_head("GET", "/ HTTP/1.1\r\nx: y")));
  EXPECT_TRUE(refused(request_head("GET", "/a b")));
  EXPECT_TRUE(refused(request_head("GET", "")));
  EXPECT_TRUE(refused(request_head("G T", "/")));
  EXPECT_TRUE(refused(request_head("", "/")));
  EXPECT_TRUE(refused(request_head("GET", "/", "a\r\nb")));
  EXPECT_TRUE(refused(with(request_head("GET", "/"), "a", "b\nc")));
  EXPECT_TRUE(refused(with(request_head("GET", "/"), "content-length", "5")));
  EXPECT_TRUE(refused(with(request_head("GET", "/"), "content-length", "x")));
}

TEST_F(ClientTest, Draining) {
  EXPECT_EQ(open().queued(), 0u);
  client_.drain();
  stream_->send_head(request_head("GET", "/"), true);
  EXPECT_EQ(sent(), "GET / HTTP/1.1\nhost: a\nconnection: close\n\n");
  receive("HTTP/1.1 204 x\n\n");
  stream_->release();
  EXPECT_EQ(client_.status(), Status::kEnded);

  Http1Client idle(pool_, client_options_, counters_);
  idle.drain();
  EXPECT_EQ(idle.open_stream(recorder_), nullptr);
  EXPECT_EQ(idle.receive(Buffer()), Status::kEnded);
}

TEST_F(ClientTest, ResponseWaitsWhileReceiverDoesNotRead) {
  open().send_head(request_head("GET", "/"), true);
  sent();
  receive("HTTP/1.1 200 OK\n\n");
  stream_->set_reading(false);
  EXPECT_FALSE(client_.wants_bytes());
  receive("hello");
  client_.receive_end();
  EXPECT_EQ(recorder_.body_bytes, 0u);
  stream_->set_reading(true);
  client_.receive(Buffer());
  EXPECT_EQ(recorder_.text, "200 'hello'.");
  stream_->release();
  EXPECT_EQ(client_.receive(Buffer()), Status::kEnded);
}

}  // namespace
}  // namespace sluice
