// Malformed requests: the rule that the log names for each, what it is based on, and what it shows of the request.

#include "proxy/http/proxy/http_rules.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "test/proxy/http/h1/rig.h"
#include "test/proxy/http/h2/rig.h"

namespace sluice::test {
namespace {

std::string words(const BrokenMessage& message) {
  config::Http http;
  http.max_fields = 5;
  http.max_head = {400};
  http.max_start_line = {60};
  std::array<char, kRuleTextBytes> room;
  const std::string status = message.status != 0 ? std::to_string(message.status) + " " : std::string();
  return status + std::string(describe_rule(message.rule, http, room)) + describe_place(message);
}

struct Row {
  std::string sent;  // For HTTP/1.1, see wire().
  std::string_view logged;
};

// ---- HTTP/1.1 ----

// Keeps the words for the first refusal.
class RecordingOrigin : public Http1Origin {
 public:
  void on_refused(const BrokenMessage& message) override { logged += words(message); }
  void on_broken(HttpStream&, const BrokenMessage& message) override { logged += "behind the head: " + words(message); }
  std::string logged;
};

#define GET "GET / HTTP/1.1\nHost: a\n"
#define CHUNKED "POST /up HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n"

const Row kHttp1Rows[] = {
    {GET "\n", ""},
    {"GET /x HTTP/1.1\n\n", "400 no Host (RFC 9112 section 3.2), in \"GET /x HTTP/1.1\""},
    {"GET /x?token=s HTTP/1.1\n\n", "400 no Host (RFC 9112 section 3.2), in \"GET /x?(hidden) HTTP/1.1\""},
    {"GET /a b?c d HTTP/1.1\nHost: a\n\n",
     "400 a malformed request target (RFC 9112 section 3.2), in \"GET /a b?(hidden) HTTP/1.1\""},
    {"GET http://u:s@a/ HTTP/1.1\nHost: a\n\n",
     "400 a request target with a malformed authority (RFC 9112 section 3.2.2), in \"GET http://(hidden)@a/ "
     "HTTP/1.1\""},
    {"GET /\x01\x1b[2J HTTP/1.1\nHost: a\n\n",
     "400 a malformed request target (RFC 9112 section 3.2), in \"GET /\\x01\\x1B[2J HTTP/1.1\""},
    {GET "Host: b\n\n", "400 more than one Host (RFC 9112 section 3.2), in \"GET / HTTP/1.1\""},
    {GET "a_b: 1\n\n", "400 a field name with an underscore (http1.allow_underscores: false), in \"GET / HTTP/1.1\""},
    {GET "Content-Length: 1\nTransfer-Encoding: chunked\n\n",
     "400 both Transfer-Encoding and Content-Length (RFC 9112 section 6.3), in \"GET / HTTP/1.1\""},
    {GET "a b: c\n\n",
     "400 white space between a field's name and its colon (RFC 9112 section 5.1), in \"GET / HTTP/1.1\""},
    {GET "Expect: x\n\n",
     "417 an expectation that is not 100-continue (RFC 9110 section 10.1.1), in \"GET / HTTP/1.1\""},
    {"GET / HTTP/1.1\v", "400 a line that does not end with CR LF (RFC 9112 section 2.2), in \"GET / HTTP/1.1\""},
    {"GET / HTTP/2.0\n\n", "505 a version other than HTTP/1.0 and 1.1 (RFC 9112 section 2.3), in \"GET / HTTP/2.0\""},
    {"CONNECT a:1 HTTP/1.1\nHost: a:1\n\n",
     "501 the method CONNECT is not allowed (allow_connect: false), in \"CONNECT a:1 HTTP/1.1\""},
    // Limits.
    {GET "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n\n", "431 too many fields (max_fields: 5), in \"GET / HTTP/1.1\""},
    {GET "a: " + std::string(500, 'x'), "431 a head that is too large (max_head: 400), in \"GET / HTTP/1.1\""},
    {"GET /" + std::string(20, 'y') + "?" + std::string(100, 'x'),
     "414 a start line that is too long (max_start_line: 60), in \"GET /yyyyyyyyyyyyyyyyyyyy?(hidden)\""},
    // What is no request at all: the first word, and nothing where it may be the rest of a body.
    {"AUTH secret\n\n",
     "400 a request line without exactly three parts (RFC 9112 section 3), in \"AUTH\" and 7 more bytes"},
    {"\x16\x03\x01\x02",
     "400 a message that does not begin like HTTP (RFC 9112 section 2.1), in \"\\x16\\x03\\x01\\x02\""},
    {GET "\npassword=secret&x=y\n\n",
     "400 a request line without exactly three parts (RFC 9112 section 3), in 19 bytes that do not look like a "
     "request"},
    // Behind the head: the receiver knows the request.
    {CHUNKED "x\n", "behind the head: 400 a malformed chunk size (RFC 9112 section 7.1)"},
    {CHUNKED "1;" + std::string(300, 'x'),
     "behind the head: 400 a chunk extension that is too long (fixed limit: 256 bytes)"},
    {CHUNKED "0\nX_Y: 1\n\n", "behind the head: 400 a field name with an underscore (http1.allow_underscores: false)"},
};

#undef GET
#undef CHUNKED

class RulesOfHttp1 : public Http1Test, public testing::WithParamInterface<size_t> {};

TEST_P(RulesOfHttp1, AreNamed) {
  const Row& row = kHttp1Rows[GetParam()];
  options_.limits.fields = 5;
  options_.limits.head_bytes = 400;
  options_.limits.start_line_bytes = 60;
  RecordingOrigin origin;
  Http1Server server(pool_, options_, counters_, origin);
  feed(server, wire(row.sent));
  EXPECT_EQ(origin.logged, row.logged);
}

INSTANTIATE_TEST_SUITE_P(, RulesOfHttp1, testing::Range(size_t{0}, std::size(kHttp1Rows)));

class RefusalsOfHttp1 : public Http1Test {};

TEST_F(RefusalsOfHttp1, OverMemoryIsNoRuleOfTheNextRequest) {
  RecordingOrigin origin;
  origin.most_held_bytes = 0;
  Http1Server server(pool_, options_, counters_, origin);
  feed(server, wire("GET /a HTTP/1.1\nHost: a\n\nGET /b HTTP/1.1\nHost: a\n\n"));
  EXPECT_EQ(origin.logged, "503 " + std::string(HttpCodec::kOverMemory));
}

// ---- HTTP/2 ----

class RecordingServer final : public HttpCodec::Acceptor {
 public:
  class Stream final : public StreamReceiver {
   public:
    explicit Stream(std::string& to) : logged(to) {}
    void on_head(HttpStream&, Head&&, bool) override {}
    void on_body(HttpStream&, Buffer&& body, bool) override { body.clear(); }
    void on_trailers(HttpStream&, Fields&&) override {}
    void on_reset(HttpStream&, ResetReason) override {}
    void on_drained(HttpStream&) override {}
    void on_broken(HttpStream&, const BrokenMessage& message) override {
      logged += "behind the head: " + words(message);
    }
    std::string& logged;
  };

  StreamReceiver& on_stream(HttpStream&) override { return stream; }
  void on_refused(const BrokenMessage& message) override { logged += words(message); }
  void on_failed(const BrokenMessage& message) override { logged += "the connection: " + words(message); }
  std::string logged;
  Stream stream{logged};
};

http2::FieldList with_path(std::string_view path, http2::FieldList more = {}) {
  http2::FieldList fields = {
      {":method", "GET"}, {":scheme", "https"}, {":authority", "a.example"}, {":path", std::string(path)}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::vector<Row> http2_rows() {
  using http2::data;
  using http2::frame;
  using http2::get;
  using http2::headers;
  using http2::kEnd;
  using http2::post;
  using Type = Http2FrameType;
  http2::FieldList many;
  for (int i = 0; i < 6; ++i) many.emplace_back("a" + std::to_string(i), "b");
  return {
      {get(1), ""},
      {headers(1, kEnd, with_path("/x?token=s", {{"host", "b"}})),
       "a Host that differs from :authority (RFC 9113 section 8.3.1), in HEADERS of stream 1: GET "
       "https://a.example/x?(hidden)"},
      {headers(1, kEnd, {{":method", "GET"}, {":scheme", "https"}}),
       "no :path (RFC 9113 section 8.3.1), in HEADERS of stream 1: GET https://"},
      {headers(1, kEnd, with_path("/\x01")),
       "a malformed :path (RFC 9113 section 8.3.1), in HEADERS of stream 1: GET https://a.example"},
      {headers(3, kEnd, with_path("/", {{"connection", "x"}})),
       "a field of HTTP/1.1 connections (RFC 9113 section 8.2.2), in HEADERS of stream 3: GET https://a.example/"},
      {get(1, {{"content-length", "1"}}),
       "a Content-Length without content (RFC 9113 section 8.1.1), in HEADERS of stream 1: GET https://a.example/"},
      {get(1, many),
       "431 the request's fields are too large (max_head: 400, max_fields: 5), in HEADERS of stream 1: GET "
       "https://a.example/"},
      // Behind the head.
      {post(1, {{"content-length", "1"}}) + data(1, "xy"),
       "behind the head: more DATA than Content-Length (RFC 9113 section 8.1.1), in DATA of stream 1"},
      {post(1, {{"content-length", "3"}}) + data(1, "xy", true),
       "behind the head: less DATA than Content-Length (RFC 9113 section 8.1.1), in DATA of stream 1"},
      {get(1) + data(1, "x"),
       "behind the head: DATA behind the end of the request (RFC 9113 section 5.1), in DATA of stream 1"},
      {post(1) + headers(1, 0, {{"a", "b"}}),
       "behind the head: trailers without END_STREAM (RFC 9113 section 8.1), in HEADERS of stream 1"},
      {post(1) + headers(1, kEnd, {{":path", "/"}}),
       "behind the head: a pseudo-header field in trailers (RFC 9113 section 8.1), in HEADERS of stream 1"},
      {post(1) + http2::window_update(1, 0),
       "behind the head: WINDOW_UPDATE with an increment of 0 (RFC 9113 section 6.9), in WINDOW_UPDATE of stream 1"},
      // The connection.
      {data(1, "x"), "the connection: DATA on an idle stream (RFC 9113 section 5.1), in DATA of stream 1"},
      {frame(Type::kPing, 0, 0, "1"), "the connection: PING with a wrong length (RFC 9113 section 6.7), in PING"},
      {frame(Type::kHeaders, kEnd, 1, http2::block(with_path("/?s"))) + http2::ping(),
       "the connection: a header block is interrupted (RFC 9113 section 4.3), in PING: GET "
       "https://a.example/?(hidden)"},
      {get(2),
       "the connection: HEADERS on a stream that the peer may not open (RFC 9113 section 5.1.1), in HEADERS of "
       "stream 2"},
      {frame(Type{0x20}, 0, 0, std::string(16385, 'x')),
       "the connection: a frame is longer than SETTINGS_MAX_FRAME_SIZE (RFC 9113 section 4.2), in a frame of an "
       "unknown "
       "type"},
      {post(1) + data(1, "") + data(1, "") + data(1, ""),
       "the connection: too many empty DATA frames in a row (fixed limit: 8), in DATA of stream 1"},
  };
}

class RulesOfHttp2 : public Http1Test {};

TEST_F(RulesOfHttp2, AreNamed) {
  Http2Limits limits;
  limits.header_list_bytes = 400;
  limits.header_fields = 5;
  limits.empty_data = 2;  // The table names the limit of the proxy.
  Http2Counters counters;
  const Http2Codec::Shared shared{pool_, limits, counters};
  for (const Row& row : http2_rows()) {
    RecordingServer server;
    Http2Codec codec(shared, &server);
    codec.receive(heap_buffer_of(std::string(kHttp2Preface) + http2::settings() + http2::settings_ack() + row.sent));
    EXPECT_EQ(server.logged, row.logged) << codec.error();
  }
}

// ---- What may be shown ----

TEST(ShownLine, IsCut) {
  const std::string line = shown_line("GET /" + std::string(1000, 'x'), true);
  EXPECT_EQ(line.size(), kShownBytes + 2);
  EXPECT_TRUE(line.ends_with("xxx...\""));
  const std::string escaped = shown_line("GET /" + std::string(1000, '\xff'), true);
  EXPECT_LE(escaped.size(), kShownBytes + 2);
  EXPECT_TRUE(escaped.ends_with("\\xFF...\"")) << escaped;
}

TEST(ShownLine, HasNoSecrets) {
  EXPECT_EQ(shown_line("GET /a?b=c", true), "\"GET /a?(hidden)\"");
  EXPECT_EQ(shown_line("GET /a?b=c HTTP/1.1", false), "\"GET /a?(hidden) HTTP/1.1\"");
  EXPECT_EQ(shown_line("GET /a?b HTTP/1.1 c HTTP/1.1", true), "\"GET /a?(hidden) HTTP/1.1\"");
  EXPECT_EQ(shown_line("GET http://user:a/b@host/@x HTTP/1.1", true), "\"GET http://(hidden)@x HTTP/1.1\"");
  EXPECT_EQ(shown_line("GET x HTTP/1.1", true), "\"GET x HTTP/1.1\"");
  EXPECT_EQ(shown_line("USER me", true), "\"USER\" and 3 more bytes");
  EXPECT_EQ(shown_line("secret", false), "6 bytes that do not look like a request");
  EXPECT_EQ(shown_line(std::string(40, 's'), true), "\"" + std::string(32, 's') + "\" and 8 more bytes");
  EXPECT_EQ(shown_line("a\"b\\c\x7f", true), "\"a\\x22b\\x5Cc\\x7F\"");
}

TEST(Rules, HaveNumbers) {
  EXPECT_EQ(rule_index("nothing of the table"), 0);
  EXPECT_EQ(rule_text(0), "");
  const HttpRuleIndex index = rule_index("no Host");
  EXPECT_NE(index, 0);
  EXPECT_EQ(rule_text(index), "no Host");
  std::array<char, kRuleTextBytes> room;
  EXPECT_EQ(describe_rule("nothing of the table", {}, room), "nothing of the table");
  EXPECT_EQ(describe_rule(std::string(1000, 'x'), {}, room).size(), kRuleTextBytes);
  EXPECT_EQ(describe_rule("a header block was not complete within header_timeout", {}, room),
            "a header block was not complete within header_timeout (header_timeout: 10s)");
}

}  // namespace
}  // namespace sluice::test
