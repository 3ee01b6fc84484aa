// The cases of h2spec's sections (generic, http2, hpack), and more of RFC 9113, as tables by section.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/proxy/http/h2/rig.h"

namespace sluice::test::http2 {
namespace {

using Type = Http2FrameType;

struct Case {
  const char* section;
  std::string sent;      // Sent after the preface and both SETTINGS.
  std::string expected;  // The frames that come back, except SETTINGS and WINDOW_UPDATEs.
};

std::string pri(uint32_t stream, std::string_view payload) { return frame(Type::kPriority, 0, stream, payload); }
std::string priority(uint32_t on) { return u32(on) + '\x10'; }
std::string raw_headers(uint32_t stream, uint8_t flags, std::string_view payload) {
  return frame(Type::kHeaders, flags, stream, payload);
}
std::string continuation(uint32_t stream, uint8_t flags, std::string_view payload) {
  return frame(Type::kContinuation, flags, stream, payload);
}
std::string with(FieldList fields) { return headers(1, kEnd, fields); }
FieldList without(std::string_view name) {
  FieldList fields = get_fields();
  std::erase_if(fields, [name](const auto& field) { return field.first == name; });
  return fields;
}

const std::string kBlock = block(get_fields());
const std::string kPostBlock = block(get_fields({}, "POST"));

// The server sends no responses by itself, so a good request causes silence; a PING after it shows that the connection
// works.
const std::string kFine = "PING ack";

std::vector<Case> server_cases() {
  const std::string bad = "RST 1 PROTOCOL_ERROR; PING ack";
  return {
      {"4.1 unknown frame types are ignored", frame(Type{0x16}, 0xff, 0, "abc") + frame(Type{0xf0}, 0, 1, "abc"),
       kFine},
      {"4.1 undefined flags are ignored", ping(0x16), "PING ack; PING ack"},
      {"4.1 the reserved bit is ignored", frame(Type::kPing, 0, 0x80000000, "12345678"), "PING ack; PING ack"},
      {"4.2 the largest frame", post(1) + data(1, std::string(16384, 'x')), kFine},
      {"4.2 a DATA frame that is too large", post(1) + data(1, std::string(16385, 'x')), "GOAWAY 1 FRAME_SIZE_ERROR"},
      {"4.2 a HEADERS frame that is too large", raw_headers(1, 5, std::string(16385, 'x')),
       "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"4.3 a block that cannot be decoded", raw_headers(1, 5, "\x40"), "GOAWAY 1 COMPRESSION_ERROR"},
      {"4.3 another frame within a block", raw_headers(1, 1, kBlock) + pri(1, priority(0)) + continuation(1, 4, kBlock),
       "GOAWAY 1 PROTOCOL_ERROR"},
      {"4.3 another stream's HEADERS within a block", raw_headers(1, 1, kBlock) + raw_headers(3, 5, kBlock),
       "GOAWAY 1 PROTOCOL_ERROR"},
      {"5.1 idle: DATA", data(1, "x"), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1 idle: RST_STREAM", rst(1), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1 idle: WINDOW_UPDATE", window_update(1, 100), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1 idle: CONTINUATION", continuation(1, 4, kBlock), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1 idle: PRIORITY", pri(1, priority(0)), kFine},
      {"5.1 half-closed (remote): DATA", get(1) + data(1, "x", true), "RST 1 STREAM_CLOSED; PING ack"},
      {"5.1 half-closed (remote): HEADERS", get(1) + get(1), "RST 1 STREAM_CLOSED; PING ack"},
      {"5.1 half-closed (remote): CONTINUATION", get(1) + continuation(1, 4, kBlock), "GOAWAY 1 PROTOCOL_ERROR"},
      {"5.1 half-closed (remote): WINDOW_UPDATE, PRIORITY", get(1) + window_update(1, 1) + pri(1, priority(0)), kFine},
      {"5.1 closed by its RST_STREAM: DATA", post(1) + rst(1) + data(1, "x", true), "GOAWAY 1 STREAM_CLOSED"},
      {"5.1 closed by its RST_STREAM: HEADERS", post(1) + rst(1) + get(1), "GOAWAY 1 STREAM_CLOSED"},
      {"5.1 closed by its RST_STREAM: CONTINUATION", post(1) + rst(1) + continuation(1, 4, kBlock),
       "GOAWAY 1 PROTOCOL_ERROR"},
      {"5.1 closed by its RST_STREAM: others", post(1) + rst(1) + window_update(1, 9) + rst(1) + pri(1, priority(0)),
       kFine},
      {"5.1 closed by our RST_STREAM: anything",
       get(1) + data(1, "x") + data(1, "y") + get(1) + rst(1) + window_update(1, 0), "RST 1 STREAM_CLOSED; PING ack"},
      {"5.1.1 an even number", get(2), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1.1 a number below the last", get(5) + get(3), "GOAWAY 5 PROTOCOL_ERROR"},
      {"5.1.1 frames of a number that was passed over", get(5) + window_update(3, 1) + rst(3), kFine},
      {"5.3 a stream that depends on itself", pri(1, priority(1)) + raw_headers(1, 0x25, priority(1) + kBlock), kFine},
      {"5.5 extension frames within a block", raw_headers(1, 1, kBlock) + frame(Type{0xf0}, 0, 0, "abc"),
       "GOAWAY 1 PROTOCOL_ERROR"},
      {"6.1 DATA of stream 0", data(0, "x"), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.1 padding", post(1) + frame(Type::kData, 9, 1, std::string("\x03") + "abc" + std::string(3, '\0')), kFine},
      {"6.1 nothing but padding", post(1) + frame(Type::kData, 9, 1, std::string("\x03") + std::string(3, '\0')),
       kFine},
      {"6.1 too much padding",
       post(1) + frame(Type::kData, 8, 1,
                       "\x06"
                       "abcde"),
       "GOAWAY 1 PROTOCOL_ERROR"},
      {"6.1 no length of padding", post(1) + frame(Type::kData, 8, 1), "GOAWAY 1 FRAME_SIZE_ERROR"},
      {"6.2 HEADERS of stream 0", get(0), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.2 padding and priority", raw_headers(1, 0x2d, "\x02" + priority(0) + kBlock + std::string(2, '\0')), kFine},
      {"6.2 too much padding", raw_headers(1, 0xd, std::string("\xff") + kBlock), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.2 no length of padding", raw_headers(1, 0xd, ""), "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.2 half a priority", raw_headers(1, 0x25, "abc"), "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.3 PRIORITY of stream 0", pri(0, priority(1)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.3 PRIORITY of a wrong length", post(1) + pri(1, "abcd"), "RST 1 FRAME_SIZE_ERROR; PING ack"},
      {"6.3 PRIORITY of a wrong length, idle", pri(1, "abcd"), "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.4 RST_STREAM of stream 0", rst(0), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.4 RST_STREAM of a wrong length", post(1) + frame(Type::kRstStream, 0, 1, "abc"), "GOAWAY 1 FRAME_SIZE_ERROR"},
      {"6.4 an unknown error code", post(1) + rst(1, Http2Error{77}), kFine},
      {"6.5 an acknowledgement with a payload", frame(Type::kSettings, 1, 0, setting(2, 0)),
       "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.5 SETTINGS of a stream", frame(Type::kSettings, 0, 1, setting(2, 0)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.5 SETTINGS of a wrong length", settings("abc"), "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.5.2 ENABLE_PUSH", settings(setting(2, 2)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.5.2 INITIAL_WINDOW_SIZE", settings(setting(4, 0x80000000)), "GOAWAY 0 FLOW_CONTROL_ERROR"},
      {"6.5.2 MAX_FRAME_SIZE below", settings(setting(5, 16383)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.5.2 MAX_FRAME_SIZE above", settings(setting(5, 1 << 24)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.5.2 an unknown setting", settings(setting(0xff, 1)), "SETTINGS ack; PING ack"},
      {"6.5.3 the same twice", settings(setting(4, 100) + setting(4, 1)), "SETTINGS ack; PING ack"},
      {"RFC 8441 3 ENABLE_CONNECT_PROTOCOL", settings(setting(8, 2)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"RFC 8441 3 ENABLE_CONNECT_PROTOCOL taken back", settings(setting(8, 1)) + settings(setting(8, 0)),
       "SETTINGS ack; GOAWAY 0 PROTOCOL_ERROR"},
      {"RFC 9218 2.1 NO_RFC7540_PRIORITIES", settings(setting(9, 2)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.6 PUSH_PROMISE", get(1) + frame(Type::kPushPromise, 4, 1, u32(2) + kBlock), "GOAWAY 1 PROTOCOL_ERROR"},
      {"6.7 PING", ping(), "PING ack; PING ack"},
      {"6.7 a response to no PING", ping(1), kFine},
      {"6.7 PING of a stream", frame(Type::kPing, 0, 1, "12345678"), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.7 PING of a wrong length", ping(0, "123456"), "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.8 GOAWAY of a stream", frame(Type::kGoaway, 0, 1, std::string(8, '\0')), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.8 GOAWAY of a wrong length", frame(Type::kGoaway, 0, 0, "abc"), "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.9 WINDOW_UPDATE by 0, connection", window_update(0, 0), "GOAWAY 0 PROTOCOL_ERROR"},
      {"6.9 WINDOW_UPDATE by 0, stream", post(1) + window_update(1, 0), bad},
      {"6.9 WINDOW_UPDATE of a wrong length", frame(Type::kWindowUpdate, 0, 0, "abc"), "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"6.9.1 the connection's window overflows", window_update(0, 0x7fffffff) + window_update(0, 0x7fffffff),
       "GOAWAY 0 FLOW_CONTROL_ERROR"},
      {"6.9.1 a stream's window overflows", post(1) + window_update(1, 0x7fffffff) + window_update(1, 0x7fffffff),
       "RST 1 FLOW_CONTROL_ERROR; PING ack"},
      {"6.9.2 SETTINGS make a window overflow",
       post(1) + window_update(1, 0x7fffffff - 65535) + settings(setting(4, 65536)), "GOAWAY 1 FLOW_CONTROL_ERROR"},
      {"6.10 several CONTINUATIONs",
       raw_headers(1, 1, kBlock.substr(0, 5)) + continuation(1, 0, kBlock.substr(5, 5)) +
           continuation(1, 4, kBlock.substr(10)),
       kFine},
      {"6.10 CONTINUATION of stream 0", raw_headers(1, 1, kBlock) + continuation(0, 4, ""), "GOAWAY 1 PROTOCOL_ERROR"},
      {"6.10 CONTINUATION behind a whole block", get(1) + continuation(1, 4, kBlock), "GOAWAY 1 PROTOCOL_ERROR"},
      {"6.10 CONTINUATION behind DATA", post(1) + data(1, "x") + continuation(1, 4, kBlock), "GOAWAY 1 PROTOCOL_ERROR"},
      {"RFC 9218 7.1 PRIORITY_UPDATE", post(1) + frame(Type::kPriorityUpdate, 0, 0, u32(1) + "u=1, i"), kFine},
      {"RFC 9218 7.1 PRIORITY_UPDATE of an idle stream", frame(Type::kPriorityUpdate, 0, 0, u32(1) + "u=1"), kFine},
      {"RFC 9218 7.1 PRIORITY_UPDATE on a stream", frame(Type::kPriorityUpdate, 0, 1, u32(1)),
       "GOAWAY 0 PROTOCOL_ERROR"},
      {"RFC 9218 7.1 PRIORITY_UPDATE for stream 0", frame(Type::kPriorityUpdate, 0, 0, u32(0)),
       "GOAWAY 0 PROTOCOL_ERROR"},
      {"RFC 9218 7.1 PRIORITY_UPDATE too short", frame(Type::kPriorityUpdate, 0, 0, "abc"),
       "GOAWAY 0 FRAME_SIZE_ERROR"},
      {"8.1 a second head without an end", post(1) + post(1), bad},
      {"8.1 trailers", post(1) + data(1, "x") + headers(1, kEnd, {{"x-sum", "1"}}), kFine},
      {"8.1 a pseudo-header in trailers", post(1) + headers(1, kEnd, {{":method", "GET"}}), bad},
      {"8.1 content-length in trailers", post(1) + headers(1, kEnd, {{"content-length", "0"}}), bad},
      {"8.1.1 content-length and no DATA", with(get_fields({{"content-length", "1"}})), bad},
      {"8.1.1 content-length 0 and no DATA", with(get_fields({{"content-length", "0"}})), kFine},
      {"8.1.1 more DATA than content-length", post(1, {{"content-length", "1"}}) + data(1, "xx", true), bad},
      {"8.1.1 less DATA than content-length", post(1, {{"content-length", "3"}}) + data(1, "x") + data(1, "x", true),
       bad},
      {"8.1.1 as much", post(1, {{"content-length", "3"}}) + data(1, "x") + data(1, "xx", true), kFine},
      {"8.1.1 less, and trailers",
       post(1, {{"content-length", "3"}}) + data(1, "x") + headers(1, kEnd, {{"x-sum", "1"}}), bad},
      {"8.1.1 two content-lengths", post(1, {{"content-length", "3"}, {"content-length", "3"}}), bad},
      {"8.1.1 a content-length with a sign", post(1, {{"content-length", "+3"}}), bad},
      {"8.1.1 a content-length that is a list", post(1, {{"content-length", "3, 3"}}), bad},
      {"8.1.1 an empty content-length", post(1, {{"content-length", ""}}), bad},
      {"8.1.1 a content-length beyond 2^63", post(1, {{"content-length", "9999999999999999999"}}), bad},
      {"8.2 a capital in a name", with(get_fields({{"X-Test", "1"}})), bad},
      {"8.2.1 no name", with(get_fields({{"", "1"}})), bad},
      {"8.2.1 a space in a name", with(get_fields({{"x test", "1"}})), bad},
      {"8.2.1 a colon in a name", with(get_fields({{"x:test", "1"}})), bad},
      {"8.2.1 a byte beyond ASCII in a name", with(get_fields({{"x\xe4", "1"}})), bad},
      {"8.2.1 NUL in a value", with(get_fields({{"x", std::string("a\0b", 3)}})), bad},
      {"8.2.1 CR in a value", with(get_fields({{"x", "a\rb"}})), bad},
      {"8.2.1 LF in a value", with(get_fields({{"x", "a\nb"}})), bad},
      {"8.2.1 another control character in a value",
       with(get_fields({{"x",
                         "a\x01"
                         "b"}})),
       bad},
      {"8.2.1 a space before a value", with(get_fields({{"x", " a"}})), bad},
      {"8.2.1 a tab behind a value", with(get_fields({{"x", "a\t"}})), bad},
      {"8.2.1 a tab, and bytes beyond ASCII, in a value", with(get_fields({{"x", "a\t\xe4"}})), kFine},
      {"8.2.2 connection", with(get_fields({{"connection", "keep-alive"}})), bad},
      {"8.2.2 proxy-connection", with(get_fields({{"proxy-connection", "keep-alive"}})), bad},
      {"8.2.2 keep-alive", with(get_fields({{"keep-alive", "1"}})), bad},
      {"8.2.2 upgrade", with(get_fields({{"upgrade", "h2c"}})), bad},
      {"8.2.2 transfer-encoding", with(get_fields({{"transfer-encoding", "chunked"}})), bad},
      {"8.2.2 te", with(get_fields({{"te", "trailers, deflate"}})), bad},
      {"8.2.2 te: trailers", with(get_fields({{"te", "trailers"}})), kFine},
      {"8.3 an unknown pseudo-header", with(get_fields({{":test", "1"}})), bad},
      {"8.3 a response's pseudo-header", with(get_fields({{":status", "200"}})), bad},
      {"8.3 a pseudo-header behind a field",
       with({{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {"x", "1"}, {":path", "/"}}), bad},
      {"8.3.1 no :method", with(without(":method")), bad},
      {"8.3.1 no :scheme", with(without(":scheme")), bad},
      {"8.3.1 no :path", with(without(":path")), bad},
      {"8.3.1 no :authority and no host", with(without(":authority")), bad},
      {"8.3.1 two :methods", with(get_fields({{":method", "GET"}})), bad},
      {"8.3.1 two :schemes", with(get_fields({{":scheme", "https"}})), bad},
      {"8.3.1 two :paths", with(get_fields({{":path", "/"}})), bad},
      {"8.3.1 two :authorities", with(get_fields({{":authority", "a.example"}})), bad},
      {"8.3.1 an empty :path", with({{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", ""}}),
       bad},
      {"8.3.1 a :path without a slash",
       with({{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", "a"}}), bad},
      {"8.3.1 a :path with a space",
       with({{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/a b"}}), bad},
      {"8.3.1 a :path with a fragment",
       with({{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/a#b"}}), bad},
      {"8.3.1 * of OPTIONS", with({{":method", "OPTIONS"}, {":scheme", "https"}, {":authority", "a"}, {":path", "*"}}),
       kFine},
      {"8.3.1 * of GET", with({{":method", "GET"}, {":scheme", "https"}, {":authority", "a"}, {":path", "*"}}), bad},
      {"8.3.1 a :method that is no token",
       with({{":method", "GE T"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/"}}), bad},
      {"8.3.1 user information",
       with({{":method", "GET"}, {":scheme", "https"}, {":authority", "u@a"}, {":path", "/"}}), bad},
      {"8.3.1 host instead of :authority",
       with({{":method", "GET"}, {":scheme", "https"}, {":path", "/"}, {"host", "a"}}), kFine},
      {"8.3.1 host as :authority", with(get_fields({{"host", "A.example"}})), kFine},
      {"8.3.1 host unlike :authority", with(get_fields({{"host", "b.example"}})), bad},
      {"8.3.1 two hosts", with(get_fields({{"host", "a.example"}, {"host", "a.example"}})), bad},
      {"8.5 CONNECT", with({{":method", "CONNECT"}, {":authority", "a:1"}}), kFine},
      {"8.5 CONNECT without a port", with({{":method", "CONNECT"}, {":authority", "a"}}), bad},
      {"8.5 CONNECT with an empty port", with({{":method", "CONNECT"}, {":authority", "a:"}}), bad},
      {"8.3.1 an empty port",
       with({{":method", "GET"}, {":scheme", "https"}, {":authority", "a:"}, {":path", "/"}, {"host", "a"}}), kFine},
      {"8.3.1 a method that nobody knows",
       with({{":method", "UPDATE"}, {":scheme", "https"}, {":authority", "a"}, {":path", "/"}}), kFine},
      {"8.5 CONNECT without :authority", with({{":method", "CONNECT"}}), bad},
      {"8.5 CONNECT with :path", with({{":method", "CONNECT"}, {":authority", "a:1"}, {":path", "/"}}), bad},
      {"RFC 8441 4 extended CONNECT", headers(1, 0, get_fields({{":protocol", "websocket"}}, "CONNECT")), kFine},
      {"RFC 8441 4 :protocol of GET", headers(1, 0, get_fields({{":protocol", "websocket"}})), bad},
      {"RFC 8441 4 extended CONNECT without :path",
       headers(1, 0, {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "https"}, {":authority", "a"}}),
       bad},
      {"RFC 7541 2.3.3 an index beyond the tables", raw_headers(1, 5, "\xc6"), "GOAWAY 1 COMPRESSION_ERROR"},
      {"RFC 7541 4.2 a table size behind a field", raw_headers(1, 5, "\x82\x20"), "GOAWAY 1 COMPRESSION_ERROR"},
      {"RFC 7541 5.2 more padding than 7 bits", raw_headers(1, 5, from_hex("40 82 ffff 01 61")),
       "GOAWAY 1 COMPRESSION_ERROR"},
      {"RFC 7541 5.2 padding of zeros", raw_headers(1, 5, from_hex("40 81 18 01 61")), "GOAWAY 1 COMPRESSION_ERROR"},
      {"RFC 7541 5.2 EOS in a string", raw_headers(1, 5, from_hex("40 84 ffffffff 01 61")),
       "GOAWAY 1 COMPRESSION_ERROR"},
      {"RFC 7541 6.1 index 0", raw_headers(1, 5, "\x80"), "GOAWAY 1 COMPRESSION_ERROR"},
      {"RFC 7541 6.3 a table larger than we have", raw_headers(1, 5, from_hex("3fe21f")), "GOAWAY 1 COMPRESSION_ERROR"},
      {"RFC 7541 6 a field that is cut off", raw_headers(1, 5, kBlock.substr(0, 6)), "GOAWAY 1 COMPRESSION_ERROR"},
  };
}

class Http2Conformance : public PoolTest {
 protected:
  // In one piece, and byte by byte.
  static constexpr size_t kCuts[] = {0, 1, 7};
};

TEST_F(Http2Conformance, Server) {
  for (const Case& c : server_cases()) {
    for (const size_t cut : kCuts) {
      SCOPED_TRACE(std::string(c.section) + " cut " + std::to_string(cut));
      ScriptedPeer peer(pool_, true);
      peer.greet();
      const HttpCodec::Status status = peer.give(c.sent + ping(), cut);
      EXPECT_EQ(peer.output(), c.expected);
      const bool failed = c.expected.find("GOAWAY") != std::string::npos;
      EXPECT_EQ(status == HttpCodec::Status::kFailed, failed);
      EXPECT_EQ(peer.connection->error().empty(), !failed);
      for (const auto& exchange : peer.requests.exchanges) {
        EXPECT_EQ(exchange->reset, failed || c.expected.find("RST 1") != std::string::npos ||
                                       c.sent.find(rst(1)) != std::string::npos ||
                                       c.sent.find(rst(1, Http2Error{77})) != std::string::npos);
      }
    }
  }
}

TEST_F(Http2Conformance, ServerPreface) {  // Section 3.4.
  const struct {
    std::string sent, expected;
  } cases[] = {
      {std::string(kHttp2Preface) + settings() + ping(), "SETTINGS ack; PING ack"},
      {"GET / HTTP/1.1\r\n\r\n", "GOAWAY 0 PROTOCOL_ERROR"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", "GOAWAY 0 PROTOCOL_ERROR"},
      {std::string(kHttp2Preface) + ping(), "GOAWAY 0 PROTOCOL_ERROR"},
      {std::string(kHttp2Preface) + settings_ack(), "GOAWAY 0 PROTOCOL_ERROR"},
  };
  for (const auto& c : cases) {
    for (const size_t cut : kCuts) {
      ScriptedPeer peer(pool_, true);
      EXPECT_EQ(peer.take()[0].text(), "SETTINGS");
      peer.give(c.sent, cut);
      EXPECT_EQ(peer.output(), c.expected) << c.sent;
    }
  }
}

TEST_F(Http2Conformance, ServerClosedStream) {  // Section 5.1: closed, both by END_STREAM.
  const struct {
    std::string sent, expected;
  } cases[] = {
      {data(1, "x"), "GOAWAY 1 STREAM_CLOSED"},
      {get(1), "GOAWAY 1 STREAM_CLOSED"},
      {continuation(1, 4, kBlock), "GOAWAY 1 PROTOCOL_ERROR"},
      {window_update(1, 5), "PING ack"},
      {rst(1), "PING ack"},
      {pri(1, priority(3)), "PING ack"},
  };
  for (const auto& c : cases) {
    for (const bool released : {false, true}) {
      ScriptedPeer peer(pool_, true);
      peer.greet();
      peer.give(get(1));
      peer.requests[0].stream->send_head(response(pool_, 204), true);
      EXPECT_EQ(peer.output(), "HEADERS 1 end");
      if (released) peer.requests[0].release();
      peer.give(c.sent + ping());
      EXPECT_EQ(peer.output(), c.expected);
      EXPECT_FALSE(peer.requests[0].reset);
    }
  }
}

std::vector<Case> client_cases() {
  // One request is in progress on stream 1.
  const auto response_frame = [](std::string_view status, FieldList more = {}, uint8_t flags = kEnd) {
    FieldList fields = {{":status", std::string(status)}};
    fields.insert(fields.end(), more.begin(), more.end());
    return headers(1, flags, fields);
  };
  const std::string bad = "RST 1 PROTOCOL_ERROR; PING ack";
  return {
      {"8.1 a response", response_frame("200"), kFine},
      {"8.1 an informational one first", response_frame("103", {}, 0) + response_frame("200"), kFine},
      {"8.1 an informational one with an end", response_frame("103"), bad},
      {"8.1 trailers", response_frame("200", {}, 0) + data(1, "x") + headers(1, kEnd, {{"grpc-status", "0"}}), kFine},
      {"8.1 DATA first", data(1, "x"), bad},
      {"8.1 DATA behind an informational one", response_frame("103", {}, 0) + data(1, "x"), bad},
      {"8.1.1 content-length and no DATA", response_frame("200", {{"content-length", "1"}}), bad},
      {"8.1.1 less than content-length", response_frame("200", {{"content-length", "2"}}, 0) + data(1, "x", true), bad},
      {"8.1.1 DATA of a 204", response_frame("204", {}, 0) + data(1, "x", true), bad},
      {"8.1.1 no DATA of a 304", response_frame("304", {{"content-length", "5"}}), kFine},
      {"8.3.2 no :status", headers(1, kEnd, {{"x", "1"}}), bad},
      {"8.3.2 two of them", response_frame("200", {{":status", "200"}}), bad},
      {"8.3.2 :status of four digits", response_frame("2000"), bad},
      {"8.3.2 :status of two digits", response_frame("20"), bad},
      {"8.3.2 :status that is no number", response_frame("2x0"), bad},
      {"8.3.2 a request's pseudo-header", response_frame("200", {{":path", "/"}}), bad},
      {"8.6 101", response_frame("101", {}, 0), bad},
      {"8.2.2 connection", response_frame("200", {{"connection", "close"}}), bad},
      {"8.2.2 transfer-encoding", response_frame("200", {{"transfer-encoding", "chunked"}}), bad},
      {"6.5.2 ENABLE_PUSH of a server", settings(setting(2, 1)), "GOAWAY 0 PROTOCOL_ERROR"},
      {"8.4 PUSH_PROMISE", frame(Type::kPushPromise, 4, 1, u32(2) + block(get_fields())), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1.1 a stream of the server's own", headers(2, kEnd, {{":status", "200"}}), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1 idle: HEADERS", headers(3, kEnd, {{":status", "200"}}), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1 idle: DATA", data(3, "x"), "GOAWAY 0 PROTOCOL_ERROR"},
      {"5.1 half-closed (remote): DATA", response_frame("200") + data(1, "x"), "GOAWAY 0 STREAM_CLOSED"},
      {"RFC 9218 7.1 PRIORITY_UPDATE of a server", frame(Type::kPriorityUpdate, 0, 0, u32(1)),
       "GOAWAY 0 PROTOCOL_ERROR"},
  };
}

TEST_F(Http2Conformance, Client) {
  for (const Case& c : client_cases()) {
    for (const size_t cut : kCuts) {
      SCOPED_TRACE(std::string(c.section) + " cut " + std::to_string(cut));
      ScriptedPeer peer(pool_, false);
      peer.greet();
      Exchange exchange;
      exchange.stream = peer.connection->open_stream(exchange);
      exchange.stream->send_head(request(pool_), true);
      EXPECT_EQ(peer.output(), "HEADERS 1 end");
      peer.give(c.sent + ping(), cut);
      EXPECT_EQ(peer.output(), c.expected);
      const bool complete = c.expected == kFine || c.expected == "GOAWAY 0 STREAM_CLOSED";
      EXPECT_EQ(exchange.ended, complete);
      EXPECT_EQ(exchange.reset, !complete);
    }
  }
}

TEST_F(Http2Conformance, ClientPreface) {
  ScriptedPeer peer(pool_, false);
  Buffer out;
  peer.connection->flush(out);
  EXPECT_TRUE(out.starts_with(kHttp2Preface));
  peer.give(ping());
  EXPECT_EQ(peer.connection->error(), "the first frame is not SETTINGS");
}

TEST_F(Http2Conformance, SettingsAreSent) {
  ScriptedPeer server(pool_, true);
  std::vector<Frame> frames = server.take();
  EXPECT_EQ(frames[0].payload,
            setting(3, 100) + setting(8, 1) + setting(1, 4096) + setting(4, 65536) + setting(6, 32768) + setting(9, 1));
  EXPECT_EQ(frames[1].text(), "WINDOW_UPDATE 0 983041");
  ScriptedPeer client(pool_, false);
  frames = client.take();
  EXPECT_EQ(frames[0].payload,
            setting(2, 0) + setting(1, 4096) + setting(4, 65536) + setting(6, 32768) + setting(9, 1));
}

}  // namespace
}  // namespace sluice::test::http2
