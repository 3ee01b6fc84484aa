// How a client parses responses: each rule of RFC 9112 that keeps responses apart.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "test/proxy/http/h1/rig.h"

namespace sluice {
namespace {

enum Requested : char { kGet, kHead, kConnect, kWebsocket };

struct Case {
  Requested requested;
  std::string_view raw;  // See test::wire; then the connection ends.
  // What the receiver gets before the connection ends, `+` if the connection could be reused, `|` and what it gets at
  // the end; then `!reason` if it fails.
  std::string_view expected;
};

#define OK "HTTP/1.1 200 OK\n"
#define CHUNKED OK "Transfer-Encoding: chunked\n\n"

constexpr Case kCases[] = {
    // ---- The status line ----
    {kGet, OK "Content-Length: 0\n\n", "200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 200 \nContent-Length: 0\n\n", "200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 200\nContent-Length: 0\n\n", "200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 200 a b\tc \xC3\xA4\nContent-Length: 0\n\n", "200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 599 x\nContent-Length: 0\n\n", "599 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 600 x\n\n", " reset: malformed|!a status outside 100 to 599"},
    {kGet, "HTTP/1.1 099 x\n\n", " reset: malformed|!a status outside 100 to 599"},
    {kGet, "HTTP/1.1 000 x\n\n", " reset: malformed|!a status outside 100 to 599"},
    {kGet, "HTTP/1.1 20 x\n\n", " reset: malformed|!no status"},
    {kGet, "HTTP/1.1 2000 x\n\n", " reset: malformed|!no status"},
    {kGet, "HTTP/1.1 2x0 x\n\n", " reset: malformed|!no status"},
    {kGet, "HTTP/1.1 +20 x\n\n", " reset: malformed|!no status"},
    {kGet, "HTTP/1.1  200 x\n\n", " reset: malformed|!no status"},
    {kGet, "HTTP/1.1 200\tx\n\n", " reset: malformed|!no status"},
    {kGet, "HTTP/1.1\n\n", " reset: malformed|!no status"},
    {kGet, "HTTP/1.1 200 \x01\n\n", " reset: malformed|!a reason phrase with invalid characters"},
    {kGet, "HTTP/1.1 200 a\fb\n\n", " reset: malformed|!a reason phrase with invalid characters"},
    {kGet, "HTTP/1.2 200 x\nContent-Length: 0\n\n", "200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.2 200 x\nTransfer-Encoding: chunked\n\n0\n\n", "200.+|"},
    {kGet, "HTTP/2 200\n\n", " reset: malformed|!no HTTP version"},
    {kGet, "HTTP/2.0 200 x\n\n", " reset: malformed|!a version other than HTTP/1.0 and 1.1"},
    {kGet, "http/1.1 200 x\n\n", " reset: malformed|!no HTTP version"},
    {kGet, "ICY 200 x\n\n", " reset: malformed|!no HTTP version"},
    {kGet, "\nHTTP/1.1 200 x\n\n", " reset: malformed|!a message that does not begin like HTTP"},
    {kGet, " HTTP/1.1 200 x\n\n", " reset: malformed|!a message that does not begin like HTTP"},
    {kGet, "<html>", " reset: malformed|!a message that does not begin like HTTP"},
    // ---- Lines and fields ----
    {kGet, OK "A: b\nSet-Cookie: c\nset-cookie: d\nContent-Length: 0\n\n",
     "200 {a: b; set-cookie: c; set-cookie: d; content-length: 0}.+|"},
    {kGet, "HTTP/1.1 200 OK\vContent-Length: 0\n\n", " reset: malformed|!a line that does not end with CR LF"},
    {kGet, OK "Content-Length: 0\v\n", " reset: malformed|!a line that does not end with CR LF"},
    {kGet, OK "a: b\n c\n\n", " reset: malformed|!a field line that begins with white space"},
    {kGet, OK " a: b\n\n", " reset: malformed|!a field line that begins with white space"},
    {kGet, OK "a : b\n\n", " reset: malformed|!white space between a field's name and its colon"},
    {kGet, OK "a b: c\n\n", " reset: malformed|!white space between a field's name and its colon"},
    {kGet, OK ": c\n\n", " reset: malformed|!a field name that is not a token"},
    {kGet, OK "a: b\fc\n\n", " reset: malformed|!a field value with invalid characters"},
    {kGet, OK "a: \x01\n\n", " reset: malformed|!a field value with invalid characters"},
    {kGet, OK "a_b: c\nContent-Length: 0\n\n", "200 {a_b: c; content-length: 0}.+|"},
    {kGet, CHUNKED "0\na_b: c\n\n", "200 {a_b: c}.+|"},
    {kGet, OK "Connection: x\nKeep-Alive: y\nProxy-Connection: z\nTE: t\nUpgrade: h2\nX: 1\nContent-Length: 0\n\n",
     "200 {content-length: 0}.+|"},
    {kGet, OK "Connection: content-length\nContent-Length: 0\n\n",
     " reset: malformed|!a Connection option that names an end-to-end field"},
    {kGet, OK "Host: b\nContent-Length: 0\n\n", "200 {host: b; content-length: 0}.+|"},
    // ---- Bodies ----
    {kGet, OK "Content-Length: 5\n\nhello", "200 {content-length: 5} 'hello'.+|"},
    {kGet, OK "Content-Length: 5\n\nhell",
     "200 {content-length: 5} 'hell|' reset: lost!the connection ended within a body"},
    {kGet, OK "Content-Length: 5\n\n", "200 {content-length: 5}| reset: lost!the connection ended within a body"},
    {kGet, OK "\nhello", "200 'hello|'."},
    {kGet, OK "\n", "200|."},
    {kGet, OK "Connection: keep-alive\n\nhello", "200 'hello|'."},
    {kGet, CHUNKED "5\nhello\n0\n\n", "200 'hello'.+|"},
    {kGet, CHUNKED "5\nhello\n6;x=y\n world\n0\n\n", "200 'hello world'.+|"},
    {kGet, CHUNKED "5\nhello\n0\na: b\n\n", "200 'hello' {a: b}.+|"},
    {kGet, CHUNKED "0\nGrpc-Status: 0\nContent-Length: 1\n\n", "200 {grpc-status: 0}.+|"},
    {kGet, CHUNKED "5\nhello", "200 'hello|' reset: lost!the connection ended within a body"},
    {kGet, CHUNKED "5\nhello\n0\n", "200 'hello|' reset: lost!the connection ended within a head"},
    {kGet, CHUNKED "5\nhello\n0\na: b\n", "200 'hello|' reset: lost!the connection ended within a head"},
    {kGet, CHUNKED "5\nhello\n", "200 'hello|' reset: lost!the connection ended within a body"},
    {kGet, CHUNKED "5\nhello0\n\n", "200 'hello' reset: malformed|!a chunk that does not end with CR LF"},
    {kGet, CHUNKED "x\n", "200 reset: malformed|!a malformed chunk size"},
    {kGet, CHUNKED "5 \nhello", "200 reset: malformed|!a malformed chunk size"},
    {kGet, CHUNKED "5\vhello", "200 reset: malformed|!a malformed chunk size"},
    {kGet, CHUNKED "ffffffffffffffff\n", "200 reset: malformed|!a chunk size that is too large"},
    {kGet, OK "Transfer-Encoding: chunked\nContent-Length: 5\n\nhello",
     " reset: malformed|!both Transfer-Encoding and Content-Length"},
    {kGet, OK "Content-Length: 5\nTransfer-Encoding: chunked\n\nhello",
     " reset: malformed|!both Transfer-Encoding and Content-Length"},
    {kGet, OK "Content-Length: 5\nContent-Length: 5\n\nhello", " reset: malformed|!more than one Content-Length"},
    {kGet, OK "Content-Length: 5, 5\n\nhello", " reset: malformed|!a Content-Length that is not a number below 2^63"},
    {kGet, OK "Content-Length: +5\n\nhello", " reset: malformed|!a Content-Length that is not a number below 2^63"},
    {kGet, OK "Content-Length: \n\n", " reset: malformed|!a Content-Length that is not a number below 2^63"},
    {kGet, OK "Content-Length: 9223372036854775808\n\n",
     " reset: malformed|!a Content-Length that is not a number below 2^63"},
    {kGet, OK "Transfer-Encoding: gzip\n\nhello", " reset: malformed|!a Transfer-Encoding that is not chunked"},
    {kGet, OK "Transfer-Encoding: gzip, chunked\n\n0\n\n", " reset: malformed|!a transfer coding other than chunked"},
    {kGet, OK "Transfer-Encoding: identity\n\nhello", " reset: malformed|!a Transfer-Encoding that is not chunked"},
    {kGet, OK "Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n0\n\n",
     " reset: malformed|!more than one Transfer-Encoding"},
    {kGet, "HTTP/1.0 200 OK\nTransfer-Encoding: chunked\n\n0\n\n",
     " reset: malformed|!a Transfer-Encoding in HTTP/1.0"},
    // ---- No bodies ----
    {kHead, OK "Content-Length: 5\n\n", "200 {content-length: 5}.+|"},
    {kHead, OK "Transfer-Encoding: chunked\n\n", "200.+|"},
    {kHead, OK "\n", "200.+|"},
    {kHead, OK "Content-Length: 5\n\nhello", "200 {content-length: 5}.|!bytes that belong to no response"},
    {kHead, OK "Transfer-Encoding: chunked\nContent-Length: 5\n\n",
     " reset: malformed|!both Transfer-Encoding and Content-Length"},
    {kGet, "HTTP/1.1 204 x\n\n", "204.+|"},
    {kGet, "HTTP/1.1 204 x\nContent-Length: 5\n\n", "204.+|"},
    {kGet, "HTTP/1.1 204 x\nContent-Length: 5\n\nhello", "204.|!bytes that belong to no response"},
    {kGet, "HTTP/1.1 204 x\nTransfer-Encoding: chunked\n\n", "204.+|"},
    {kGet, "HTTP/1.1 304 x\nContent-Length: 5\nETag: y\n\n", "304 {etag: y; content-length: 5}.+|"},
    {kGet, "HTTP/1.1 304 x\n\n", "304.+|"},
    {kGet, "HTTP/1.1 205 x\nContent-Length: 0\n\n", "205 {content-length: 0}.+|"},
    // ---- Persistence ----
    {kGet, OK "Connection: close\nContent-Length: 0\n\n", "200 {content-length: 0}.|"},
    {kGet, OK "Connection: keep-alive, CLOSE\nContent-Length: 0\n\n", "200 {content-length: 0}.|"},
    {kGet, "HTTP/1.0 200 OK\nContent-Length: 0\n\n", "200 {content-length: 0}.|"},
    {kGet, "HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 0\n\n", "200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.0 200 OK\nConnection: keep-alive\n\nhello", "200 'hello|'."},
    {kGet, "HTTP/1.0 200 OK\n\nhello", "200 'hello|'."},
    {kGet, OK "Connection: close\nContent-Length: 5\n\nhello", "200 {content-length: 5} 'hello'.|"},
    {kGet, OK "Content-Length: 0\n\n" OK "Content-Length: 0\n\n",
     "200 {content-length: 0}.|!bytes that belong to no response"},
    {kGet, OK "Content-Length: 5\n\nhello\n", "200 {content-length: 5} 'hello'.|!bytes that belong to no response"},
    {kGet, "", "| reset: lost!the connection ended before the response"},
    {kGet, "HTTP/1.1 200 OK\nContent-", "| reset: lost!the connection ended within a head"},
    // ---- 1xx ----
    {kGet, "HTTP/1.1 100 Continue\n\n" OK "Content-Length: 0\n\n", "100, 200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 103 x\nLink: y\n\nHTTP/1.1 103 x\n\n" OK "Content-Length: 0\n\n",
     "103 {link: y}, 103, 200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 100 x\nContent-Length: 5\n\n" OK "Content-Length: 0\n\n", "100, 200 {content-length: 0}.+|"},
    {kGet, "HTTP/1.1 100 x\nConnection: close\n\n" OK "Content-Length: 0\n\n", "100, 200 {content-length: 0}.+|"},
    {kHead, "HTTP/1.1 103 x\n\n" OK "Content-Length: 5\n\n", "103, 200 {content-length: 5}.+|"},
    {kGet, "HTTP/1.1 100 x\n\n", "100,| reset: lost!the connection ended before the response"},
    {kGet, "HTTP/1.1 101 x\nUpgrade: websocket\nConnection: upgrade\n\n",
     " reset: malformed|!an upgrade that was not requested"},
    {kGet, "HTTP/1.1 101 x\n\n", " reset: malformed|!an upgrade that was not requested"},
    // ---- CONNECT ----
    {kConnect, OK "\nxyz", "200 'xyz|'."},
    {kConnect, OK "Content-Length: 2\n\nxyz", "200 'xyz|'."},
    {kConnect, OK "Transfer-Encoding: chunked\n\nxyz", "200 'xyz|'."},
    {kConnect, "HTTP/1.1 403 x\nContent-Length: 2\n\nno", "403 {content-length: 2} 'no'.+|"},
    {kConnect, "HTTP/1.1 101 x\n\n", " reset: malformed|!an upgrade that was not requested"},
    // ---- WebSocket; see also websocket_test ----
    // Upgrades may be ignored: RFC 9110 section 7.8.
    {kWebsocket, OK "Content-Length: 0\n\n", "200 {content-length: 0}.+|"},
    {kWebsocket, OK "Content-Length: 5\n\nplain", "200 {content-length: 5} 'plain'.+|"},
    {kWebsocket, CHUNKED "5\nplain\n0\n\n", "200 'plain'.+|"},
    {kWebsocket, "HTTP/1.1 403 x\nContent-Length: 2\n\nno", "403 {content-length: 2} 'no'.+|"},
    {kWebsocket, "HTTP/1.1 426 x\nUpgrade: websocket\nSec-WebSocket-Version: 8\nContent-Length: 0\n\n",
     "426 {upgrade: websocket; sec-websocket-version: 8; content-length: 0}.+|"},
    // Defect: a 426 lost its Upgrade, which names the required protocol (RFC 9110 section 15.5.22).
    {kGet, "HTTP/1.1 426 x\nConnection: Upgrade\nUpgrade: TLS/1.3, HTTP/1.1\nContent-Length: 0\n\n",
     "426 {upgrade: TLS/1.3, HTTP/1.1; content-length: 0}.+|"},
    {kWebsocket, "HTTP/1.1 101 x\nUpgrade: websocket\nConnection: upgrade\n\n",
     " reset: malformed|!an upgrade without a valid Sec-WebSocket-Accept"},
    {kWebsocket, "HTTP/1.1 101 x\nUpgrade: websocket\nConnection: upgrade\nSec-WebSocket-Accept: abc\n\n",
     " reset: malformed|!an upgrade without a valid Sec-WebSocket-Accept"},
    {kWebsocket,
     "HTTP/1.1 101 x\nUpgrade: websocket\nConnection: upgrade\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\n\n",
     " reset: malformed|!a Sec-WebSocket-Accept for another key"},
    {kWebsocket, "HTTP/1.1 101 x\nUpgrade: h2c\nConnection: upgrade\n\n",
     " reset: malformed|!an upgrade that was not requested"},
    {kWebsocket, "HTTP/1.1 101 x\nUpgrade: websocket\n\n", " reset: malformed|!an upgrade that was not requested"},
};

// Releases its stream when the response is complete.
class Taker : public test::Http1Recorder {
 public:
  void on_head(HttpStream& stream, Head&& head, bool end) override {
    Http1Recorder::on_head(stream, std::move(head), end);
    if (ended) stream.release();
  }
  void on_body(HttpStream& stream, Buffer&& body, bool end) override {
    Http1Recorder::on_body(stream, std::move(body), end);
    if (!ended) return;
    stream.send_body(Buffer(), true);  // Our half of a tunnel; otherwise it has ended.
    stream.release();
  }
  void on_trailers(HttpStream& stream, Fields&& trailers) override {
    Http1Recorder::on_trailers(stream, std::move(trailers));
    stream.release();
  }
};

class Responses : public test::Http1Test, public testing::WithParamInterface<size_t> {
 protected:
  std::string outcome(Requested requested, std::string_view raw, const std::vector<size_t>& cuts = {}) {
    Taker taker;
    Http1Client client(pool_, client_options_, counters_);
    HttpStream* const stream = client.open_stream(taker);
    Head head = request_head(requested == kHead ? "HEAD" : requested == kConnect ? "CONNECT" : "GET", "/");
    if (requested == kWebsocket) {
      EXPECT_TRUE(head.set(pool_, Head::Part::kProtocol, "websocket"));
    }
    stream->send_head(head, requested == kGet || requested == kHead);
    test::flushed(client);
    test::feed(client, raw, cuts);
    std::string text = taker.text;
    if (client.status() == HttpCodec::Status::kOpen && client.streams() == 0) text += "+";
    const size_t before = taker.text.size();
    text += "|";
    client.receive_end();
    text += taker.text.substr(before);
    if (client.status() == HttpCodec::Status::kFailed) {
      text += "!" + std::string(client.error());
    }
    return text;
  }
};

TEST_P(Responses, AreParsedHoweverTheyAreCut) {
  const Case& test_case = kCases[GetParam()];
  const std::string raw = test::wire(test_case.raw);
  ASSERT_EQ(outcome(test_case.requested, raw), test_case.expected) << test_case.raw;
  for (size_t cut = 1; cut < raw.size(); ++cut) {
    ASSERT_EQ(outcome(test_case.requested, raw, {cut}), test_case.expected) << test_case.raw << "\ncut at " << cut;
  }
  ASSERT_EQ(outcome(test_case.requested, raw, test::splits_every(1, raw.size())), test_case.expected)
      << test_case.raw << "\nbyte by byte";
}

INSTANTIATE_TEST_SUITE_P(Http1, Responses, testing::Range(size_t{0}, std::size(kCases)));

TEST_F(Responses, InformationalResponsesAreBounded) {
  std::string raw;
  for (int i = 0; i < 16; ++i) raw += "HTTP/1.1 103 x\r\n\r\n";
  const std::string final = "HTTP/1.1 204 x\r\n\r\n";
  EXPECT_TRUE(outcome(kGet, raw + final).ends_with(" 103, 204.+|"));
  EXPECT_TRUE(outcome(kGet, raw + "HTTP/1.1 103 x\r\n\r\n" + final)
                  .ends_with(" 103, reset: too large|!too many responses before the final one"));
}

TEST_F(Responses, HeadsAreBounded) {
  client_options_.limits.head_bytes = 60;
  EXPECT_EQ(outcome(kGet, "HTTP/1.1 204 x\r\na: " + std::string(37, 'x') + "\r\n\r\n"),
            "204 {a: " + std::string(37, 'x') + "}.+|");
  EXPECT_EQ(outcome(kGet, "HTTP/1.1 204 x\r\na: " + std::string(40, 'x') + "\r\n\r\n"),
            " reset: too large|!a head that is too large");
  EXPECT_EQ(Http1Limits::of_responses().fields, 200u);
  EXPECT_EQ(Http1Limits::of_responses().head_bytes, 65536u);
}

// Defect: a response whose body was complete was reset when its trailers had more than 16 fields or 4 KiB.
TEST_F(Responses, TooLargeTrailersAreDropped) {
  client_options_.limits.fields = 20;
  client_options_.limits.head_bytes = 1000;
  const std::string raw = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n";
  std::string fields;
  for (int i = 0; i < 20; ++i) fields += "a: b\r\n";
  EXPECT_TRUE(outcome(kGet, raw + fields + "\r\n").ends_with("a: b}.+|"));
  EXPECT_EQ(counters_.trailers_dropped, 0u);
  const std::string many = raw + fields + "c: d\r\n\r\n", large = raw + "a: " + std::string(1000, 'x') + "\r\n\r\n";
  for (const std::string& each : {many, large}) {
    EXPECT_EQ(outcome(kGet, each), "200 'hi'.|");
    EXPECT_EQ(outcome(kGet, each, test::splits_every(1, each.size())), "200 'hi'.|");
  }
  EXPECT_EQ(counters_.trailers_dropped, 4u);
}

TEST_F(Responses, UnexpectedBytesEndAnIdleConnection) {
  Http1Client client(pool_, client_options_, counters_);
  EXPECT_EQ(client.receive(test::heap_buffer_of("HTTP/1.1 408 x\r\n\r\n")), HttpCodec::Status::kFailed);
  EXPECT_EQ(client.error(), "bytes that belong to no response");
  test::Http1Recorder recorder;
  EXPECT_EQ(client.open_stream(recorder), nullptr);
}

TEST_F(Responses, ResponseBeforeTheRequestIsRefused) {
  Taker taker;
  Http1Client client(pool_, client_options_, counters_);
  HttpStream* const stream = client.open_stream(taker);
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(client.open_stream(taker), nullptr) << "one at a time";
  client.receive(test::heap_buffer_of("HTTP/1.1 204 x\r\n\r\n"));
  EXPECT_EQ(client.status(), HttpCodec::Status::kFailed);
  EXPECT_EQ(taker.text, " reset: malformed");
}

// Defect: a request that was about to be sent got 502 because of the 408 that ended the idle connection it was given.
// Nothing of it had left, so it is safe to retry.
TEST_F(Responses, EndOfAnIdleConnectionCrossesWithTheNextRequest) {
  for (const bool head_is_queued : {false, true}) {
    Taker first, second;
    Http1Client client(pool_, client_options_, counters_);
    const Head head = request_head("GET", "/");
    client.open_stream(first)->send_head(head, true);
    Buffer sent;
    client.flush(sent);
    client.receive(test::heap_buffer_of("HTTP/1.1 204 x\r\n\r\n"));
    HttpStream* const stream = client.open_stream(second);
    ASSERT_NE(stream, nullptr);
    if (head_is_queued) stream->send_head(head, true);
    client.receive(test::heap_buffer_of("HTTP/1.1 408 x\r\nConnection: close\r\n\r\n"));
    EXPECT_EQ(client.status(), HttpCodec::Status::kFailed);
    EXPECT_EQ(client.error(), "bytes that belong to no response");
    EXPECT_EQ(second.text, " reset: lost");
  }
}

TEST_F(Responses, EndOfIdleConnectionIsNoError) {
  Http1Client client(pool_, client_options_, counters_);
  EXPECT_EQ(client.receive_end(), HttpCodec::Status::kEnded);
  EXPECT_EQ(client.error(), "");
}

}  // namespace
}  // namespace sluice
