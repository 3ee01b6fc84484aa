#include "proxy/http/proxy/http_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "proxy/common/token.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/h2/limits.h"

namespace sluice {

namespace {

// What a rule is based on, if that is no RFC.
enum class Key : uint8_t {
  kNone,
  kStartLine,
  kHead,
  kFields,
  kHeadAndFields,
  kTwiceHead,
  kHeaderTimeout,
  kUnderscores,
  kConnect,
};

struct HttpRule {
  std::string_view text;
  std::string_view basis = {};
  Key key = Key::kNone;
};

#define HTTP1 "RFC 9112 section "
#define HTTP2 "RFC 9113 section "
#define SEMANTICS "RFC 9110 section "

// test/tree/http_rules_test.py compares it with the codecs.
constexpr HttpRule kRules[] = {
    {""},
    // HTTP/1.1: the start line.
    {"a message that does not begin like HTTP", HTTP1 "2.1"},
    {"a line that does not end with CR LF", HTTP1 "2.2"},
    {"a request line without exactly three parts", HTTP1 "3"},
    {"no HTTP version", HTTP1 "2.3"},
    {"a version other than HTTP/1.0 and 1.1", HTTP1 "2.3"},
    {"a method that is not a token", HTTP1 "3.1"},
    {"a method that is not forwarded", SEMANTICS "9.1"},
    {"the method CONNECT is not allowed", {}, Key::kConnect},
    {"a malformed request target", HTTP1 "3.2"},
    {"a request target * without OPTIONS", HTTP1 "3.2.4"},
    {"a request target that is neither a path nor an HTTP URI", HTTP1 "3.2"},
    {"a request target with a malformed authority", HTTP1 "3.2.2"},
    {"a CONNECT target that is not host:port", HTTP1 "3.2.3"},
    {"a start line that is too long", {}, Key::kStartLine},
    {"no status", HTTP1 "4"},
    {"a status outside 100 to 599", SEMANTICS "15"},
    {"a reason phrase with invalid characters", HTTP1 "4"},
    // Its fields.
    {"a head that is too large", {}, Key::kHead},
    {"too many fields", {}, Key::kFields},
    {"more than one Host", HTTP1 "3.2"},
    {"no Host", HTTP1 "3.2"},
    {"a malformed Host", HTTP1 "3.2"},
    {"a field line that begins with white space", HTTP1 "2.2"},
    {"a field line without a colon", HTTP1 "5"},
    {"white space between a field's name and its colon", HTTP1 "5.1"},
    {"a field name that is not a token", SEMANTICS "5.1"},
    {"a field name with an underscore", {}, Key::kUnderscores},
    {"a field value with invalid characters", SEMANTICS "5.5"},
    {"more than one Content-Length", HTTP1 "6.3"},
    {"a Content-Length that is not a number below 2^63", SEMANTICS "8.6"},
    {"more than one Transfer-Encoding", HTTP1 "6.1"},
    {"a Transfer-Encoding in HTTP/1.0", HTTP1 "6.1"},
    {"a Transfer-Encoding that is not chunked", HTTP1 "6.3"},
    {"a transfer coding other than chunked", HTTP1 "6.1"},
    {"both Transfer-Encoding and Content-Length", HTTP1 "6.3"},
    {"a Connection option that is not a token", SEMANTICS "7.6.1"},
    {"a Connection option that names an end-to-end field", SEMANTICS "7.6.1"},
    {"too many connection options", "fixed limit: 16"},
    {"an expectation that is not 100-continue", SEMANTICS "10.1.1"},
    {"a CONNECT with a body", SEMANTICS "9.3.6"},
    {"a websocket upgrade with a body", "RFC 6455 section 4.1"},
    {"a websocket upgrade without a valid key", "RFC 6455 section 4.2.1"},
    {"an upgrade that was not requested", SEMANTICS "7.8"},
    {"an upgrade without a valid Sec-WebSocket-Accept", "RFC 6455 section 4.1"},
    {"a Sec-WebSocket-Accept for another key", "RFC 6455 section 4.1"},
    // Its body.
    {"a chunk's header that does not end with CR LF", HTTP1 "7.1"},
    {"a chunk that does not end with CR LF", HTTP1 "7.1"},
    {"a malformed chunk size", HTTP1 "7.1"},
    {"a chunk size that is too large", HTTP1 "7.1"},
    {"a chunk extension with invalid characters", HTTP1 "7.1.1"},
    {"a chunk extension that is too long", "fixed limit: 256 bytes"},
    {"bytes after a response", HTTP1 "6.3"},
    {"bytes that belong to no response", HTTP1 "6.3"},
    {"too many responses before the final one", "fixed limit: 16"},
    // HTTP/2: connections and frames.
    {"no HTTP/2 preface", HTTP2 "3.4"},
    {"the first frame is not SETTINGS", HTTP2 "3.4"},
    {"a frame is longer than SETTINGS_MAX_FRAME_SIZE", HTTP2 "4.2"},
    {"a header block is interrupted", HTTP2 "4.3"},
    {"a header block cannot be decoded", HTTP2 "4.3"},
    {"CONTINUATION without a header block", HTTP2 "6.10"},
    {"PUSH_PROMISE, which is not supported", HTTP2 "8.4"},
    {"a stream frame on stream 0", HTTP2 "5.1.1"},
    {"PRIORITY with a wrong length", HTTP2 "6.3"},
    {"RST_STREAM with a wrong length", HTTP2 "6.4"},
    {"RST_STREAM on an idle stream", HTTP2 "6.4"},
    {"SETTINGS on a stream", HTTP2 "6.5"},
    {"SETTINGS with a wrong length", HTTP2 "6.5"},
    {"a SETTINGS acknowledgment has a payload", HTTP2 "6.5"},
    {"SETTINGS_ENABLE_PUSH is invalid", HTTP2 "6.5.2"},
    {"SETTINGS_INITIAL_WINDOW_SIZE is too large", HTTP2 "6.5.2"},
    {"SETTINGS_MAX_FRAME_SIZE is invalid", HTTP2 "6.5.2"},
    {"SETTINGS_ENABLE_CONNECT_PROTOCOL is invalid", "RFC 8441 section 3"},
    {"SETTINGS_NO_RFC7540_PRIORITIES is invalid", "RFC 9218 section 2.1"},
    {"SETTINGS make a window too large", HTTP2 "6.9.2"},
    {"PING on a stream", HTTP2 "6.7"},
    {"PING with a wrong length", HTTP2 "6.7"},
    {"GOAWAY on a stream", HTTP2 "6.8"},
    {"GOAWAY with a wrong length", HTTP2 "6.8"},
    {"WINDOW_UPDATE with a wrong length", HTTP2 "6.9"},
    {"WINDOW_UPDATE with an increment of 0", HTTP2 "6.9"},
    {"WINDOW_UPDATE makes the connection's window too large", HTTP2 "6.9.1"},
    {"WINDOW_UPDATE makes the stream's window too large", HTTP2 "6.9.1"},
    {"WINDOW_UPDATE on an idle stream", HTTP2 "5.1"},
    {"PRIORITY_UPDATE where it does not belong", "RFC 9218 section 7.1"},
    {"PRIORITY_UPDATE with a wrong length", "RFC 9218 section 7.1"},
    {"PRIORITY_UPDATE for no request", "RFC 9218 section 7.1"},
    {"HEADERS on stream 0", HTTP2 "6.2"},
    {"HEADERS without their padding's length", HTTP2 "6.2"},
    {"HEADERS without their priority", HTTP2 "6.2"},
    {"HEADERS have too much padding", HTTP2 "6.2"},
    {"HEADERS on a closed stream", HTTP2 "5.1"},
    {"HEADERS behind the end of the request", HTTP2 "5.1"},
    {"HEADERS on a stream that the peer may not open", HTTP2 "5.1.1"},
    {"a stream id is not above the earlier ones", HTTP2 "5.1.1"},
    {"DATA on stream 0", HTTP2 "6.1"},
    {"DATA without its padding's length", HTTP2 "6.1"},
    {"DATA has too much padding", HTTP2 "6.1"},
    {"DATA beyond the connection's window", HTTP2 "6.9.1"},
    {"DATA beyond the stream's window", HTTP2 "6.9.1"},
    {"DATA on an idle stream", HTTP2 "5.1"},
    {"DATA on a closed stream", HTTP2 "5.1"},
    {"DATA behind the end of the request", HTTP2 "5.1"},
    {"more DATA than Content-Length", HTTP2 "8.1.1"},
    {"less DATA than Content-Length", HTTP2 "8.1.1"},
    // HTTP/2: floods.
    {"too many PING frames", "fixed limit: 10 a second, 50 at once"},
    {"too many SETTINGS frames", "fixed limit: 1 a second, 50 at once"},
    {"too many SETTINGS in a frame", "fixed limit: 64"},
    {"too many frames that require a reply", "fixed limit: 100 a second, 1000 at once"},
    {"too many oddities", "fixed limit: 1 a second, 100 at once"},
    {"too many streams were reset", "fixed limit: 100, and one more for each completed request"},
    {"too many PRIORITY or unknown frames", "fixed limit: 100 for each stream"},
    {"too many frames on closed streams", "fixed limit: 1000, and 100 for each stream"},
    {"too many WINDOW_UPDATE frames", "fixed limit: 100, 2 for each stream, 10 for each DATA frame sent"},
    {"too many empty DATA frames in a row", "fixed limit: 8"},
    {"too many or empty CONTINUATION frames", "fixed limit: 8 in a header block"},
    {"too much queued output", "fixed limit: 1000 frames, 1 MiB"},
    {"a header block is far too large", {}, Key::kTwiceHead},
    {"a header block was not complete within header_timeout", {}, Key::kHeaderTimeout},
    // HTTP/2: heads.
    {"the request's fields are too large", {}, Key::kHeadAndFields},
    {"the request's trailers are too large", {}, Key::kHeadAndFields},
    {"trailers without END_STREAM", HTTP2 "8.1"},
    {"a pseudo-header field in trailers", HTTP2 "8.1"},
    {"a Content-Length in trailers", SEMANTICS "6.5.1"},
    {"a pseudo-header field after a header field", HTTP2 "8.3"},
    {"an unknown pseudo-header field", HTTP2 "8.3"},
    {"a repeated pseudo-header field", HTTP2 "8.3"},
    {"a malformed :method", HTTP2 "8.3.1"},
    {"a malformed :scheme", HTTP2 "8.3.1"},
    {"a malformed :authority", HTTP2 "8.3.1"},
    {"a malformed :path", HTTP2 "8.3.1"},
    {"no :method", HTTP2 "8.3.1"},
    {"no :scheme", HTTP2 "8.3.1"},
    {"no :path", HTTP2 "8.3.1"},
    {"neither :authority nor Host", HTTP2 "8.3.1"},
    {"a malformed or repeated Host", HTTP2 "8.3.1"},
    {"a Host that differs from :authority", HTTP2 "8.3.1"},
    {"an unexpected or malformed :protocol", "RFC 8441 section 4"},
    {"a :protocol without CONNECT", "RFC 8441 section 4"},
    {"CONNECT without a port in :authority", HTTP2 "8.5"},
    {"CONNECT with :scheme or :path", HTTP2 "8.5"},
    {"no :status", HTTP2 "8.3.2"},
    {"a malformed :status", HTTP2 "8.3.2"},
    {"a status that HTTP/2 does not have", HTTP2 "8.6"},
    {"a malformed field name", HTTP2 "8.2.1"},
    {"a malformed field value", HTTP2 "8.2.1"},
    {"a field of HTTP/1.1 connections", HTTP2 "8.2.2"},
    {"a TE other than trailers", HTTP2 "8.2.2"},
    {"a malformed or repeated Content-Length", HTTP2 "8.1.1"},
    {"a Content-Length without content", HTTP2 "8.1.1"},
};
static_assert(std::size(kRules) <= size_t{UINT8_MAX} + 1);

#undef HTTP1
#undef HTTP2
#undef SEMANTICS

// The fixed limits that the table names.
static_assert(Http1Limits{}.connection_options == 16 && Http1Limits{}.informational == 16 &&
              Http1Limits{}.chunk_extension_bytes == 256);
static_assert(Http2Limits{}.pings_per_10s == 100 && Http2Limits{}.pings_burst == 50);
static_assert(Http2Limits{}.settings_per_10s == 10 && Http2Limits{}.settings_burst == 50 &&
              Http2Limits{}.settings_entries == 64);
static_assert(Http2Limits{}.replies_per_10s == 1000 && Http2Limits{}.replies_burst == 1000);
static_assert(Http2Limits{}.glitches_per_10s == 10 && Http2Limits{}.glitches_burst == 100);
static_assert(Http2Limits{}.resets == 100 && Http2Limits{}.frames_unused_per_stream == 100);
static_assert(Http2Limits{}.frames_on_closed == 1000 && Http2Limits{}.frames_on_closed_per_stream == 100);
static_assert(Http2Limits{}.window_updates == 100 && Http2Limits{}.window_updates_per_data == 10);
static_assert(Http2Limits{}.empty_data == 8 && Http2Limits{}.continuations == 8);
static_assert(Http2Limits{}.queued_control_frames == 1000 && Http2Limits{}.queued_control_bytes == 1 << 20);

// The keys with their values, as one writes them.
std::string key_text(Key key, const config::Http& http) {
  switch (key) {
    case Key::kNone:
      break;
    case Key::kStartLine:
      return absl::StrCat("max_start_line: ", config::print_size(http.max_start_line));
    case Key::kHead:
      return absl::StrCat("max_head: ", config::print_size(http.max_head));
    case Key::kFields:
      return absl::StrCat("max_fields: ", http.max_fields);
    case Key::kHeadAndFields:
      return absl::StrCat("max_head: ", config::print_size(http.max_head), ", max_fields: ", http.max_fields);
    case Key::kTwiceHead:
      return absl::StrCat("twice max_head: ", config::print_size(http.max_head),
                          ", far over max_fields: ", http.max_fields);
    case Key::kHeaderTimeout:
      return absl::StrCat("header_timeout: ", config::print_duration(http.header_timeout));
    case Key::kUnderscores:
      return "http1.allow_underscores: false";
    case Key::kConnect:
      return "allow_connect: false";
  }
  return {};
}

}  // namespace

HttpRuleIndex rule_index(std::string_view rule) {
  const auto* const found =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const HttpRule& each) { return each.text == rule; });
  return found == std::end(kRules) ? HttpRuleIndex{0} : static_cast<HttpRuleIndex>(found - std::begin(kRules));
}

std::string_view rule_text(HttpRuleIndex index) { return index < std::size(kRules) ? kRules[index].text : ""; }

std::string_view describe_rule(std::string_view rule, const config::Http& http, std::span<char, kRuleTextBytes> room) {
  size_t size = 0;
  const auto add = [&](std::string_view text) {
    size += text.substr(0, room.size() - size).copy(room.data() + size, room.size() - size);
  };
  add(rule);
  const HttpRule& known = kRules[rule_index(rule)];
  if (!known.text.empty()) {
    add(" (");
    add(known.basis.empty() ? std::string_view(key_text(known.key, http)) : known.basis);
    add(")");
  }
  return {room.data(), size};
}

}  // namespace sluice
