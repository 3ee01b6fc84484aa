// One side of HTTP/2 against a scripted peer: frames as bytes in, frames as text out.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/http/h2/http2_codec.h"
#include "test/buffer/pool_fixture.h"
#include "test/support/buffers.h"

namespace sluice::test::http2 {

using FieldList = std::vector<std::pair<std::string, std::string>>;

// ---- Frames as bytes ----

inline std::string u32(uint32_t value) {
  std::string bytes(4, '\0');
  for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (24 - 8 * i));
  return bytes;
}

inline std::string frame(Http2FrameType type, uint8_t flags, uint32_t stream, std::string_view payload = {}) {
  const auto length = static_cast<uint32_t>(payload.size());
  std::string bytes = u32(length << 8 | static_cast<uint32_t>(type));
  bytes.push_back(static_cast<char>(flags));
  return bytes + u32(stream) + std::string(payload);
}

inline std::string hpack_text(std::string_view text) {
  std::string bytes;
  if (text.size() < 127) {
    bytes.push_back(static_cast<char>(text.size()));
  } else {
    bytes.push_back(0x7f);
    size_t rest = text.size() - 127;
    for (; rest >= 128; rest /= 128) bytes.push_back(static_cast<char>(rest % 128 + 128));
    bytes.push_back(static_cast<char>(rest));
  }
  return bytes + std::string(text);
}

/// Literals without indexing, so that blocks do not depend on each other.
inline std::string block(const FieldList& fields) {
  std::string bytes;
  for (const auto& [name, value] : fields) bytes += std::string(1, '\0') + hpack_text(name) + hpack_text(value);
  return bytes;
}

inline constexpr uint8_t kEnd = Http2FrameHeader::kEndStream;
inline constexpr uint8_t kEndHeaders = Http2FrameHeader::kEndHeaders;

inline std::string headers(uint32_t stream, uint8_t flags, const FieldList& fields) {
  return frame(Http2FrameType::kHeaders, flags | kEndHeaders, stream, block(fields));
}
inline FieldList get_fields(FieldList more = {}, std::string_view method = "GET") {
  FieldList fields = {
      {":method", std::string(method)}, {":scheme", "https"}, {":authority", "a.example"}, {":path", "/"}};
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}
inline std::string get(uint32_t stream, FieldList more = {}) {
  return headers(stream, kEnd, get_fields(std::move(more)));
}
inline std::string post(uint32_t stream, FieldList more = {}) {
  return headers(stream, 0, get_fields(std::move(more), "POST"));
}
inline std::string data(uint32_t stream, std::string_view bytes, bool end = false) {
  return frame(Http2FrameType::kData, end ? kEnd : 0, stream, bytes);
}
inline std::string setting(uint16_t name, uint32_t value) {
  return std::string{static_cast<char>(name >> 8), static_cast<char>(name)} + u32(value);
}
inline std::string settings(std::string_view entries = {}) { return frame(Http2FrameType::kSettings, 0, 0, entries); }
inline std::string settings_ack() { return frame(Http2FrameType::kSettings, Http2FrameHeader::kAck, 0); }
inline std::string ping(uint8_t flags = 0, std::string_view bytes = "12345678") {
  return frame(Http2FrameType::kPing, flags, 0, bytes);
}
inline std::string rst(uint32_t stream, Http2Error code = Http2Error::kCancel) {
  return frame(Http2FrameType::kRstStream, 0, stream, u32(static_cast<uint32_t>(code)));
}
inline std::string window_update(uint32_t stream, uint32_t more) {
  return frame(Http2FrameType::kWindowUpdate, 0, stream, u32(more));
}
inline std::string goaway(uint32_t last, Http2Error code = Http2Error::kNoError) {
  return frame(Http2FrameType::kGoaway, 0, 0, u32(last) + u32(static_cast<uint32_t>(code)));
}

// ---- Frames as text ----

inline std::string error_name(uint32_t code) {
  const std::string_view name = http2_error_name(static_cast<Http2Error>(code));
  return name.empty() ? std::to_string(code) : std::string(name);
}

struct Frame {
  Http2FrameHeader header;
  std::string payload;
  uint32_t number(size_t at) const { return read_frame_u32(std::as_bytes(std::span(payload)), at); }
  std::string text() const {
    const std::string stream = std::to_string(header.stream);
    const std::string end = header.has(kEnd) ? " end" : "";
    switch (header.type) {
      case Http2FrameType::kData:
        return "DATA " + stream + " " + std::to_string(header.length) + end;
      case Http2FrameType::kHeaders:
        return "HEADERS " + stream + end;
      case Http2FrameType::kContinuation:
        return "CONTINUATION " + stream;
      case Http2FrameType::kRstStream:
        return "RST " + stream + " " + error_name(number(0));
      case Http2FrameType::kSettings:
        return header.has(Http2FrameHeader::kAck) ? "SETTINGS ack" : "SETTINGS";
      case Http2FrameType::kPing:
        return header.has(Http2FrameHeader::kAck) ? "PING ack" : "PING";
      case Http2FrameType::kGoaway:
        return "GOAWAY " + std::to_string(number(0)) + " " + error_name(number(4));
      case Http2FrameType::kWindowUpdate:
        return "WINDOW_UPDATE " + stream + " " + std::to_string(number(0));
      default:
        return "type " + std::to_string(static_cast<int>(header.type));
    }
  }
};

/// Takes whole frames off the front of `bytes`.
inline std::vector<Frame> frames_of(std::string& bytes) {
  std::vector<Frame> frames;
  while (bytes.size() >= Http2FrameHeader::kBytes) {
    const auto header = Http2FrameHeader::read(std::as_bytes(std::span(bytes)));
    if (bytes.size() < Http2FrameHeader::kBytes + header.length) break;
    frames.push_back({header, bytes.substr(Http2FrameHeader::kBytes, header.length)});
    bytes.erase(0, Http2FrameHeader::kBytes + header.length);
  }
  return frames;
}

// ---- The application ----

/// Records the calls of a stream, and checks that they come in the order of stream.h.
class Exchange final : public StreamReceiver {
 public:
  ~Exchange() {
    if (stream && !released) stream->release();
  }
  void on_head(HttpStream& s, Head&& given, bool end) override {
    EXPECT_FALSE(ended || reset || (has_head && head.status >= 200) || (has_head && head.status == 0));
    stream = &s;
    if (given.status > 0 && given.status < 200) {
      EXPECT_FALSE(end);
      informational.push_back(given.status);
      return;
    }
    head = std::move(given);
    has_head = true;
    ended = end;
  }
  void on_body(HttpStream&, Buffer&& given, bool end) override {
    EXPECT_TRUE(has_head && !ended && !reset);
    EXPECT_TRUE(end || !given.empty());
    received += given.size();
    if (keep_body) body.append(std::move(given));
    ended = end;
  }
  void on_trailers(HttpStream&, Fields&& given) override {
    EXPECT_TRUE(has_head && !ended && !reset);
    trailers = std::move(given);
    has_trailers = ended = true;
  }
  void on_reset(HttpStream&, ResetReason why) override {
    EXPECT_FALSE(reset);
    reset = true;
    reason = why;
  }
  void on_drained(HttpStream&) override {
    EXPECT_FALSE(reset);
    ++drained;
  }
  void release() {
    released = true;
    stream->release();
  }

  HttpStream* stream = nullptr;
  Head head;
  Buffer body;
  Fields trailers;
  std::vector<uint16_t> informational;
  size_t received = 0;
  size_t drained = 0;
  ResetReason reason = ResetReason::kCancelled;
  bool has_head = false, has_trailers = false, ended = false, reset = false, released = false, keep_body = true;
};

/// All requests that a server received.
class Requests final : public HttpCodec::Acceptor {
 public:
  StreamReceiver& on_stream(HttpStream& stream) override {
    auto exchange = std::make_unique<Exchange>();
    exchange->stream = &stream;
    exchanges.push_back(std::move(exchange));
    return *exchanges.back();
  }
  bool admits(size_t held_bytes, size_t bytes) override { return held_bytes + bytes <= most_held_bytes; }
  Exchange& operator[](size_t index) { return *exchanges.at(index); }
  size_t size() const { return exchanges.size(); }
  size_t most_held_bytes = SIZE_MAX;
  std::vector<std::unique_ptr<Exchange>> exchanges;
};

inline Head response(ChunkPool& pool, uint16_t status, const FieldList& fields = {}) {
  Head head;
  head.status = status;
  for (const auto& [name, value] : fields) EXPECT_TRUE(head.fields.add(pool, name, value));
  return head;
}
inline Head request(ChunkPool& pool, std::string_view method = "GET", const FieldList& fields = {}) {
  Head head;
  EXPECT_TRUE(head.set(pool, Head::Part::kMethod, method));
  EXPECT_TRUE(head.set(pool, Head::Part::kScheme, "https"));
  EXPECT_TRUE(head.set(pool, Head::Part::kAuthority, "a.example"));
  EXPECT_TRUE(head.set(pool, Head::Part::kPath, "/"));
  for (const auto& [name, value] : fields) EXPECT_TRUE(head.fields.add(pool, name, value));
  return head;
}

// ---- Both together ----

/// A connection whose peer is the test.
class ScriptedPeer {
 public:
  ScriptedPeer(ChunkPool& the_pool, bool server, const Http2Limits& the_limits = {})
      : pool(the_pool), limits(the_limits), shared{pool, limits, counters}, is_server(server) {
    connection = std::make_unique<Http2Codec>(shared, server ? &requests : nullptr);
  }
  ~ScriptedPeer() {
    requests.exchanges.clear();
    connection.reset();
  }

  HttpCodec::Status give(std::string_view bytes, size_t cut = 0) {
    if (cut == 0) cut = std::max<size_t>(bytes.size(), 1);
    HttpCodec::Status status = bytes.empty() ? connection->receive(Buffer()) : connection->status();
    for (size_t at = 0; at < bytes.size(); at += cut) {
      status = connection->receive(buffer_of(pool, bytes.substr(at, cut)));
      while (connection->input_waits()) status = connection->receive(Buffer());
    }
    return status;
  }
  /// All frames that the connection sends now.
  std::vector<Frame> take() {
    Buffer out;
    while (connection->has_output()) connection->flush(out);
    sent_ += sluice::test::text_of(out);
    if (!is_server && sent_.starts_with(kHttp2Preface)) sent_.erase(0, kHttp2Preface.size());
    return frames_of(sent_);
  }
  /// The same as text, one line each; without window updates and our SETTINGS unless `all`.
  std::string output(bool all = false) {
    std::string text;
    for (const Frame& frame : take()) {
      if (!all && (frame.text().starts_with("WINDOW_UPDATE") || frame.text() == "SETTINGS")) continue;
      text += (text.empty() ? "" : "; ") + frame.text();
    }
    return text;
  }
  /// The SETTINGS of both sides, acknowledged.
  void greet(std::string_view entries = {}) {
    give((is_server ? std::string(kHttp2Preface) : "") + settings(entries) + settings_ack());
    take();
  }

  ChunkPool& pool;
  Http2Limits limits;
  Http2Counters counters;
  Http2Codec::Shared shared;
  Requests requests;
  std::unique_ptr<Http2Codec> connection;
  bool is_server;

 private:
  std::string sent_;
};

}  // namespace sluice::test::http2
