// What the peers of http_session_fuzz.cc send when it is not just any bytes: requests and responses for either version,
// and frames.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/http/h2/frame.h"

namespace sluice::fuzz {

struct Text {
  std::string_view name, value;
};
using Texts = std::vector<Text>;

struct Request {
  std::string_view method, path;
  Texts fields;
  enum { kNone, kLength, kChunked } body = kNone;
};
inline constexpr std::string_view kKey = "dGhlIHNhbXBsZSBub25jZQ==";
// Requests to /chat request a websocket.
/// A placeholder for a token, which differs each time.
inline constexpr std::string_view kToken = "TOKEN";
inline const std::array<Request, 32> kRequests{{
    {"GET", "/", {}},
    {"POST", "/", {}, Request::kChunked},
    {"POST", "/", {{"content-length", "100"}}, Request::kLength},
    {"GET", "/1/a?b", {}},
    {"GET", "/2/a?b", {}},
    {"POST", "/1/a", {}, Request::kChunked},
    {"POST", "/2/a", {}, Request::kChunked},
    {"GET", "/chat", {{"sec-websocket-version", "13"}}},
    {"GET", "/2/chat", {{"sec-websocket-version", "13"}}},
    {"CONNECT", "", {}},
    {"HEAD", "/", {}},
    {"PUT", "/", {{"expect", "100-continue"}, {"content-length", "5000"}}, Request::kLength},
    {"POST",
     "/2/svc/Call",
     {{"content-type", "application/grpc"}, {"te", "trailers"}, {"grpc-timeout", "20S"}},
     Request::kChunked},
    {"POST", "/1/svc/Call", {{"content-type", "application/grpc"}, {"te", "trailers"}}, Request::kChunked},
    {"GET", "/answer", {}},
    {"POST", "/answer", {}, Request::kChunked},
    {"GET", "/closed", {}},
    {"GET", "/retry1", {}},
    {"GET", "/retry2", {}},
    {"OPTIONS", "*", {}},
    {"GET", "/a/../%2e/b//c;/..;/d\\e", {}},
    {"GET", "/", {{"connection", "close, x-hop"}, {"x-hop", "1"}, {"x_under", "2"}}},
    {"DELETE", "/1/", {{"cookie", "a=b; c=d"}, {"cookie", "e=f"}, {"x-forwarded-for", "1.2.3.4"}, {"via", "1.1 x"}}},
    {"PUT", "/1/", {{"transfer-encoding", "chunked"}, {"content-length", "5"}}, Request::kLength},
    {"GET", "/", {{"accept-encoding", "gzip, br;q=0.9, zstd;q=0.8"}, {"if-none-match", "\"a\""}}},
    {"GET", "/1/a/b?c=d", {{"authorization", "Basic Ym9iOmh1bnRlcjI="}, {"accept-encoding", "zstd"}}},
    {"GET", "/2/a/b", {{"authorization", kToken}, {"x-sub", "me"}, {"accept-encoding", "br"}}},
    {"OPTIONS",
     "/1/",
     {{"origin", "https://a.test"},
      {"access-control-request-method", "PUT"},
      {"access-control-request-headers", "x-a"}}},
    {"PUT",
     "/retry1",
     {{"content-length", "100"}, {"origin", "https://x.b.test"}, {"x-a", "1"}, {"accept-encoding", "gzip"}},
     Request::kLength},
    {"PUT", "/", {{"cookie", "token=a.b.c"}}, Request::kChunked},
    {"GET",
     "/answer/a?b",
     {{"accept", "application/json"},
      {"x-request-id", "a"},
      {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
      {"forwarded", "for=1.2.3.4;proto=https"}}},
    {"POST", "/retry2/svc/Call", {{"content-type", "application/grpc"}, {"te", "trailers"}}, Request::kChunked},
}};
inline bool is_websocket(const Request& request) { return request.path.ends_with("chat"); }

struct Response {
  std::string_view status;
  Texts fields;
  std::string_view body;  ///< The body in HTTP/1.1; or in HTTP/2, as DATA.
};
inline constexpr std::string_view kText = "a text that is long enough to be coded.\n";
inline const std::array<Response, 32> kResponses{{
    {"200", {{"content-length", "5"}}, "hello"},
    {"200", {{"transfer-encoding", "chunked"}}, ""},
    {"200", {{"content-length", "100"}}, ""},
    {"200", {}, "until the end"},
    {"204", {}, ""},
    {"304", {{"etag", "\"a\""}}, ""},
    {"100", {}, ""},
    {"103", {{"link", "</a>"}}, ""},
    {"101", {{"connection", "upgrade"}, {"upgrade", "websocket"}}, ""},
    {"200", {{"content-length", "0"}}, ""},
    {"500", {{"connection", "close"}, {"content-length", "3"}}, "bad"},
    {"200", {{"content-length", "5"}, {"content-length", "6"}}, "hello"},
    {"200", {{"transfer-encoding", "chunked"}, {"trailer", "x-sum"}}, "0\r\nx-sum: 1\r\n\r\n"},
    {"200", {{"content-type", "application/grpc"}, {"grpc-status", "0"}, {"content-length", "0"}}, ""},
    {"403", {{"content-length", "2"}}, "no"},
    {"421", {{"keep-alive", "timeout=1"}, {"content-length", "0"}}, ""},
    {"503", {{"retry-after", "1"}, {"content-length", "4"}}, "busy"},
    {"502", {{"content-length", "0"}}, ""},
    {"200", {{"content-type", "application/grpc"}, {"grpc-status", "14"}, {"content-length", "0"}}, ""},
    {"200", {{"content-type", "application/grpc"}, {"grpc-status", "8"}, {"content-length", "0"}}, ""},
    {"200", {{"content-type", "text/html"}, {"content-length", "40"}}, kText},
    {"200", {{"content-type", "text/html"}, {"etag", "\"a\""}}, kText},
    {"200", {{"content-type", "text/plain"}, {"vary", "accept"}, {"transfer-encoding", "chunked"}}, ""},
    {"200", {{"content-type", "text/plain"}, {"content-encoding", "br"}, {"content-length", "40"}}, kText},
    {"206", {{"content-type", "text/plain"}, {"content-range", "bytes 0-39/99"}, {"content-length", "40"}}, kText},
    {"200", {{"content-type", "text/plain"}, {"cache-control", "no-transform"}, {"content-length", "40"}}, kText},
    {"200", {{"content-type", "application/json"}, {"content-length", "30000"}}, ""},
    {"500", {{"transfer-encoding", "chunked"}}, ""},
    {"504", {}, "until the end"},
    {"301", {{"location", "/a"}, {"content-length", "0"}}, ""},
    {"401", {{"www-authenticate", "Basic"}, {"content-length", "2"}}, "no"},
    {"200",
     {{"set-cookie", "a=b"}, {"access-control-allow-origin", "*"}, {"x-request-id", "theirs"}, {"content-length", "5"}},
     "hello"},
}};

inline std::string u32(uint32_t value) {
  std::string bytes(4, '\0');
  write_frame_u32(reinterpret_cast<std::byte*>(bytes.data()), value);
  return bytes;
}
inline std::string frame(Http2FrameType type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string bytes(Http2FrameHeader::kBytes, '\0');
  Http2FrameHeader{static_cast<uint32_t>(payload.size()), type, flags, stream}.write(
      reinterpret_cast<std::byte*>(bytes.data()));
  return bytes.append(payload);
}
// `kind`: 0 keeps it out of the table, 0x40 adds it.
inline std::string literal(std::string_view name, std::string_view value, char kind = 0) {
  const auto text = [](std::string_view bytes) {
    bytes = bytes.substr(0, 126 + 0x3fff);
    if (bytes.size() < 127) return std::string(1, static_cast<char>(bytes.size())).append(bytes);
    const size_t more = bytes.size() - 127;
    const char size[] = {127, static_cast<char>(0x80 | (more & 0x7f)), static_cast<char>(more >> 7)};
    return std::string(size, sizeof size).append(bytes);
  };
  return kind + text(name) + text(value);
}
inline bool is_of_http1(std::string_view name) {
  return name == "connection" || name == "upgrade" || name == "transfer-encoding" || name == "keep-alive";
}
inline std::string chunk(std::string_view bytes) {
  std::string size;
  for (size_t left = bytes.size(); left > 0; left /= 16) size.insert(0, 1, "0123456789abcdef"[left % 16]);
  return bytes.empty() ? std::string() : size.append("\r\n").append(bytes).append("\r\n");
}

}  // namespace sluice::fuzz
